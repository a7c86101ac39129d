"""An add-on that has the crawl told to stop between its opening and its first request."""

from __future__ import annotations

import os
import signal

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings


class EarlyStopAddon:
    """Puts `EarlyStop` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][EarlyStop] = 0


class EarlyStop:
    """Sends SIGTERM to its own process when the spider is opened."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> EarlyStop:
        stop = cls()
        crawler.signals.connect(stop.terminate, signals.spider_opened)
        return stop

    def terminate(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
