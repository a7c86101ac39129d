"""What the sites have answered this worker so far: how often, how long it took, how much, and how often it failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.python import global_object_name

from scrapy_durable.crawl_numbers import ANSWERS, BYTES, FAILED, ITEMS, LATENCY_MS

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class Answers:
    """Counts for one crawler, from when it is built on."""

    def __init__(self, crawler: Crawler) -> None:
        self._stats = crawler.stats
        self._answers = self._refused = self._bytes = 0
        self._latency = 0.0
        crawler.signals.connect(self._on_response, signals.response_downloaded)

    @property
    def numbers(self) -> dict[str, int]:
        """By the names of `crawl_numbers`."""
        stats = self._stats
        return {
            ANSWERS: self._answers,
            LATENCY_MS: round(self._latency * 1000),
            FAILED: self._refused + int(stats.get_value("downloader/exception_count", 0)) - self._not_sent,
            BYTES: self._bytes,
            ITEMS: int(stats.get_value("item_scraped_count", 0)),
        }

    @property
    def _not_sent(self) -> int:
        """Requests that a middleware has ignored, as for robots.txt: Scrapy counts them among its exceptions."""
        names = {global_object_name(kind) for kind in _with_subclasses(IgnoreRequest)}
        return sum(int(self._stats.get_value(f"downloader/exception_type_count/{name}", 0)) for name in names)

    def _on_response(self, response: Response, request: Request) -> None:
        self._answers += 1
        self._refused += response.status >= 400
        self._bytes += len(response.body)
        self._latency += request.meta.get("download_latency", 0.0)


def _with_subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _with_subclasses(one)
