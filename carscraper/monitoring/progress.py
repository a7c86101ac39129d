"""How far the crawl is: a bar with rate and time left on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from carscraper.catalogue.searches import reads_cars
from scrapy_durable.config import Config
from scrapy_durable.crawl_numbers import crawl_numbers, waited_for
from scrapy_durable.identity import crawl_clock
from scrapy_durable.scheduler import frontier_scheduler

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_BAR_SECONDS, _LINE_SECONDS = 0.5, 10.0


class Progress:
    """Twice a second on a terminal, every ten seconds elsewhere: how far the crawl is, all workers that it has or had
    together, and what is waited for. Reads the stats and what the scheduler knows; never asks anything else.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._lease_seconds = Config.from_settings(crawler.settings).lease_seconds
        self._bar: tqdm[Any] | None = None
        self._stack = ExitStack()
        self._showing: list[asyncio.Task[None]] = []
        self._last: tuple[float, int] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for another site's spider. Silent when `LOG_ENABLED` is off, but on a terminal."""
        if not reads_cars(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension._opened, signals.spider_opened)
        crawler.signals.connect(extension._closed, signals.spider_closed)
        return extension

    def _opened(self) -> None:
        if sys.stderr.isatty():
            self._stack.enter_context(_logging_above_the_bar())
            self._show(_BAR_SECONDS, self._show_bar)
        else:
            self._show(_LINE_SECONDS, self._show_line)
        self._show(_LINE_SECONDS, self._show_waiting)

    def _show(self, seconds: float, show: Callable[[], None]) -> None:
        self._showing.append(asyncio.create_task(_call_every(seconds, show)))

    def _closed(self) -> None:
        for showing in self._showing:
            showing.cancel()
        if self._bar is not None:
            self._show_bar()
        self._stack.close()

    def _show_bar(self) -> None:
        """Drawn for the first time when the crawl's numbers are known; what there was before is no part of the rate."""
        scheduler = frontier_scheduler(self._crawler)
        if self._bar is None and scheduler is not None and scheduler.worker.peers is None:
            return
        kept, total = self._read()
        total = max(total, kept)
        if self._bar is None:
            size = _size(sys.stderr.fileno())
            bar = tqdm(unit=" cars", smoothing=0.1, desc="cars", initial=kept, total=total or None, **size)
            self._bar = self._stack.enter_context(bar)
        self._bar.total = total or None
        self._bar.n = kept
        self._bar.refresh()

    def _show_line(self) -> None:
        now, (kept, total) = time.monotonic(), self._read()
        then, before = self._last or (now, kept)
        self._last = now, kept
        rate = max(0.0, (kept - before) / max(now - then, 1e-9))
        left = f", {(total - kept) / rate:.0f} s left" if rate and total > kept else ""
        of = f" of {total}" if total else ""
        logger.info("%d%s cars, %.0f a second%s", kept, of, rate, left)

    def _show_waiting(self) -> None:
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is not None and scheduler.worker.peers:
            now = crawl_clock(self._crawler)()
            if waits := waited_for(scheduler.worker.peers, scheduler.worker.name, now, self._lease_seconds):
                logger.info("Waiting for %s", waits)

    def _read(self) -> tuple[int, int]:
        """Cars kept, and how many there are; 0 when nobody knows."""
        value = self._crawler.stats.get_value
        if value("verdict/kept") is not None:
            return value("verdict/kept"), value("verdict/expected")
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is None:
            return value("catalogue/kept", 0), value("catalogue/total", 0)
        numbers = crawl_numbers(
            scheduler.worker.peers or (), scheduler.worker.name, scheduler.worker.own_numbers
        )
        return numbers.kept, numbers.total


async def _call_every(seconds: float, show: Callable[[], None]) -> None:
    """Scrapy's looping call shows several lines at once: uvloop wakes it a moment too early."""
    while True:
        await asyncio.sleep(seconds)
        show()


def _size(terminal: int) -> dict[str, Any]:
    """How large the terminal is, as tqdm takes it. Some say 0 by 0, in which it would show nothing."""
    if all(os.get_terminal_size(terminal)):
        return {"dynamic_ncols": True}
    size = shutil.get_terminal_size()
    return {"ncols": size.columns, "nrows": size.lines}


@contextmanager
def _logging_above_the_bar() -> Iterator[None]:
    """tqdm's redirection, for logs that go to the terminal; it would forget their level, `LOG_LEVEL`."""
    levels = [
        handler.level
        for handler in logging.root.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr)
    ]
    if not levels:
        yield
        return
    before = list(logging.root.handlers)
    with logging_redirect_tqdm():
        for handler in logging.root.handlers:
            if handler not in before:
                handler.setLevel(min(levels))
        yield
