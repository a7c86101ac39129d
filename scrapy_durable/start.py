"""`start()` as one element of the frontier: leased by one worker, acknowledged when it has ended.

The others wait until it is theirs, as when the one that had it has died, or until nothing is left to do. Called again
after a kill, it begins anew; what it yields has the same keys (`keys.py`), so that the frontier refuses what is known.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy import Request
from scrapy.exceptions import CloseSpider

from scrapy_durable.frontier.contract import Entry
from scrapy_durable.participants import Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import Inbox, Key, Lease, Outbox
    from scrapy_durable.leases import Leases, Task

SLOT = "start()"
"""The slot of the element: no site has this name."""
_PAYLOAD = b'{"start":true,"url":"start()"}'
_PRIORITY = 2**31 - 1


_with_middleware: WeakSet[Crawler] = WeakSet()


def expect_middleware(crawler: Crawler) -> None:
    """There is a spider middleware that asks `Start.leased` before it goes through `start()`."""
    _with_middleware.add(crawler)


def has_middleware(crawler: Crawler) -> bool:
    """Whether there is one."""
    return crawler in _with_middleware


class Start(Participant):
    """The element, as this worker sees it. Where `is_element` is off, every worker goes through `start()`."""

    def __init__(self, leases: Leases, enqueue: Callable[[Entry], None], *, is_element: bool) -> None:
        self._leases = leases
        self._enqueue = enqueue
        self._is_element = is_element
        self._request = Request("about:start")
        """It stands among the leased requests for `start()`."""
        self._key: Key = 0
        self._is_asked_for = False
        self._is_known = False
        self._decided = asyncio.Event()
        self._task: Task | None = None
        self._has_ended = False
        self.failure: str | None = None
        """What it has raised here."""

    def begin(self, key: Key) -> None:
        """The crawl has begun, and its start has this key."""
        self._key = key

    async def leased(self) -> bool:
        """Wait until this worker shall go through `start()`, or until it need not."""
        if not self._is_element:
            return True
        if not self._decided.is_set():
            self._enqueue(Entry(self._key, SLOT, "start", _PAYLOAD, _PRIORITY))
            self._is_asked_for = True
        await self._decided.wait()
        return self._task is not None

    def done(self) -> None:
        """It has ended. It is acknowledged once its items are through the pipelines."""
        self._has_ended = True

    def failed(self, error: Exception) -> None:
        """It has raised, so it becomes a dead letter, unless that is how a spider stops."""
        if isinstance(error, CloseSpider):
            self.release()
            return
        self.failure = f"start() failed: {type(error).__name__}: {error}"
        if self._task is not None:
            self._task.dead_letter(self.failure)
            self._has_ended = True

    def release(self) -> None:
        """The crawl is stopped: whoever goes on with it begins anew, unless it has ended."""
        if self._task is not None and not self._has_ended:
            self._task.release()
            self._has_ended = True

    # What the scheduler tells it, and asks

    def take(self, lease: Lease) -> bool:
        """True when the lease is that of `start()`, and this worker can go through it."""
        if lease.payload != _PAYLOAD or lease.key != self._key:
            return False
        if not self._is_element or self._decided.is_set():
            return False  # nobody here would go through it
        self._leases.assign(self._request, lease)
        self._task = self._leases[self._request]
        self._task.seen = True
        self._leases.note_unsent(self._task)
        self._decided.set()
        return True

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """The frontier has answered: once it knows the element, nothing unfinished means that it is done."""
        if self._decided.is_set() or not self._is_asked_for:
            return
        self._is_known |= any(entry.key == self._key for entry in outbox.entries)
        if self._is_known and not inbox.unfinished:
            self.crawl_ended()

    def crawl_ended(self) -> None:
        """Whoever waits need not."""
        self._decided.set()

    def at_work(self, items: int) -> tuple[Request, ...]:
        """What stands for it while it is not done; `items` are so many in the pipelines."""
        if self._task is None:
            return ()
        if self._has_ended and (items == 0 or self._task.outcome is not None):
            self._task = None  # removed now
            return ()
        return (self._request,)
