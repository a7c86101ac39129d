"""Too many listings that do not fit: then it is the API that has changed, and the crawl stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals

from carscraper.config import Config
from carscraper.items import PageRead, SetAside
from carscraper.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

_ENOUGH = 100
"""Listings to be seen before their share says anything."""


def has_drifted(seen: int, set_aside: int, max_share: float) -> bool:
    """Whether more than a share of the listings seen do not fit; False while too few were seen."""
    return seen >= _ENOUGH and set_aside > max_share * seen


class Drift:
    """Counts listings named and set aside by the pages of this process; above `CARS_MAX_DRIFT`, closes.

    The crawl can be resumed once the reader of listings knows their new shape; what was set aside is then
    read again by a new crawl only.

    Stat: `drift/set_aside`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._max_share = Config.from_settings(crawler.settings).max_drift
        self._seen = self._aside = 0
        self._last = ""
        crawler.signals.connect(self._on_item_dropped, signals.item_dropped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `ConfigurationError` when `CARS_MAX_DRIFT` is refused."""
        return cls(crawler)

    def _on_item_dropped(self, item: Any) -> None:
        """The ledger's items come this way once they are kept: those of a page first, the page last."""
        if isinstance(item, SetAside):
            self._aside += 1
            self._last = f"{item.path}: {item.problem}"
            self._crawler.stats.inc_value("drift/set_aside")
        elif isinstance(item, PageRead):
            self._seen += len(item.ids) + item.unnamed
            if has_drifted(self._seen, self._aside, self._max_share):
                share = f"{self._aside} of {self._seen} listings do not fit"
                stop_crawl(
                    self._crawler, "api_changed", f"{share}, so the API has changed; the last: {self._last}"
                )
