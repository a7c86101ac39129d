"""The way of records to one database: straight from memory, or over the disk while the database is behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from carscraper.exceptions import SpoolDamaged, StoreError, StoreUnavailable
from carscraper.items import Car
from carscraper.stores.contract import Database, Refused
from carscraper.stores.pending import ROOM, Pending, Removal
from carscraper.stores.record import SHAPELESS, Draft, Record, Records
from carscraper.stores.spool import LeftAlone, Spool

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
_FAREWELL = 3.0
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
    patience: float
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
        self.written = 0
        """Records that reached the database, those from earlier processes included."""
        self.spooled = 0
        """Records that were written to disk on their way."""
        self.place = 0
        """Of `Spool.place`, once it is open."""
        self.problem = ""
        """What the database said, or the system for it, when it did not answer last; empty while it does."""
        self._database = database
        self._directory = directory
        self._worker = worker
        self._bounds = bounds
        self._on_set_aside = on_set_aside
        self._on_refused = on_refused
        self._records = records
        self._pending = Pending(bounds.batch_size)
        self._spools: list[Spool] = []
        """Those taken over, the oldest first, and this process's own, the last."""
        self._seen: dict[str, None] = {}
        """Names of spools that were there at some time, of any process, in the order of their finding."""
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._news = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._connected = False
        self._down = False
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
            await self._connect_at_first()
            await self._take_over()
        except BaseException:
            await self._release()
            raise
        self._tasks = [
            asyncio.create_task(self._send_for_ever()),
            asyncio.create_task(self._spool_for_ever()),
        ]
        for task in self._tasks:
            task.add_done_callback(self._note_end)

    async def _connect_at_first(self) -> None:
        try:
            await self._database.open()
            self._connected = True
        except StoreUnavailable as error:
            self._note_down(error)

    async def _take_over(self) -> None:
        """Open the spools: those of earlier processes, then this one's own."""
        target, bound = self._database.target, self._bounds.spool_bytes
        self._spools, left_alone = await self._adopt()
        for left in left_alone:
            if left.target is None:
                raise SpoolDamaged(f"{left.problem} (move {left.directory} away to go on without it)")
            name = self._database.name
            logger.warning("Records in %s wait for another %s than %s", left.directory, name, target)
        own = await self._on_disk(Spool.open, self._directory / self._worker, target, max_bytes=bound)
        self._spools.append(own)
        self.place = await self._on_disk(Spool.place, self._directory)
        if waiting := self._backlog:
            logger.info("%d records of an earlier run wait for %s", waiting, self._database.name)

    async def _adopt(self) -> tuple[list[Spool], list[LeftAlone]]:
        """What other processes have left, and what of it is not for us."""
        target, bound = self._database.target, self._bounds.spool_bytes
        self._seen.update(dict.fromkeys(path.parent.name for path in self._directory.glob("*/.lock")))
        return await self._on_disk(Spool.adopt, self._directory, target, max_bytes=bound)

    async def take_over(self) -> None:
        """Take over what processes have left that ended since. Raises `OSError`."""
        spools, _ = await self._adopt()
        if spools:
            self._spools[-1:-1] = spools  # this one's own stays the last
            self._progress = time.monotonic()
            waiting = sum(map(len, spools))
            logger.info("%d records of a worker that has left wait for %s", waiting, self._database.name)
            self._news.set()

    async def _release(self) -> None:
        await self._database.close()
        for spool in self._spools:
            await self._on_disk(spool.close)
        self._disk.shutdown()

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
        if not self._pending and not self._backlog:
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
        return self._left_behind if not self._tasks else len(self._pending) + self._backlog

    @property
    def waiting(self) -> dict[str, int]:
        """How many wait on disk, by the process that has written them; also after `close`. With zeros: those of which
        nothing is there any more, so that somebody has delivered it.
        """
        gone = [name for name in self._seen if not (self._directory / name).exists()]
        return dict.fromkeys(gone, 0) | {spool.directory.name: len(spool) for spool in self._spools}

    def has_spool_of(self, worker: str) -> bool:
        """Whether something that a process of this name has written is in the directory."""
        return (self._directory / worker).exists()

    async def wait_until_delivered(self) -> int:
        """Return when all have reached the database, or it has stood still for too long; how many have not."""
        self._hurry = True
        self._news.set()
        said = time.monotonic()
        while self.undelivered and time.monotonic() < self._progress + self._bounds.patience:
            if time.monotonic() > said + _SAY_EVERY:
                said = time.monotonic()
                logger.info("%d records still wait for %s", self.undelivered, self._database.name)
            await asyncio.sleep(_LOOK / 2)
        self._hurry = False
        return self.undelivered

    async def close(self) -> None:
        """Write what is left, to the database or to disk, and let go. What fits nowhere is not durable."""
        self._hurry = True
        self._news.set()
        until = time.monotonic() + _FAREWELL
        while self._pending and not self._down and not self._backlog and time.monotonic() < until:
            await asyncio.sleep(_LOOK / 10)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pending:
            await self._spool_pending(beyond_bound=True)
        self._left_behind = len(self._pending) + self._backlog
        self._tasks = []
        if self._left_behind:
            logger.warning(
                "%d records wait on disk for %s; the next run, or 'scrapy deliver', delivers them",
                self._left_behind,
                self._database.name,
            )
        await self._release()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Neither task ends by itself, unless the database refuses or there is a bug: then the crawl has to stop."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self._down = True
        if not isinstance(error, StoreError):
            logger.critical("The delivery to %s has failed", self._database.name, exc_info=error)
            error = StoreError(f"the delivery has failed: {error!r}")
        self._on_refused(error)

    # To the database

    async def _send_for_ever(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._until_there_is_a_batch()
            try:
                if not self._connected:
                    await self._database.open()
                    self._connected = True
                await self._send_batch()
            except StoreUnavailable as error:
                self._connected = False
                self._note_down(error)
                await asyncio.sleep(random.uniform(pause / 2, pause))
                pause = min(pause * 2, _LONGEST_PAUSE)
            except OSError as error:
                logger.warning("The spool of %s cannot be read: %s", self._database.name, error)
                await asyncio.sleep(_LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE
                self._note_up()

    async def _until_there_is_a_batch(self) -> None:
        while not (self._backlog or self._is_batch_ready()):
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
        spool = next((spool for spool in self._spools if len(spool)), None)
        if spool is not None:
            # In larger batches than what comes, so that it grows shorter.
            payloads = await self._on_disk(spool.read, ROOM * self._bounds.batch_size)
            await self._write([self._decode(payload) for payload in payloads])
            await self._on_disk(spool.drop, len(payloads))
        else:
            batch = self._pending.next_batch()
            upto = self.durable + len(batch)
            await self._write(batch)
            self._let_go(upto)
        self._progress = time.monotonic()

    async def _write(self, elements: Sequence[Draft | Removal]) -> None:
        drafts: list[Draft] = []
        for element in elements:
            if isinstance(element, Draft):
                drafts.append(element)
                continue
            await self._upsert(drafts)
            drafts = []
            gone = await self._database.mark_removed(element.seen, element.begun_at, element.removed_at)
            logger.info("%s: %d listings are marked as removed", self._database.name, gone)
        await self._upsert(drafts)

    async def _upsert(self, drafts: list[Draft]) -> None:
        records: list[Record] = []
        refused: list[Refused] = []
        for draft in drafts:
            try:
                records.append(draft.record)
            except SHAPELESS as error:
                refused.append(Refused(draft.id, draft.url, f"no row can be made of it: {error!r}"))
        if records:
            refused += await self._database.upsert(records)
        for one in refused:
            await self._on_set_aside(one)
        self.written += len(drafts) - len(refused)

    def _let_go(self, upto: int) -> None:
        """Forget what is durable up to this number; some or all of it may have gone to disk meanwhile."""
        while self.durable < upto:
            self._pending.drop_first()
            self.durable += 1
        if self._pending.has_room:
            self._roomy.set()

    def _note_down(self, error: StoreUnavailable) -> None:
        self.problem = str(error)
        if not self._down:
            self._down = True
            logger.warning(
                "%s does not answer (%s); records wait on disk until it does", self._database.name, error
            )

    def _note_up(self) -> None:
        self.problem = ""
        if self._down:
            self._down = False
            logger.info("%s answers again; %d records wait for it", self._database.name, self.undelivered)

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
        if self._down or self._backlog > 2 * ROOM * self._bounds.batch_size:
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
        payloads = [self._encode(element) for element in self._pending.first(_SPOOLED_BYTES)]
        upto = self.durable + len(payloads)
        own = self._spools[-1]
        try:
            fits = await self._on_disk(own.append, payloads, beyond_bound=beyond_bound)
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
            logger.warning(
                "The spool of %s %s; the crawl waits for the database", self._database.name, problem
            )
        return fits

    async def _on_disk(self, call: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
        """In the one thread that touches the spools, one call after the other, also when its caller is cancelled."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._disk, partial(call, *arguments, **options))

    @property
    def _backlog(self) -> int:
        return sum(len(spool) for spool in self._spools)

    def _encode(self, element: Draft | Removal) -> bytes:
        if isinstance(element, Draft):
            return orjson.dumps({"car": orjson.Fragment(element.json)})
        return orjson.dumps({"removal": asdict(element)})

    def _decode(self, payload: bytes) -> Draft | Removal:
        found: dict[str, dict[str, Any]] = orjson.loads(payload)
        if "removal" in found:
            return Removal(**found["removal"])
        return Draft(Car(**found["car"]), self._records)
