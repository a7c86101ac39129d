"""Too much that the crawl needs and cannot use: then it is the API that has changed, and the crawl stops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import signals

from carscraper.config import Config
from carscraper.distinct import Distinct
from carscraper.items import PageRead, SetAside
from carscraper.monitoring.verdict import LEAST_LISTINGS
from scrapy_durable.responses.middleware import STORE_KEY
from scrapy_durable.retry.middleware import refused_answer
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler

    from carscraper.exceptions import ApiError

_BEYOND_DOUBT = 300
"""Specifications that cannot be read, and more than half of all, before the end is not waited for."""


class Drift:
    """Counts, in the pages that this process has read, the listings that were rejected, and the specifications that
    cannot be read.

    The verdict judges the exact share, when all is read (`monitoring/verdict.py`). Before that, the crawl stops only
    when nothing that is still to come can change the judgement: when more listings of one walk are rejected than
    `CARS_MAX_DRIFT` of the API's total, or when most of hundreds of specifications cannot be read. So the verdict on
    the same pages is the same however many are asked for at once, and whatever order they come in.

    The crawl can be resumed once the reader knows the new shape; what was rejected is then read again by a new crawl
    only. A body that is no JSON says nothing about the API's shape, and is not counted.

    Stats: `drift/rejected`, `drift/answers`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._most = Config.from_settings(crawler.settings).max_drift
        self._rejected: Counter[int] = Counter()
        """By walk."""
        self._pages: set[tuple[int, int]] = set()
        self._specs = Distinct()
        self._unreadable: set[str] = set()
        """Specifications whose last answer could not be read."""
        self._last = ""
        crawler.signals.connect(self._on_item_dropped, signals.item_dropped)
        crawler.signals.connect(self._on_sent, signals.request_reached_downloader)
        crawler.signals.connect(self._on_refused_answer, refused_answer)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `ConfigurationError` when `CARS_MAX_DRIFT` is refused."""
        return cls(crawler)

    def _on_item_dropped(self, item: Any) -> None:
        """The ledger's items come this way once they are kept: those of a page first, the page last."""
        if isinstance(item, SetAside):
            self._last = f"{item.path}: {item.problem}"
        elif isinstance(item, PageRead):
            self._specs.add(item.specs)
            if item.rejected and (item.pass_number, item.offset) not in self._pages:
                self._pages.add((item.pass_number, item.offset))
                self._count_rejected(item)

    def _count_rejected(self, page: PageRead) -> None:
        self._crawler.stats.inc_value("drift/rejected", page.rejected)
        self._rejected[page.pass_number] += page.rejected
        rejected, total = self._rejected[page.pass_number], page.total
        if total is not None and total >= LEAST_LISTINGS and rejected > self._most * total:
            self._stop(f"{rejected} of {total} listings cannot be used")

    def _on_sent(self, request: Request) -> None:
        self._unreadable.discard(request.meta.get(STORE_KEY, ""))

    def _on_refused_answer(self, error: ApiError, request: Request) -> None:
        if not error.path:
            return
        self._crawler.stats.inc_value("drift/answers")
        key = request.meta.get(STORE_KEY)
        if key is None:
            return
        self._last = str(error)
        self._unreadable.add(key)
        unreadable, named = len(self._unreadable), len(self._specs)
        if unreadable >= _BEYOND_DOUBT and unreadable > max(self._most, 0.5) * named:
            self._stop(f"{unreadable} of {named} specifications cannot be read")

    def _stop(self, share: str) -> None:
        stop_crawl(
            self._crawler, "api_changed", f"{share}, so the API has changed; the last one: {self._last}"
        )
