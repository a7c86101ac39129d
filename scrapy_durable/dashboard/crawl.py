"""The crawl that a dashboard shows: looked at no more often than its readers need, whoever asks."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from scrapy_durable.reaching import Reach
from scrapy_durable.status.looking import build_looker
from scrapy_durable.status.moments import Moments
from scrapy_durable.status.report import nothing_seen
from scrapy_durable.status.watching import wait_between

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.frontier.contract import Frontier
    from scrapy_durable.status.report import Report
    from scrapy_durable.status.screen import Moment

LEASES = 10
"""That the first page shows."""
_EVERY = 1.0
"""Seconds between two looks, at least."""


class Crawl:
    """One look at a time, which all who ask meanwhile are given."""

    def __init__(self, settings: BaseSettings, spider: str) -> None:
        """Raises `ConfigurationError`."""
        self.spider = spider
        self._reach = Reach(settings, spider, name="scrapy-dashboard")
        self._looker = build_looker(settings)
        self._moments = Moments(self._look)
        self._one_at_a_time = asyncio.Lock()
        self._next = 0.0
        self._unanswered = 0

    async def moment(self) -> Moment:
        """As it is now, or was a second ago."""
        async with self._one_at_a_time:
            if self._moments.last is None or time.monotonic() >= self._next:
                spent = await self._moments.next()
                self._unanswered = 0 if spent is not None else self._unanswered + 1
                self._next = time.monotonic() + wait_between(_EVERY, spent or 0.0, self._unanswered)
        if self._moments.last is None:
            raise RuntimeError("a look leaves something")
        return self._moments.last

    def frontier(self) -> AbstractAsyncContextManager[Frontier | None]:
        """None when nothing was crawled."""
        return self._reach.frontier()

    async def close(self) -> None:
        """End the connection."""
        await self._reach.close()

    async def _look(self) -> Report:
        async with self._reach.frontier() as frontier:
            return nothing_seen() if frontier is None else await self._looker.look(frontier, LEASES)
