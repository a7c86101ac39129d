"""A spider middleware: which request yields which, told to the scheduler; and `start()`, called by one worker only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.start import expect_middleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response


class ParentsMiddleware:
    """Nearest to the engine, so that it sees the requests that are queued. Under another scheduler it does nothing."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        expect_middleware(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Note the parent of each request."""
        scheduler, parent = frontier_scheduler(self._crawler), response.request
        async for output in result:
            if scheduler is not None and parent is not None and isinstance(output, Request):
                scheduler.keys.yielded(output, parent)
            yield output

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass on what `start()` yields once this worker has leased it; nothing when another has been through it."""
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is None:
            async for output in start:
                yield output
            return
        if not await scheduler.start.leased():
            return
        try:
            async for output in start:
                if isinstance(output, Request):
                    scheduler.keys.started(output)
                yield output
        except Exception as error:
            scheduler.start.failed(error)
            raise
        except BaseException:  # the crawl is stopped
            scheduler.start.release()
            raise
        scheduler.start.done()
