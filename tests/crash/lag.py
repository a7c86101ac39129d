"""An add-on for the crawls of these tests: it measures how long the reactor keeps a timer waiting."""

from __future__ import annotations

import asyncio
import logging

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from tests.own_clock import OwnClock, lag

logger = logging.getLogger(__name__)

EVERY = 0.1


class LagAddon:
    """Puts `LagMeter` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][LagMeter] = 0


class LagMeter:
    """Logs the longest lag in milliseconds at each new maximum, from when the crawl has begun; and what the process's
    own clock says, each tenth of a second.
    """

    def __init__(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._start, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LagMeter:
        return cls(crawler)

    def _start(self) -> None:
        self._clock = OwnClock()
        self._measuring = asyncio.create_task(self._measure())

    async def _measure(self) -> None:
        longest = said = 0.0
        while True:
            late = await lag(self._clock)
            if late > longest:
                longest = late
                logger.info("lag %d ms", late * 1000)
            if self._clock() >= said + EVERY:
                said = self._clock()
                logger.info("own clock %.2f s", said)
