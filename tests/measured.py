"""An add-on for crawls that are measured: how long their downloads and they themselves take, and how much memory.

Their disk takes no time: what is measured is what the crawl itself waits for.
"""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from tests.own_clock import OwnClock

MEASURED = {"ADDONS": '{"tests.measured.MeasuredAddon": 0}'}
"""What a crawl is told to be measured; `LOG_LEVEL` has to be INFO or lower."""

logger = logging.getLogger(__name__)


class Download(NamedTuple):
    """One request on its way through the downloader."""

    url: str
    seconds: float
    """By the machine's clock."""
    own_seconds: float
    """By the clock of the process."""


class MeasuredAddon:
    """Puts `Measures` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][Measures] = 0
        os.fsync = lambda descriptor: None  # type: ignore[assignment]


class Measures:
    """Logs each download when it has ended, and at the end what the crawl has taken."""

    def __init__(self, crawler: Crawler) -> None:
        self._clock = OwnClock()
        self._began: dict[Request, tuple[float, float]] = {}
        crawler.signals.connect(self._reached, signals.request_reached_downloader)
        crawler.signals.connect(self._left, signals.request_left_downloader)
        crawler.signals.connect(self._stopped, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Measures:
        return cls(crawler)

    def _reached(self, request: Request) -> None:
        self._began[request] = time.monotonic(), self._clock()

    def _left(self, request: Request) -> None:
        if request in self._began:
            began, own = self._began.pop(request)
            logger.info(
                "downloaded %s in %.2f s, own %.2f s",
                request.url,
                time.monotonic() - began,
                self._clock() - own,
            )

    def _stopped(self) -> None:
        logger.info("took own %.2f s, %d bytes", self._clock(), peak_memory())
        self._clock.close()


def peak_memory(pid: int | str = "self") -> int:
    """The most bytes that a process has had resident until now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024


def downloads(log: str) -> list[Download]:
    """Those of a crawl, by its log."""
    found = re.findall(r"downloaded (\S+) in ([\d.]+) s, own ([\d.]+) s", log)
    return [Download(url, float(seconds), float(own)) for url, seconds, own in found]


def taken(log: str) -> tuple[float, int]:
    """Seconds by its own clock, and bytes, that a crawl has taken, by its log."""
    [(seconds, size)] = re.findall(r"took own ([\d.]+) s, (\d+) bytes", log)
    return float(seconds), int(size)
