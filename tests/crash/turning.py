"""An add-on for the crawls of these tests: its log shows whether the reactor turns."""

from __future__ import annotations

import asyncio
import logging

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

TURN = "the reactor turns"
EVERY = 0.1


class TurningAddon:
    """Puts `Turning` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][Turning] = 0


class Turning:
    """Logs a line each tenth of a second, as long as nothing holds up the reactor."""

    def __init__(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._start, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Turning:
        return cls(crawler)

    def _start(self) -> None:
        self._turning = asyncio.create_task(self._turn())

    async def _turn(self) -> None:
        while True:
            logger.info(TURN)
            await asyncio.sleep(EVERY)
