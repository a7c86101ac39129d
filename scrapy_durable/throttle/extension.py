"""What this worker learns of the site's speed, told to the scheduler, so that it holds for all workers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.throttle.policy import Answer

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


logger = logging.getLogger(__name__)


class Throttle:
    """In the place of Scrapy's AutoThrottle, with its settings.

    `AUTOTHROTTLE_TARGET_CONCURRENCY` is how many requests the site shall have under way from all workers
    together. The delay itself is kept in the frontier, which leases the next request of a site when its
    time has come. `AUTOTHROTTLE_DEBUG` logs every answer that is learned from.

    Under another scheduler than the frontier's it does nothing.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._debug = crawler.settings.getbool("AUTOTHROTTLE_DEBUG")
        crawler.signals.connect(self._on_response, signals.response_downloaded)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when `AUTOTHROTTLE_ENABLED` is off."""
        if not crawler.settings.getbool("AUTOTHROTTLE_ENABLED"):
            raise NotConfigured
        return cls(crawler)

    def _on_response(self, request: Request, response: Response) -> None:
        scheduler = frontier_scheduler(self._crawler)
        latency = request.meta.get("download_latency")
        if (
            latency is not None
            and scheduler is not None
            and not request.meta.get("autothrottle_dont_adjust_delay")
        ):
            scheduler.sites.note_answer(request, Answer(latency, response.status))
            if self._debug:
                logger.info(
                    "%s: interval %d ms before this answer, latency %d ms, status %d",
                    request.meta.get("download_slot"),
                    scheduler.sites.interval(request) * 1000,
                    latency * 1000,
                    response.status,
                )
