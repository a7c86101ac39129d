"""What a crawl is asked to read, what it is called by that, and where what it finds belongs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from carscraper.api.endpoints import NO_FILTERS, SearchFilters
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

SEARCHES = "searches"
"""Directory below the output directory that holds a directory for each search."""

_PLAIN = re.compile(r"[A-Za-z0-9.+ -]*")
"""Values that stand in a name as they are, with `_` for a space."""
_LONGEST = 100
"""Characters of a name before its hash: below what any file system allows."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked for, in the one way to say it: two searches that are equal find the same."""

    limit: int | None = None
    """How many listings at most, newest first; None: all of them."""
    filters: SearchFilters = NO_FILTERS

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, str]) -> Search:
        """The search that the `-a` arguments of a spider ask for; scrapyd's `_job` is none of them.

        Raises `ConfigurationError` that names the first bad one.
        """
        rest = {name: value for name, value in arguments.items() if name != "_job"}
        text = rest.pop("limit", None)
        if text is not None and (not text.isdecimal() or not 0 < int(text) < 10**9):
            raise ConfigurationError(f"argument limit={text!r} must be a whole number from 1 on")
        return cls(int(text) if text else None, SearchFilters.from_arguments(rest))

    @property
    def reads_all(self) -> bool:
        """True when neither a limit nor a filter leaves anything out, so that what is not seen is not there."""
        return not self.limit and self.filters == NO_FILTERS

    @property
    def words(self) -> str:
        """The arguments as on a command line, in a fixed order: `make=Toyota limit=50`; empty for everything."""
        return " ".join(f"{name}={shlex.quote(value)}" for name, value in self._arguments)

    def identity(self, api_url: str) -> str:
        """What a crawl of this search is: `https://api.cars.co.za/fw/public make=Toyota limit=50`."""
        return f"{api_url} {self.words}".rstrip()

    def directory(self, output_dir: Path) -> Path:
        """Where its records belong: the whole catalogue's in the output directory, any other's apart from it."""
        return output_dir if self.reads_all else output_dir / SEARCHES / self._name

    @property
    def _arguments(self) -> list[tuple[str, str]]:
        found = [(name, value) for name, value in asdict(self.filters).items() if value]
        return [*found, ("limit", str(self.limit))] if self.limit else found

    @property
    def _name(self) -> str:
        """A name for a directory, readable and no other search's: one that had to be altered ends in a hash."""
        name = ",".join(f"{key}={re.sub(r'[^A-Za-z0-9.+-]', '_', value)}" for key, value in self._arguments)
        if len(name) <= _LONGEST and all(_PLAIN.fullmatch(value) for _, value in self._arguments):
            return name
        return f"{name[:_LONGEST]}~{blake2b(self.words.encode(), digest_size=5).hexdigest()}"


EVERYTHING = Search()


def search_of(spider: object) -> Search:
    """What this spider was asked to read; everything, when it does not say."""
    search = getattr(spider, "search", None)
    return search if isinstance(search, Search) else EVERYTHING


def reads_cars(crawler: Crawler) -> bool:
    """Whether a crawl is one of this site's. Another spider's is not, nor is `scrapy fetch` and the like, which put
    their own requests in this spider's place.
    """
    return hasattr(crawler.spidercls, "reads_all") and not is_at_a_command(crawler)


def output_directories(output_dir: Path) -> list[Path]:
    """Where crawls have written to: what they were asked to read, each search that was ever made included."""
    searches = output_dir / SEARCHES
    return [output_dir, *(sorted(searches.iterdir()) if searches.is_dir() else ())]
