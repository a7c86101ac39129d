"""An add-on for the crawls of these tests: it measures how long the reactor keeps a timer waiting."""

from __future__ import annotations

import asyncio
import logging
import time

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

EVERY = 0.01


class LagAddon:
    """Puts `LagMeter` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][LagMeter] = 0


class LagMeter:
    """Logs the longest lag in milliseconds at each new maximum, from when the crawl has begun."""

    def __init__(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._start, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LagMeter:
        return cls(crawler)

    def _start(self) -> None:
        self._measuring = asyncio.create_task(self._measure())

    async def _measure(self) -> None:
        longest = 0.0
        while True:
            before = time.monotonic()
            await asyncio.sleep(EVERY)
            lag = time.monotonic() - before - EVERY
            if lag > longest:
                longest = lag
                logger.info("lag %d ms", lag * 1000)
