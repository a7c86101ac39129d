"""Templates made into pages: every text that comes from elsewhere is plain, then escaped."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scrapy_durable.plain import plain
from scrapy_durable.status.condition import why
from scrapy_durable.status.life import key_text
from scrapy_durable.status.lines import pace
from scrapy_durable.status.words import address, duration, rate, size

if TYPE_CHECKING:
    from scrapy_durable.dashboard.tabs import Tab

HERE = Path(__file__).parent


class Templates:
    """Of the core, and of each tab."""

    def __init__(self, spider: str, tabs: Sequence[Tab]) -> None:
        self._shared: Mapping[str, Any] = {"spider": spider, "tabs": tabs}
        self._core = self._environment(HERE / "templates")
        self._of_tabs = {tab.path: self._environment(HERE / "templates", tab.templates) for tab in tabs}

    def render(self, name: str, tab: str = "", **values: Any) -> str:
        """The template of that name, for `tab` if it is one's."""
        environment = self._of_tabs[tab] if tab else self._core
        return environment.get_template(name).render(**self._shared, tab_path=tab, **values)

    def _environment(self, *directories: Path) -> Environment:
        environment = Environment(
            loader=ChoiceLoader([FileSystemLoader(directory) for directory in directories]),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_plain,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters.update(
            duration=duration, rate=rate, size=size, address=address, key=key_text, at=_at, count=_count
        )
        environment.globals.update(why=why, pace=pace)
        return environment


def _plain(value: object) -> object:
    """A text from elsewhere without what a reader cannot see, and without passwords."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def _count(number: float) -> str:
    return f"{number:,.0f}"
