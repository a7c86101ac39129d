"""This worker among those of its crawl: what it reports of itself, and what it knows of the others."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from scrapy_durable.answers import Answers
from scrapy_durable.crawl_numbers import BEHIND, DOWN, KEPT, LEFT
from scrapy_durable.exceptions import FrontierError
from scrapy_durable.participants import Participant
from scrapy_durable.stores import remote_stores
from scrapy_durable.waiting import is_of_a_store, numbers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import Frontier, Outbox, WorkerStatus
    from scrapy_durable.identity import CrawlClock

logger = logging.getLogger(__name__)

_POLL_INTERVAL = 2.0
"""Seconds between two reads of what other workers have reported."""


class Worker(Participant):
    """The name that this process works under, and its part of the frontier's list of workers."""

    def __init__(
        self,
        crawler: Crawler,
        name: str,
        outbox: Outbox,
        reported_stats: Mapping[str, str],
        clock: CrawlClock,
        *,
        lease_seconds: float,
        shared: bool,
        kept: Callable[[], int],
        more: Callable[[], Mapping[str, int]],
    ) -> None:
        """`reported_stats`: Scrapy's stats by the names that they are reported under; `kept` says how many items a kill
        would not have it read again, `more` what else this worker reports.
        """
        self.name = name
        self.lease_seconds = lease_seconds
        """Seconds after which a worker that is not heard of any more counts as gone."""
        self.peers: list[WorkerStatus] | None = None
        """Those of the crawl, this one among them, as of a few seconds ago; None before the first read."""
        self._crawler = crawler
        self._outbox = outbox
        self._reported_stats = reported_stats
        self._clock = clock
        self._shared = shared
        self._kept = kept
        self._more = more
        self._answers = Answers(crawler)
        self._report: dict[str, int] = {}
        self._crawl_ended = False
        self._next_read = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._read_since, self._read_at = -math.inf, 0.0
        """When the last read that was answered began, on the monotonic clock and on the crawl's."""
        self._met: dict[str, float] = {}
        """Other workers whose requests this one was given, and the monotonic time of the first."""

    def report(self, name: str, number: int) -> None:
        """Have this number of this worker's own stand in the frontier, for all to see; absolute, never an increment.

        It travels with the next exchange, in one step with its acks; `WorkerStatus.report` gives it back. Names and
        numbers are within the bounds of `frontier.report`.
        """
        if not self._crawl_ended and self._report.get(name) != number:
            self._report[name] = number
            self._outbox.report = dict(self._report)

    @property
    def own_numbers(self) -> dict[str, int]:
        """What this worker has done as it is now; `crawl_numbers` puts it together with what others report.

        It reports less itself: items that a kill would have it read again are not kept yet.
        """
        stats = self._crawler.stats
        return {name: int(stats.get_value(stat, 0)) for name, stat in self._reported_stats.items()}

    def leave(self) -> None:
        """Report that this worker leaves in good order."""
        self.report(LEFT, 1)

    def read_peers(self, frontier: Frontier) -> None:
        """Every few seconds, while nothing waits for it; once, when there can be no other worker."""
        if self._reading is not None and not self._reading.done():
            return
        if self.peers is None or (self._shared and time.monotonic() >= self._next_read):
            self._next_read = time.monotonic() + _POLL_INTERVAL
            self._reading = asyncio.create_task(self._read_peers(frontier))

    async def _read_peers(self, frontier: Frontier) -> None:
        since, at = time.monotonic(), self._clock()
        try:
            self.peers = await frontier.workers()
            self._read_since, self._read_at = since, at
        except FrontierError as error:
            logger.debug(
                "The workers of the crawl could not be read: %s", error
            )  # the next exchange says why

    def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()

    def may_live(self, other: str) -> bool:
        """Whether another worker may still be running: it was heard of at the last read, or was first met since that
        began.
        """
        if not self._shared or other == self.name:
            return False
        met = self._met.setdefault(other, time.monotonic())
        for peer in self.peers or ():
            if peer.worker == other:
                return not peer.report.get(LEFT) and self._read_at - peer.last_seen < self.lease_seconds
        return self._read_since < met

    # As a participant

    def say(self, outbox: Outbox) -> None:
        """What waits for a database, then the numbers: what is acknowledged because it is on this machine's disk is
        counted in the same exchange.
        """
        stores = remote_stores(self._crawler)
        waiting = {name: number for store in stores for name, number in numbers(store).items()}
        behind = {f"{BEHIND}{store.name}": store.undelivered for store in stores}
        down = {f"{DOWN}{store.name}": int(store.is_down) for store in stores}
        for name in [name for name in self._report if is_of_a_store(name) and name not in waiting]:
            del self._report[name]  # a report has a bound, and there may have been many in the course of time
        for name, number in {
            **waiting,
            **self.own_numbers,
            **self._answers.numbers,
            **behind,
            **down,
            **self._more(),
            KEPT: self._kept(),
        }.items():
            self.report(name, number)

    def crawl_ended(self) -> None:
        """Nobody reads reports any more."""
        self._crawl_ended = True
