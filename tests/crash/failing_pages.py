"""`scrapy` in which each listing page is refused once by its callback, behind all that it has yielded.

With `DROPS=before the log`, repeated listings are dropped by a pipeline, as if there were no item log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import scrapy.cmdline
from scrapy.http import Response

from carscraper.pipelines import once
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.exceptions import InvalidAnswer

parse_page = CarsSpider.parse_page
refused: set[str] = set()


async def parse_and_refuse(self: CarsSpider, response: Response, **arguments: Any) -> AsyncIterator[Any]:
    async for output in parse_page(self, response, **arguments):
        yield output
    if response.url not in refused:
        refused.add(response.url)
        raise InvalidAnswer("refused once")


if __name__ == "__main__":
    CarsSpider.parse_page = parse_and_refuse  # type: ignore[method-assign,assignment]
    if os.environ.get("DROPS") == "before the log":
        once.is_logged = lambda crawler: False
    sys.exit(scrapy.cmdline.execute())
