"""The way of records to one database: straight from memory, or from the item log while the database is behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from carscraper.exceptions import BacklogDamaged, StoreError, StoreUnavailable
from carscraper.items import Car, Removal
from carscraper.output.entries import decode
from carscraper.stores.backlogs import Backlogs
from carscraper.stores.contract import Database, Refused
from carscraper.stores.own_backlog import OwnBacklog, OwnLog
from carscraper.stores.pending import ROOM, Pending, size_of
from carscraper.stores.record import Draft, Records
from carscraper.stores.writer import Writer
from scrapy_durable.exceptions import CodecError

logger = logging.getLogger(__name__)

_LATE = 5.0
"""Seconds that a record waits in memory for a database that answers; then it is left to the log. Reading it back costs
as much as writing it, so a database that is merely a little slower than the crawl holds it up instead. A removal takes
as long as the database is large: one that is under way would only be done twice.
"""
_LOOK = 0.1
"""Seconds between two looks whether something is late."""
_CAUGHT_UP = 2.0
"""Seconds without anything new after which it is noted how far the database is."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a database that does not answer is asked again, at most; doubled each time."""
_GRACE_PERIOD = 3.0
"""Seconds that the last records are given to reach the database when the crawl ends; then they wait in the log."""
_SAY_EVERY = 10.0
"""Seconds between two lines on what is still waited for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much at once, and how long; times in seconds."""

    batch_size: int
    batch_seconds: float
    behind_bytes: int
    """How much a database may be behind, of what this process has logged; then the crawl has to wait."""
    timeout: float
    """How long a database may stand still before `wait_until_delivered` gives it up."""


