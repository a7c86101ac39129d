"""A spider for one test: the crawl of the catalogue, which also tries to get to other places."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from scrapy import Request

from carscraper.spiders.cars import CarsSpider


class StrayingSpider(CarsSpider):
    """Asks for everything in the environment variable `STRAY`, beside what it should."""

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            yield request
        for url in os.environ["STRAY"].split():
            yield Request(url, callback=self.parse_page, dont_filter=True, meta={"allow_offsite": True})
