"""What a project shows beside the core's pages: tabs, named by `DURABLE_DASHBOARD_TABS`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from scrapy.utils.misc import load_object

from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_PATH = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader asks a tab for."""

    query: Mapping[str, str]
    """What stands behind the `?` of the address, the first of each name. As hostile as anything that a reader sends."""
    _render: Callable[..., str]

    def template(self, name: str, **values: Any) -> str:
        """The template of that name, of the tab's `templates`, with these values and `query`. Every text is escaped."""
        return self._render(name, query=self.query, **values)


class Tab(Protocol):
    """A page of a project, at `/tabs/<path>`.

    `DURABLE_DASHBOARD_TABS` is a list of classes, or of their import paths, as in `["shop.tabs.Prices"]`. Each is
    called once, at start, with the settings; raise `ConfigurationError` for what is wrong with them.

    The template extends `tab.html` of the core and fills its block `body`:

        {% extends "tab.html" %}
        {% block body %}
        <section class="card"><h2>Prices</h2>
          {% if rows %}<div class="scroll"><table>…</table></div>
          {% else %}<p class="empty">Nothing is known yet: prices come with the first run.</p>{% endif %}
          <div class="plot" data-plot="{{ plot | tojson | forceescape }}"></div>
        </section>
        {% endblock %}

    No inline styles, no inline handlers, no addresses of other sites: the page's policy lets none of them work. Classes
    there are: `grid` around `card`s, `counters` around `counter`s (a `b` with the number and a `span` with its name),
    `scroll` around a wide table, `number` on cells of numbers, `empty`, `hint`, `bar` (a `meter`), `filters` on a form.
    A form with `method="get"` and no action asks for the same page; its fields come as `Asked.query`.

    `plot` is drawn by the page with uPlot, at the width there is, in the colours of the reader's scheme:

        {"x": [1, 2, 3], "series": [{"label": "price", "values": [10, null, 12]}], "x_label": "age", "y_label": "R",
         "points": true, "time": false, "title": "Price over age"}

    `x` grows; `points`: a cloud and no lines; `time`: `x` are seconds since the epoch; `title` is what a screen reader
    is told. Of a few thousand points it is quick.
    """

    path: str
    """Of its address: lower-case letters, digits and hyphens."""
    title: str
    """A word or two."""
    templates: Path
    """The directory of its templates. A name that the core has too is the core's: begin yours with the tab's path."""

    async def render(self, asked: Asked) -> str:
        """The whole page, by `asked.template`. Called for each reading, so keep what is dear to make; work that takes
        longer than a few milliseconds belongs into `asyncio.to_thread`. `DurableError` and `OSError` are shown as one
        line.
        """


def load_tabs(settings: BaseSettings) -> list[Tab]:
    """Those of `DURABLE_DASHBOARD_TABS`. Raises `ConfigurationError`."""
    tabs: list[Tab] = []
    for named in settings.getlist("DURABLE_DASHBOARD_TABS"):
        try:
            kind = load_object(named)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise ConfigurationError(f"DURABLE_DASHBOARD_TABS: {named} cannot be loaded: {error}") from error
        tab: Tab = kind(settings)
        if not _PATH.fullmatch(tab.path) or tab.path in [other.path for other in tabs]:
            raise ConfigurationError(
                f"DURABLE_DASHBOARD_TABS: {named} has the path {tab.path!r}, which is no path of its own"
            )
        tabs.append(tab)
    return tabs
