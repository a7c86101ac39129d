"""Too much that does not fit its known shape: then it is the API that has changed, and the crawl stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals

from carscraper.config import Config
from carscraper.items import PageRead, SetAside
from carscraper.retry.middleware import refused_answer
from carscraper.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.exceptions import ApiError

_ENOUGH = 100
"""Listings, or answers, to be seen before their share says anything."""


def has_drifted(seen: int, set_aside: int, max_share: float) -> bool:
    """Whether more than a share of what was seen does not fit; False while too little was seen."""
    return seen >= _ENOUGH and set_aside > max_share * seen


class Drift:
    """Counts listings set aside by the pages of this process, and answers that are JSON of another shape; when
    either is above `CARS_MAX_DRIFT`, it closes.

    The crawl can be resumed once the reader knows the new shape; what was set aside is then read again by a
    new crawl only. A body that is no JSON says nothing about the API's shape, and is not counted.

    Stats: `drift/set_aside`, `drift/answers`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._max_share = Config.from_settings(crawler.settings).max_drift
        self._seen = self._aside = 0
        self._last = ""
        self._answers = self._misfits = 0
        crawler.signals.connect(self._on_item_dropped, signals.item_dropped)
        crawler.signals.connect(self._on_response, signals.response_received)
        crawler.signals.connect(self._on_refused_answer, refused_answer)

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

    def _on_response(self) -> None:
        self._answers += 1

    def _on_refused_answer(self, error: ApiError) -> None:
        if not error.path:
            return
        self._misfits += 1
        self._crawler.stats.inc_value("drift/answers")
        if has_drifted(self._answers, self._misfits, self._max_share):
            share = f"{self._misfits} of {self._answers} answers do not fit"
            stop_crawl(self._crawler, "api_changed", f"{share}, so the API has changed; the last: {error}")
