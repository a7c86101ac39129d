"""The log on the console beside the one in `LOG_FILE`, each at a level of its own."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

from scrapy.exceptions import NotConfigured

from scrapy_durable.config import Config

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


class _Console(logging.StreamHandler[TextIO]):
    """Known among the handlers of the process."""


class ConsoleLog:
    """Writes what is at `DURABLE_CONSOLE_LEVEL` or above to standard error too, from when a crawler is built until the
    process ends; once, however many crawlers it has.
    """

    def __init__(self, settings: BaseSettings, level: str) -> None:
        handler = _Console(sys.stderr)
        handler.setFormatter(logging.Formatter(settings["LOG_FORMAT"], settings["LOG_DATEFORMAT"]))
        handler.setLevel(int(level) if level.isdecimal() else level)
        for earlier in [one for one in logging.root.handlers if isinstance(one, _Console)]:
            logging.root.removeHandler(earlier)
        logging.root.addHandler(handler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` without a level, and where Scrapy's own log goes to the console."""
        level = Config.from_settings(crawler.settings).console_level
        if not level or not crawler.settings["LOG_FILE"]:
            raise NotConfigured
        return cls(crawler.settings, level)