class Delivery:
    """Takes records for one database and numbers them; `durable` grows when they are there, or in the log.

    A batch is written when it is full or a second old. While the database does not answer, or is slower than the
    crawl, what comes is not kept in memory, and is read from the item log instead, in its order; so other stores need
    not wait. When the database is too far behind, `has_room` becomes false: the crawl has to wait. What earlier
    processes have logged and not delivered goes first.

    A record is always in the log, too. But that is on this machine's disk: as long as the database keeps up, nothing
    counts as durable that it has not got.
    """

    def __init__(
        self,
        database: Database,
        output_dir: Path,
        log: OwnLog | None,
        bounds: Bounds,
        *,
        records: Records,
        on_set_aside: Callable[[Refused], Awaitable[None]],
        on_refused: Callable[[StoreError], None],
    ) -> None:
        """`log` is where what is taken is logged before; without one, what others have left is delivered."""
        self.received = 0
        self.durable = 0
        self.left_to_log = 0
        """Records that were left to the log on their way."""
        own = None if log is None else log.own_directory
        self.backlogs = Backlogs(output_dir, database.key, database.name, database.target, own)
        """What waits on disk, of others."""
        self._log = log
        self._own: OwnBacklog | None = None
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
        self._is_too_far_behind = False
        self._hurry = False
        self._progress = time.monotonic()
        self._left_behind = 0

    async def open(self) -> None:
        """Connect, and adopt what earlier processes have left.

        Raises `StoreRefused`, `BacklogDamaged`, or `OSError` when the directory cannot be used, and has let go of
        everything then; a database that does not answer is waited for in the background.
        """
        try:
            try:
                await self.writer.open()
            except StoreUnavailable as error:
                self.writer.note_down(error)
            await self.backlogs.open()
        except BaseException:
            await self.writer.close()
            await self.backlogs.close(nothing_waits=True)
            raise
        if self._log is not None and self.backlogs.own is not None:
            backlogs, most = self.backlogs, self._bounds.behind_bytes
            self._own = OwnBacklog(self._log, self.backlogs.own, backlogs.on_disk, most)
        self._tasks = [
            asyncio.create_task(self._send_for_ever()),
            asyncio.create_task(self._leave_for_ever()),
        ]
        for task in self._tasks:
            task.add_done_callback(self._note_end)

    async def take_over(self) -> None:
        """Adopt what processes have left that ended since. Raises `OSError`."""
        if await self.backlogs.take_over():
            self._progress = time.monotonic()
            self._news.set()

    @property
    def has_room(self) -> bool:
        """False while what is in memory has to wait for database and disk."""
        return self._roomy.is_set()

    async def wait_for_room(self, seconds: float) -> None:
        """Return when there is room, or after that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._roomy.wait()

    def take(self, element: Draft | Removal, logged: int) -> None:
        """Take one in; it is durable once `durable` has reached the number that it got. `logged` is as in
        `Taken`.
        """
        now = time.monotonic()
        if not self._pending and not self._behind:
            self._progress = now
        self.received += 1
        if self._pending.add(element, now, logged):
            self._news.set()
        if not self._pending.has_room:
            self._roomy.clear()

    @property
    def _behind(self) -> int:
        """How many entries wait in logs."""
        return len(self.backlogs) + (len(self._own) if self._own is not None else 0)

    @property
    def waiting(self) -> dict[str, int]:
        """How many wait on disk, by the process that has written them."""
        return self.backlogs.waiting | ({} if self._own is None else {self._own.name: len(self._own)})

    @property
    def undelivered(self) -> int:
        """How many have not reached the database, in memory and on disk; also after `close`."""
        return self._left_behind if not self._tasks else len(self._pending) + self._behind

    async def wait_until_delivered(self) -> int:
        """Return when all have reached the database, or it has stood still for too long; how many have not. What is
        kept to be faster is let go of.
        """
        self._hurry = True
        self._news.set()
        said = time.monotonic()
        while self.undelivered and time.monotonic() < self._progress + self._bounds.timeout:
            if time.monotonic() > said + _SAY_EVERY:
                said = time.monotonic()
                logger.info("%d records still wait for %s", self.undelivered, self._name)
            await asyncio.sleep(_LOOK / 2)
        self._hurry = False
        self._records.clear()  # nothing comes for now, and the end of a crawl needs memory
        self.writer.trim()
        return self.undelivered

    async def close(self) -> None:
        """Write what is left, or leave it to the log, and let go. What is not in that is not durable."""
        self._hurry = True
        self._news.set()
        until = time.monotonic() + _GRACE_PERIOD
        while self._pending and not self.writer.is_down and not self._behind and time.monotonic() < until:
            await asyncio.sleep(_LOOK / 10)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(OSError):  # then it is not durable, and comes again
            await self._leave(beyond_bound=True)
        if self._own is not None:
            await self._own.note()
        self._left_behind = len(self._pending) + self._behind
        self._tasks = []
        if self._left_behind:
            logger.warning(
                "%d records wait on disk for %s; the next run, or 'scrapy deliver', delivers them",
                self._left_behind,
                self._name,
            )
        await self.writer.close()
        await self.backlogs.close(nothing_waits=not self._left_behind)

    def _note_end(self, task: asyncio.Task[None]) -> None:
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
                logger.warning("What waits for %s cannot be read: %s", self._name, error)
                await asyncio.sleep(_LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE
                self.writer.note_up(self.undelivered)

    async def _until_there_is_a_batch(self) -> None:
        while not (self._behind or self._is_batch_ready()):
            self._news.clear()
            rest = None
            if self._pending:
                rest = max(0.0, self._pending.oldest + self._bounds.batch_seconds - time.monotonic())
            elif self._own is not None and not self._own.is_noted:
                rest = _CAUGHT_UP
            try:
                async with asyncio.timeout(rest):  # `wait_for` may swallow that it is cancelled
                    await self._news.wait()
            except TimeoutError:
                if self._own is not None and not self._pending:
                    await self._own.note()

    def _is_batch_ready(self) -> bool:
        return bool(self._pending) and (
            self._hurry
            or self._pending.fills_batch
            or time.monotonic() >= self._pending.oldest + self._bounds.batch_seconds
        )

    async def _send_batch(self) -> None:
        """What waits on disk goes first, so that a removal never overtakes the records before it."""
        most = ROOM * self._bounds.batch_size  # larger than what comes, so that it grows shorter
        own = self._own
        if len(self.backlogs):
            backlog, entries = await self.backlogs.read(most)
            await self.writer.write(_elements(entries, self._records))
            await self.backlogs.drop(backlog, len(entries))
        elif own is not None and len(own):
            begin, entries = await own.read(most)
            elements = _elements(entries, self._records)
            await self.writer.write(elements)
            own.drop(begin, len(entries), sum(map(size_of, elements)))
        else:
            batch = self._pending.next_batch()
            upto = self.durable + len(batch)
            await self.writer.write([taken.element for taken in batch])
            if own is not None:
                own.drop_others(batch)
            self._let_go(upto)
        self._progress = time.monotonic()
        if own is not None:
            await own.note_now_and_then()

    def _let_go(self, upto: int) -> None:
        """Forget what is durable up to this number; some or all of it may have been left to the log meanwhile."""
        while self.durable < upto:
            self._pending.drop_first()
            self.durable += 1
        if self._pending.has_room:
            self._roomy.set()

    # To the log

    async def _leave_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            try:
                if self._is_late():
                    await self._leave()
            except OSError as error:
                logger.warning("What waits for %s stays in memory: %s", self._name, error)
                await asyncio.sleep(_LONGEST_PAUSE)

    def _is_late(self) -> bool:
        if not self._pending:
            return False
        age = time.monotonic() - self._pending.oldest
        if self.writer.is_down or self._behind > 2 * ROOM * self._bounds.batch_size:
            return self._pending.fills_batch or age >= self._bounds.batch_seconds
        return age >= _LATE and not self._pending.begins_with_removal

    async def _leave(self, *, beyond_bound: bool = False) -> None:
        """Leave to the log what is in memory now, as far as it is flushed there and the database not too far behind. A
        batch that is under way to the database may then be written twice. Raises `OSError`; then nothing is left.
        """
        if self._own is None:
            return
        leaving, is_full = self._own.may_leave(list(self._pending), beyond_bound=beyond_bound)
        if leaving:
            upto = self.durable + len(leaving)
            await self._own.reach_back(leaving)
            for taken in leaving[len(leaving) - max(0, upto - self.durable) :]:
                self._own.leave(taken)
                self.left_to_log += 1
            self._let_go(upto)
            self._news.set()
        if is_full and not self._is_too_far_behind:
            logger.warning(
                "%d bytes wait on disk for %s; the crawl waits for the database", self._own.bytes, self._name
            )
        self._is_too_far_behind = is_full


def _elements(entries: list[bytes], records: Records) -> list[Draft | Removal]:
    """What stands in a log. Raises `BacklogDamaged` for what is none of ours."""
    try:
        items = [decode(entry) for entry in entries]
    except CodecError as error:
        raise BacklogDamaged(f"what waits on disk is none of ours: {error}") from error
    kept = [item for item in items if isinstance(item, Car | Removal)]  # others were erased
    return [Draft(item, records) if isinstance(item, Car) else item for item in kept]
