"""The way of records to one database: straight from memory, or over the disk while the database is behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from carscraper.exceptions import StoreError, StoreUnavailable
from carscraper.stores.contract import Database, Refused
from carscraper.stores.pending import ROOM, Pending, Removal, decode, encode
from carscraper.stores.record import Draft, Records
from carscraper.stores.spools import Spools
from carscraper.stores.writer import Writer

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_LATE = 5.0
"""Seconds that a record waits in memory for a database that answers; then it goes to disk. Going there and back
costs as much as writing it, so one that is merely a little slower than the crawl holds it up instead.
"""
_LOOK = 0.1
"""Seconds between two looks whether something is late."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a database that does not answer is asked again, at most; doubled each time."""
_GRACE_PERIOD = 3.0
"""Seconds that the last records are given to reach the database when the crawl ends; then they go to disk."""
_SPOOLED_BYTES = 2 * 1024**2
"""Bytes of records that are written to disk at once: in memory they are there three times meanwhile."""
_SAY_EVERY = 10.0
"""Seconds between two lines on what is still waited for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much at once, and how long; times in seconds."""

    batch_size: int
    batch_seconds: float
    spool_bytes: int
    timeout: float
    """How long a database may stand still before `wait_until_delivered` gives it up."""


class Delivery:
    """Takes records for one database and numbers them; `durable` grows when they are there, or on disk.

    A batch is written when it is full or a second old. While the database does not answer, or is slower than
    the crawl, what comes is written to a spool under `directory` instead, and read back from there in its order;
    so other stores need not wait. When the spool is full too, `has_room` becomes false: the crawl has to wait.
    Spools that an earlier process has left are delivered first.

    The spool is no detour that all records take, because it is on this machine's disk: as long as the database
    keeps up, nothing counts as durable that it has not got.
    """

    def __init__(
        self,
        database: Database,
        directory: Path,
        worker: str,
        bounds: Bounds,
        *,
        records: Records,
        on_set_aside: Callable[[Refused], Awaitable[None]],
        on_refused: Callable[[StoreError], None],
    ) -> None:
        self.received = 0
        self.durable = 0
        self.spooled = 0
        """Records that were written to disk on their way."""
        self.spools = Spools(directory, worker, database.name, database.target, max_bytes=bounds.spool_bytes)
        """What waits on disk."""
        self._name = database.name
        self.writer = Writer(database, on_set_aside)
        """What reached the database."""
        self._bounds = bounds
        self._on_refused = on_refused
        self._records = records
        self._pending = Pending(bounds.batch_size)
        self._news = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._spool_full = False
        self._hurry = False
        self._progress = time.monotonic()
        self._left_behind = 0

    async def open(self) -> None:
        """Connect, and take over what earlier processes have left.

        Raises `StoreRefused`, `SpoolDamaged`, or `OSError` when the directory cannot be used, and has let go of
        everything then; a database that does not answer is waited for in the background.
        """
        try:
            try:
                await self.writer.open()
            except StoreUnavailable as error:
                self.writer.note_down(error)
            await self.spools.open()
        except BaseException:
            await self._release()
            raise
        self._tasks = [
            asyncio.create_task(self._send_for_ever()),
            asyncio.create_task(self._spool_for_ever()),
        ]
        for task in self._tasks:
            task.add_done_callback(self._note_end)

    async def take_over(self) -> None:
        """Take over what processes have left that ended since. Raises `OSError`."""
        if await self.spools.take_over():
            self._progress = time.monotonic()
            self._news.set()

    async def _release(self) -> None:
        await self.writer.close()
        await self.spools.close()

    @property
    def has_room(self) -> bool:
        """False while what is in memory has to wait for database and disk."""
        return self._roomy.is_set()

    async def wait_for_room(self, seconds: float) -> None:
        """Return when there is room, or after that time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._roomy.wait(), seconds)

    def take(self, element: Draft | Removal) -> None:
        """Take one in; it is durable once `durable` has reached the number that it got."""
        now = time.monotonic()
        if not self._pending and not len(self.spools):
            self._progress = now
        filled = self._pending.fills_batch
        self._pending.add(element, now)
        self.received += 1
        if len(self._pending) == 1 or self._pending.fills_batch > filled:
            self._news.set()
        if not self._pending.has_room:
            self._roomy.clear()

    @property
    def undelivered(self) -> int:
        """How many have not reached the database, in memory and on disk; also after `close`."""
        return self._left_behind if not self._tasks else len(self._pending) + len(self.spools)

    async def wait_until_delivered(self) -> int:
        """Return when all have reached the database, or it has stood still for too long; how many have not."""
        self._hurry = True
        self._news.set()
        said = time.monotonic()
        while self.undelivered and time.monotonic() < self._progress + self._bounds.timeout:
            if time.monotonic() > said + _SAY_EVERY:
                said = time.monotonic()
                logger.info("%d records still wait for %s", self.undelivered, self._name)
            await asyncio.sleep(_LOOK / 2)
        self._hurry = False
        return self.undelivered

    async def close(self) -> None:
        """Write what is left, to the database or to disk, and let go. What fits nowhere is not durable."""
        self._hurry = True
        self._news.set()
        until = time.monotonic() + _GRACE_PERIOD
        while self._pending and not self.writer.is_down and not len(self.spools) and time.monotonic() < until:
            await asyncio.sleep(_LOOK / 10)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pending:
            await self._spool_pending(beyond_bound=True)
        self._left_behind = len(self._pending) + len(self.spools)
        self._tasks = []
        if self._left_behind:
            logger.warning(
                "%d records wait on disk for %s; the next run, or 'scrapy deliver', delivers them",
                self._left_behind,
                self._name,
            )
        await self._release()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Neither task ends by itself, unless the database refuses or there is a bug: then the crawl has to stop."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self.writer.is_down = True
        if not isinstance(error, StoreError):
            logger.critical("The delivery to %s has failed", self._name, exc_info=error)
            error = StoreError(f"the delivery has failed: {error!r}")
        self._on_refused(error)

    # To the database

    async def _send_for_ever(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._until_there_is_a_batch()
            try:
                await self.writer.open()
                await self._send_batch()
            except StoreUnavailable as error:
                self.writer.note_down(error)
                await asyncio.sleep(random.uniform(pause / 2, pause))
                pause = min(pause * 2, _LONGEST_PAUSE)
            except OSError as error:
                logger.warning("The spool of %s cannot be read: %s", self._name, error)
                await asyncio.sleep(_LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE
                self.writer.note_up(self.undelivered)

    async def _until_there_is_a_batch(self) -> None:
        while not (len(self.spools) or self._is_batch_ready()):
            self._news.clear()
            rest = None
            if self._pending:
                rest = max(0.0, self._pending.oldest + self._bounds.batch_seconds - time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), rest)

    def _is_batch_ready(self) -> bool:
        return bool(self._pending) and (
            self._hurry
            or self._pending.fills_batch
            or time.monotonic() >= self._pending.oldest + self._bounds.batch_seconds
        )

    async def _send_batch(self) -> None:
        """What waits on disk goes first, so that a removal never overtakes the records before it."""
        if len(self.spools):
            # In larger batches than what comes, so that it grows shorter.
            spool, payloads = await self.spools.read(ROOM * self._bounds.batch_size)
            await self.writer.write([decode(payload, self._records) for payload in payloads])
            await self.spools.drop(spool, len(payloads))
        else:
            batch = self._pending.next_batch()
            upto = self.durable + len(batch)
            await self.writer.write(batch)
            self._let_go(upto)
        self._progress = time.monotonic()

    def _let_go(self, upto: int) -> None:
        """Forget what is durable up to this number; some or all of it may have gone to disk meanwhile."""
        while self.durable < upto:
            self._pending.drop_first()
            self.durable += 1
        if self._pending.has_room:
            self._roomy.set()

    # To the disk

    async def _spool_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if self._is_late():
                await self._spool_pending()

    def _is_late(self) -> bool:
        if not self._pending:
            return False
        age = time.monotonic() - self._pending.oldest
        if self.writer.is_down or len(self.spools) > 2 * ROOM * self._bounds.batch_size:
            return self._pending.fills_batch or age >= self._bounds.batch_seconds
        return age >= _LATE

    async def _spool_pending(self, *, beyond_bound: bool = False) -> None:
        """Write to disk what is in memory now, a few megabytes at a time, as far as there is room. A batch that is
        under way to the database may then be written twice.
        """
        end = self.durable + len(self._pending)
        while self.durable < end and await self._spool_some(beyond_bound=beyond_bound):
            pass

    async def _spool_some(self, *, beyond_bound: bool) -> bool:
        """The oldest; False when the disk has no room for them."""
        payloads = [encode(element) for element in self._pending.first(_SPOOLED_BYTES)]
        upto = self.durable + len(payloads)
        try:
            fits = await self.spools.append(payloads, beyond_bound=beyond_bound)
        except OSError as error:
            fits, problem = False, f"cannot be written: {error.strerror or error}"
        else:
            problem = f"is full ({self._bounds.spool_bytes} bytes)"
        if fits:
            self.spooled += len(payloads)
            self._spool_full = False
            self._let_go(upto)
        elif not self._spool_full:
            self._spool_full = True
            logger.warning("The spool of %s %s; the crawl waits for the database", self._name, problem)
        return fits
