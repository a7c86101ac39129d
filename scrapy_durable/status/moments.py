"""Looks at a crawl one after another, and what is known in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from scrapy_durable.exceptions import FrontierUnavailable
from scrapy_durable.status.report import Report, nothing_seen
from scrapy_durable.status.screen import Moment

TIMEOUT = 3.0
"""Seconds that a look may take before it is said that nobody answers."""


class Moments:
    """Takes what `look` gives, and remembers the last of it while nobody answers, or when the crawl has ended."""

    def __init__(self, look: Callable[[], Awaitable[Report]]) -> None:
        self._look = look
        self.last: Moment | None = None
        """None before the first look."""

    async def next(self) -> float | None:
        """Look; returns the seconds that it took, None when it was not answered. Raises what `look` raises, but for
        `FrontierUnavailable`.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUT):
                report = await self._look()
        except (FrontierUnavailable, TimeoutError) as error:
            self._note_lost(str(error) or f"no answer in {TIMEOUT:g} s")
            return None
        self._note(report)
        return time.monotonic() - began

    def _note(self, report: Report) -> None:
        before = self.last
        ended = None
        if before is not None and report.status.crawl_id is None:
            ended = before.ended or (before.report if before.report.status.crawl_id is not None else None)
        self.last = Moment(report, ended)

    def _note_lost(self, why: str) -> None:
        if self.last is None:
            self.last = Moment(nothing_seen(), lost_since=time.time(), lost_why=why)
        else:
            since = time.time() if self.last.lost_since is None else self.last.lost_since
            self.last = replace(self.last, lost_since=since, lost_why=why)
