"""When the next exchange with the frontier is due."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy_durable.participants import Participant

if TYPE_CHECKING:
    from scrapy_durable.frontier.contract import Inbox, Outbox
    from scrapy_durable.leases import Leases

_TICK = 0.02
"""Seconds between two exchanges while there is work: long enough to fill a batch, too short to be noticed."""
_SHORT_TICK = 0.002
"""Seconds between two exchanges when the time of a next request comes sooner than a tick."""
_LINGER = 0.1
"""Seconds that news waits for more at most, while most of what was leased is in flight."""
_LINGER_ALONE = 1.0
"""The same for news that nobody waits for: acknowledgements, renewals, reports."""
_QUIET = 0.005
"""Seconds without an answer of a site after which those that were asked together have all answered."""
_GATHER = 0.05
"""Seconds that are waited for that at most."""
_POLL_INTERVAL = 0.5
"""Seconds between two exchanges with a shared frontier while this worker has nothing to do."""

_HEARTBEAT = 2.0
"""Seconds after which a worker of several is heard of again, if it has nothing to say: who looks sees that it lives."""
_POLL_AT_WORK = 1.0
"""The same while it has something to do, and could do more: half of the time for which the frontier keeps places for
it.
"""


class Timing(Participant):
    """An exchange is due when there is enough to say, or when something may be leased; at most one in each tick."""

    def __init__(self, outbox: Outbox, leases: Leases, *, shared: bool) -> None:
        """`shared`: others may queue something at any time: workers, or `scrapy queue`."""
        self._outbox = outbox
        self._leases = leases
        self._shared = shared
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        """Set while the outbox holds time that a site's next request may have."""
        self._closing = False
        self._has_heard = False
        self._wait_until: float | None = None
        self._last_exchange = 0.0
        self._took = 0.0
        """Seconds, from its beginning to its answer."""
        self._first_by = 0.0
        """When the first exchange is due, though `start()` has not yielded anything yet."""
        self._had = 0
        """Leases that were under way after the last exchange."""
        self._had_spares = 0
        self._news_number = 0
        self._news_first = self._news_last = 0.0
        """How many places have become free since, and requests come, and when."""

    def wake(self) -> None:
        """There may be something to say, or to be had."""
        self._news.set()

    def wake_now(self) -> None:
        """There is something to say, or to be had, that must not wait for a tick."""
        self._urgent.set()
        self._news.set()

    def close(self) -> None:
        """Wait no longer."""
        self._closing = True
        self._news.set()

    def exchanging(self) -> None:
        """An exchange begins now."""
        self._last_exchange = time.monotonic()

    async def wait(self, is_pressing: Callable[[], bool]) -> None:
        """Return when there is something to say or to be had, but not more often than each tick, unless it is
        urgent. `is_pressing` tells whether anything is to be said without waiting for more.
        """
        if not self._first_by:
            self._last_exchange = time.monotonic()
            self._first_by = self._last_exchange + _LINGER
        self._had = self._leases.under_way
        self._news_number = 0
        self._had_spares = len(self._leases.prefetched.spares)
        earliest = self._last_exchange + _TICK
        if self._wait_until is not None and self._wait_until < earliest:
            earliest = max(self._wait_until, self._last_exchange + _SHORT_TICK)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, earliest - time.monotonic())):
                await self._urgent.wait()
        while not (
            self._closing or self._has_something_to_say(is_pressing()) or self._may_be_given_something()
        ):
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._nap()):
                    await self._news.wait()

    async def sleep(self, seconds: float) -> None:
        """Let time pass, as long as the crawl is not closing."""
        until = time.monotonic() + seconds
        while not self._closing and (rest := until - time.monotonic()) > 0:
            await asyncio.sleep(min(rest, 0.1))

    def _has_something_to_say(self, is_pressing: bool) -> bool:
        return (
            is_pressing
            or (not self._has_heard and time.monotonic() >= self._first_by)
            or self._urgent.is_set()
            or (self._outbox.says_something and self._is_worth_an_exchange())
        )

    def _is_worth_an_exchange(self) -> bool:
        """A busy site's answers come one by one, and more is asked for before they run out. Those of a slow one come
        together, as they were asked for: then all are waited for, so that they make one exchange.
        """
        under_way = self._leases.under_way + self._leases.prefetched.going_out
        self._note_news()
        if self._had_spares and self._has_few_spares:
            return True
        if under_way == 0:
            # What the last answer yields goes along, if it comes at once.
            is_read = self._news_number and any(True for _ in self._leases.slots)
            return not is_read or self._rest_of_gathering() <= 0
        since = time.monotonic() - self._last_exchange
        if since < _LINGER:
            return under_way <= self._had * 5 // 8 or (bool(self._outbox.entries) and self._has_room)
        if self._news_number:
            return self._rest_of_gathering() <= 0
        return since >= _LINGER_ALONE or self._outbox.is_waited_for

    @property
    def _has_room(self) -> bool:
        under_way = self._leases.under_way
        return under_way <= (under_way + self._leases.prefetch) * 5 // 8

    def _note_news(self) -> None:
        number = self._leases.prefetched.empty_places + len(self._outbox.entries)
        if number != self._news_number:
            now = time.monotonic()
            self._news_first = self._news_first if self._news_number else now
            self._news_number, self._news_last = number, now

    @property
    def _has_few_spares(self) -> bool:
        """No more than may be sent, in the places that there are, while an exchange is under way."""
        spares = len(self._leases.prefetched.spares)
        return spares <= min(self._had_spares // 2, self._leases.under_way)

    def _rest_of_gathering(self) -> float:
        """Seconds until the answers that belong together are there, and what the last one of all yields, which is
        waited for no longer than an exchange takes.
        """
        quiet, until = _QUIET, self._news_first
        if not self._leases.under_way:
            quiet, until = min(_QUIET, self._took), self._news_first + min(_TICK, self._took)
        return min(max(self._news_last + quiet, until), self._news_first + _GATHER) - time.monotonic()

    def _may_be_given_something(self) -> bool:
        """True when a time has come that held something back, or others may have queued something."""
        now = time.monotonic()
        due = self._wait_until is not None and now >= self._wait_until
        if self._shared and now >= self._last_exchange + _HEARTBEAT:
            return True
        return due or (self._shared and self._leases.is_drained and now >= self._last_exchange + self._poll)

    @property
    def _poll(self) -> float:
        return _POLL_AT_WORK if self._leases.under_way else _POLL_INTERVAL

    def _nap(self) -> float:
        """Seconds until it is worth checking again, if nobody calls before."""
        now = time.monotonic()
        nap = _TICK if self._leases.at_work else _POLL_INTERVAL if self._has_heard else _LINGER
        if self._news_number:
            nap = min(nap, max(0.0, self._rest_of_gathering()))
        return nap if self._wait_until is None else max(0.0, min(nap, self._wait_until - now))

    # As a participant

    def say(self, outbox: Outbox) -> None:
        """What was urgent is said now."""
        self._urgent.clear()

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """When something that is held back may be leased."""
        self._has_heard = True
        due, now = inbox.next_due, time.monotonic()
        self._took = now - self._last_exchange
        self._wait_until = None if due is None else now + due
