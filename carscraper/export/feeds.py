"""Feeds (`-o`, `-O`) of cars: each listing once, and one that fails is no success."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from carscraper.items import Car
from scrapy_durable.engine.feeds import OpenFeeds
from scrapy_durable.feeds import DurableFeeds

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Feeds(OpenFeeds, DurableFeeds):
    """With `JOBDIR` they are made of the item log, with the first record of each listing that counts.

    Of what is written as Scrapy does it, Scrapy logs a traceback for each item that a feed cannot take, and calls the
    crawl a success. Here the first failure is logged once, nothing more is written to any of these feeds, and the exit
    status is not 0. The stores are not concerned: `scrapy export` makes the same files of what they hold.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._failed = False

    @property
    def failed(self) -> bool:
        """Whether a feed lacks something, or could not be stored."""
        return self._failed or any(
            name.startswith("feedexport/failed_count/") for name in self.crawler.stats.get_stats()
        )

    def item_key(self, item: Any) -> str | None:
        """The listing."""
        return item.id if isinstance(item, Car) else None

    def item_scraped(self, item: Any, spider: Spider) -> None:
        """As Scrapy's, until the first failure."""
        if self._failed:
            return
        try:
            super().item_scraped(item, spider)
        except Exception as error:  # noqa: BLE001 (whatever an exporter or a storage raises)
            self._fail(error)

    def failed_to_close(self, error: Exception) -> None:
        """The same."""
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            logger.error("A feed cannot be written, and is not complete: %s", error)
