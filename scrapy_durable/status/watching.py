"""A crawl looked at again and again, on a terminal or in lines, until somebody has seen enough."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import IO

from scrapy_durable.status.moments import Moments
from scrapy_durable.status.report import Report
from scrapy_durable.status.screen import Moment, frame, one_line

LEASES = 20
"""That are asked for: more than a screen has room for."""
_SCREEN_EVERY, _LINES_EVERY = 1.0, 5.0
"""Seconds between two looks."""
_SHARE = 50
"""Times as long as a look takes is waited before the next, so that looks of up to a tenth of a second take no more than
2 % of what they watch.
"""
_LONGEST_WAIT = 5.0
"""Seconds: nobody watches a screen that stands still for longer."""
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""A screen of its own without a cursor, and back."""
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def wait_between(every: float, spent: float, unanswered: int) -> float:
    """Seconds until the next look: `every` usually; longer when the last one took `spent` seconds, or when so many
    of the last looks were `unanswered`.
    """
    doubled = every * (1 << min(unanswered, 10))
    return max(every, min(_LONGEST_WAIT, max(doubled, _SHARE * spent)))


class Watch:
    """Shows what `look` gives, as it comes, on `stream`; `what` says whose crawl it is."""

    def __init__(self, look: Callable[[], Awaitable[Report]], stream: IO[str], what: str) -> None:
        self._moments = Moments(look)
        self._stream = stream
        self._what = what
        self._has_screen = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._colours = "NO_COLOR" not in os.environ

    async def run(self) -> None:
        """Until SIGINT or SIGTERM. Raises what `look` raises, but for `FrontierUnavailable`: that is shown, and tried
        again.
        """
        enough = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, enough.set)
        if self._has_screen:
            self._write(_BEGIN)
        try:
            unanswered = 0
            every = _SCREEN_EVERY if self._has_screen else _LINES_EVERY
            while not enough.is_set():
                spent = await self._moments.next()
                if self._moments.last is not None:
                    self._show(self._moments.last)
                unanswered = unanswered + 1 if spent is None else 0
                try:
                    async with asyncio.timeout(wait_between(every, spent or 0.0, unanswered)):
                        await enough.wait()
                except TimeoutError:
                    continue
        except BrokenPipeError:  # nobody reads any more
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        finally:
            if self._has_screen:
                self._write(_END)
                if self._moments.last is not None:
                    self._write(f"{one_line(self._moments.last)}\n")

    def _show(self, moment: Moment) -> None:
        if not self._has_screen:
            at = time.strftime("%H:%M:%SZ", time.gmtime())
            self._write(f"{at} {one_line(moment)}\n")
            return
        width, height = self._size()
        lines = frame(moment, self._what, width, height, colours=self._colours)
        self._write(_HOME + "\n".join(f"{line}{_REST_OF_LINE}" for line in lines) + _REST)

    def _size(self) -> tuple[int, int]:
        """Columns and rows; some terminals say that they have none."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
