"""Looks at a crawl for whoever asks: one at a time, and none when the last is fresh."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from scrapy_durable.exceptions import DurableError
from scrapy_durable.status.report import Report

FRESH = 1.0
"""Seconds that a look is good for, so that many who ask cost no more than one."""
TIMEOUT = 3.0
"""Seconds: a scrape is given up after ten."""


class Looks:
    """The last look, made again when it is old."""

    def __init__(
        self, look: Callable[[], Awaitable[Report]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._clock = clock
        self._lock = asyncio.Lock()
        self._at = float("-inf")
        self.report: Report | None = None
        """None when the last look was not answered."""
        self.why_not = ""
        self.seconds = 0.0
        """That the last look took."""

    async def refresh(self) -> None:
        """See to it that the last look is fresh. What it raises is said in `why_not`."""
        async with self._lock:
            began = self._clock()
            if began - self._at < FRESH:
                return
            try:
                async with asyncio.timeout(TIMEOUT):
                    self.report = await self._look()
                self.why_not = ""
            except TimeoutError:
                self.report, self.why_not = None, f"no answer in {TIMEOUT:g} s"
            except DurableError as error:
                self.report, self.why_not = None, str(error)
            self._at = self._clock()
            self.seconds = self._at - began
