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
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)

_BAR_SECONDS, _LINE_SECONDS = 0.5, 10.0


class Progress:
    """Reads the stats twice a second on a terminal, every ten seconds elsewhere; never asks anything else."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._bar: tqdm[Any] | None = None
        self._stack = ExitStack()
        self._showing: asyncio.Task[None] | None = None
        self._last = (time.monotonic(), 0)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses; stays silent when `LOG_ENABLED` is off and there is no terminal."""
        extension = cls(crawler.stats)
        crawler.signals.connect(extension._opened, signals.spider_opened)
        crawler.signals.connect(extension._closed, signals.spider_closed)
        return extension

    def _opened(self) -> None:
        on_terminal = sys.stderr.isatty()
        if on_terminal:
            self._stack.enter_context(_logging_above_the_bar())
            self._bar = self._stack.enter_context(
                tqdm(unit=" cars", smoothing=0.1, desc="cars", **_size(sys.stderr.fileno()))
            )
        self._showing = asyncio.create_task(
            _call_every(_BAR_SECONDS, self._show_bar)
            if on_terminal
            else _call_every(_LINE_SECONDS, self._show_line)
        )

    def _closed(self) -> None:
        if self._showing is not None:  # it is None when the crawl was refused at its start
            self._showing.cancel()
        if self._bar is not None:
            self._show_bar()
        self._stack.close()

    def _show_bar(self) -> None:
        if self._bar is None:
            return
        kept, total = self._read()
        self._bar.total = max(total, kept) or None
        self._bar.n = kept
        self._bar.refresh()

    def _show_line(self) -> None:
        now, (kept, total) = time.monotonic(), self._read()
        then, before = self._last
        self._last = now, kept
        rate = (kept - before) / max(now - then, 1e-9)
        left = f", {(total - kept) / rate:.0f} s left" if rate and total > kept else ""
        logger.info("%d of %d cars, %.0f a second%s", kept, total, rate, left)

    def _read(self) -> tuple[int, int]:
        return self._stats.get_value("item_scraped_count", 0), self._stats.get_value("catalogue/total", 0)


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
    with logging_redirect_tqdm():
        for handler in logging.root.handlers:
            handler.setLevel(max(handler.level, min(levels)))
        yield
