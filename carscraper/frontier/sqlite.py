"""The frontier in one SQLite file, or in memory: for a crawl by one process.

Every method is a coroutine by contract but runs from start to end without waiting: an exchange takes about a
millisecond, less than a switch to a thread and back would cost under load.

The file is in WAL mode with `synchronous = NORMAL`: a kill of the process loses nothing; a loss of power may
roll back the last exchanges, whole and in order. Work is then done again, never left out, since an element
leaves the frontier only after its records are durable in the stores, and repeated records change nothing.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

from carscraper.exceptions import (
    ConfigurationError,
    ForeignFile,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
)
from carscraper.frontier.contract import (
    Counts,
    CrawlState,
    DeadLetter,
    Entry,
    Held,
    Inbox,
    Lease,
    Outbox,
    Pace,
    PaceChange,
    Retry,
    SlotLimit,
    Status,
    WorkerStatus,
)

APPLICATION_ID = 0x63617266
SCHEMA_VERSION = 2
BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that is writing: `scrapy queue` beside a crawl."""
SWEEP = 1000
"""Most leases reclaimed, delays ended and pauses ended in one exchange; the rest has its turn in the next."""
KEEP = 3600.0
"""Seconds for which a verdict, and a silent worker that holds nothing, are remembered."""

QUEUED, DELAYED, LEASED, DEAD = range(4)


def load_statements(operation: str) -> SimpleNamespace:
    """The named statements of `sql/<operation>.sql`, as attributes."""
    text = files("carscraper.frontier").joinpath("sql", f"{operation}.sql").read_text("utf-8")
    statements = {}
    for section in text.split("-- :")[1:]:
        headline, _, sql = section.partition("\n")
        statements[headline.split()[0]] = sql.strip().removesuffix(";")
    return SimpleNamespace(**statements)


EXCHANGE = load_statements("exchange")
STATUS = load_statements("status")
CRAWL = load_statements("crawl")
DEAD_LETTERS = load_statements("dead")
FORGET = load_statements("forget")


@dataclass(slots=True)
class Ledger:
    """The row of table `crawl`, while a transaction changes it."""

    crawl_id: str
    next_id: int
    next_token: int
    next_turn: int
    unfinished: int
    stale: int
    claimer: str | None


class SqliteFrontier:
    """A frontier in the file `path`, or in memory when it is None.

    `begin` locks the file (`<path>.lock`) until `close`, so that one process at a time crawls with it;
    reading and the work on dead letters need no lock. `lease_seconds` is how long a lease holds without
    renewal, `max_attempts` how often an element is handed out before it is buried. `clock` gives seconds
    since the epoch.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        worker: str,
        lease_seconds: float = 60,
        max_attempts: int = 5,
        limits: Mapping[str, SlotLimit],
        default_limit: SlotLimit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._limits = limits
        self._default_limit = default_limit
        self._clock = clock
        self._crawl_id: str | None = None
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None

    async def begin(self, crawl_id: str) -> CrawlState:
        """Lock the file, and join the crawl in it or begin one; see the contract.

        Leases that are found are of a process that is gone: they end at once, as if they had expired. Raises
        `ConfigurationError` when another crawl holds the file, `ForeignFile` when it is not a frontier of
        ours.
        """
        self._take_lock()
        if self._connection is None:
            self._connection = self._open(create=True)
        with self._transaction() as db:
            now = self._clock()
            created = db.execute(EXCHANGE.read_crawl).fetchone() is None
            if created:
                db.execute(CRAWL.begin, (crawl_id,))
            db.execute(CRAWL.drop_workers, (now - KEEP,))
            db.execute(CRAWL.prune_verdicts, (now,))
            db.execute(CRAWL.all_leases)
            change = self._change(db, now)
            change.reclaim(limit=-1)
            if change.ledger.unfinished == 0:
                change.ledger.claimer = None
            change.store()
            self._crawl_id = change.ledger.crawl_id
        return CrawlState(self._crawl_id, resumed=not created)

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        """One transaction; see the contract. A failed one left no trace, so a repetition is simply the first."""
        with self._transaction() as db:
            change = self._joined(db)
            change.reclaim(SWEEP)
            change.wake_on_time(SWEEP)
            refused = change.add(outbox.entries)
            change.land(outbox.landed)
            change.land_unsent(outbox.unsent)
            change.finish(outbox.acks)
            buried = change.retry(outbox.retries)
            for burial in outbox.burials:
                change.bury(burial.held, burial.reason)
            change.give_back(outbox.returns)
            change.renew(outbox.renewals)
            change.pause(outbox.pauses)
            paces = change.pace(outbox.paces)
            leases = change.hand_out(want)
            change.store()
            return Inbox(
                leases=leases,
                refused=refused,
                stale=change.stale,
                buried=buried,
                unfinished=change.ledger.unfinished,
                next_due=change.next_due(),
                paces=paces,
            )

    async def status(self) -> Status:
        """Counts, slots, callbacks and workers in one reading transaction."""
        if self._is_absent():
            return _empty_status()
        with self._transaction(write=False) as db:
            return self._read_status(db, self._clock())

    async def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        if self._is_absent():
            return []
        with self._transaction(write=False) as db:
            return [DeadLetter(*row) for row in db.execute(DEAD_LETTERS.list, (limit,))]

    async def retry_dead(self) -> int:
        """Queue every dead letter again, with its attempts back at zero; returns how many."""
        if self._is_absent():
            return 0
        with self._transaction() as db:
            if db.execute(EXCHANGE.read_crawl).fetchone() is None:
                return 0
            change = self._change(db, self._clock())
            change.roused.update(slot for (slot,) in db.execute(DEAD_LETTERS.slots))
            revived = db.execute(DEAD_LETTERS.revive).rowcount
            change.ledger.unfinished += revived
            change.store()
            return revived

    async def drop_dead(self) -> int:
        """Remove every dead letter and forget that it was ever pushed; returns how many."""
        if self._is_absent():
            return 0
        with self._transaction() as db:
            for slot, callback, number in db.execute(DEAD_LETTERS.count).fetchall():
                db.execute(EXCHANGE.count, (slot, callback, -number, 0))
            db.execute(DEAD_LETTERS.drop_bodies)
            return db.execute(DEAD_LETTERS.drop).rowcount

    async def claim_end(self) -> bool:
        """Whether this worker may close the books; see the contract."""
        with self._transaction() as db:
            change = self._joined(db)
            claimed = change.claim()
            change.store()
            return claimed

    async def publish_verdict(self, verdict: bytes) -> None:
        """Leave the verdict for the workers that wait; it is kept for an hour, and for an hour after
        `forget`.
        """
        with self._transaction() as db:
            change = self._joined(db)
            db.execute(CRAWL.publish, (change.ledger.crawl_id, verdict, change.now + KEEP))

    async def verdict(self) -> bytes | None:
        """What was published for the crawl that this worker has joined, or None."""
        with self._transaction(write=False) as db:
            row = db.execute(CRAWL.verdict, (self._crawl_id, self._clock())).fetchone()
            return None if row is None else bytes(row[0])

    async def forget(self) -> None:
        """Remove the crawl with all it has seen; the file stays, for the next one."""
        if self._is_absent():
            return
        with self._transaction() as db:
            row = db.execute(EXCHANGE.read_crawl).fetchone()
            if row is not None:
                db.execute(CRAWL.keep_verdict, (self._clock() + KEEP, row[0]))
            for statement in vars(FORGET).values():
                db.execute(statement)

    async def close(self) -> None:
        """Close the file and let go of its lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self) -> None:
        """Lock `<path>.lock`; the system lets go of it when the process ends, however it ends."""
        if self._path is None or self._lock is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ConfigurationError(f"{self._path} is in use: another crawl is running on it") from None
        self._lock = lock

    def _is_absent(self) -> bool:
        """Whether there is nothing to open; opens the connection otherwise."""
        if self._connection is None:
            if self._path is not None and not self._path.exists():
                return True
            self._connection = self._open(create=self._path is None)
        return False

    def _open(self, *, create: bool) -> sqlite3.Connection:
        """Open the database, made when it is absent; a file that is not ours is never opened for writing."""
        if self._path is None:
            connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.executescript(_schema())
            return connection
        if create and not self._path.exists():
            _make_file(self._path)
        check_header(self._path)
        try:
            with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
                reader.execute(EXCHANGE.read_crawl).fetchall()
                reader.execute("SELECT count(*) FROM worker").fetchall()
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=BUSY_TIMEOUT,
                isolation_level=None,
            )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
        except sqlite3.Error as error:
            raise _translated(error, self._path, opening=True) from error
        return connection

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that commits at the end of the block, and is rolled back when the block raises."""
        db = self._connection
        if db is None:
            raise FrontierLost("no crawl has been joined")
        try:
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _translated(error, self._path, opening=False) from error
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _change(self, db: sqlite3.Connection, now: float) -> Change:
        return Change(
            db,
            now=now,
            worker=self._worker,
            lease_seconds=self._lease_seconds,
            max_attempts=self._max_attempts,
            limits=self._limits,
            default_limit=self._default_limit,
        )

    def _joined(self, db: sqlite3.Connection) -> Change:
        """The change of a worker that has joined the crawl that is there; raises `FrontierLost` otherwise."""
        row = db.execute(EXCHANGE.read_crawl).fetchone()
        if self._crawl_id is None or row is None or row[0] != self._crawl_id:
            raise FrontierLost(f"crawl {self._crawl_id} is no longer in {self._path or 'memory'}")
        change = self._change(db, self._clock())
        db.execute(EXCHANGE.sign_of_life, (self._worker, change.now))
        return change

    def _read_status(self, db: sqlite3.Connection, now: float) -> Status:
        row = db.execute(EXCHANGE.read_crawl).fetchone()
        if row is None:
            return _empty_status()
        cells: dict[tuple[str, str], Counter[str]] = {}
        for slot, callback, pushed, done in db.execute(STATUS.tallies):
            cells[slot, callback] = Counter(queued=pushed - done, done=done)
        for state, statement, parameters in (
            ("leased", STATUS.leased, ()),
            ("dead", STATUS.dead, ()),
            ("delayed", STATUS.delayed, (now,)),
        ):
            for slot, callback, number in db.execute(statement, parameters):
                cells[slot, callback][state] = number
                cells[slot, callback]["queued"] -= number
        total: Counter[str] = Counter()
        slots: dict[str, Counter[str]] = {}
        callbacks: dict[str, Counter[str]] = {}
        for (slot, callback), cell in cells.items():
            for sums in (total, slots.setdefault(slot, Counter()), callbacks.setdefault(callback, Counter())):
                sums.update(cell)
        oldest = db.execute(STATUS.oldest).fetchone()
        return Status(
            crawl_id=row[0],
            total=_counts(total),
            past_due=db.execute(STATUS.past_due, (now,)).fetchone()[0],
            oldest=None if oldest is None else max(0.0, now - oldest[0]),
            slots={name: _counts(cell) for name, cell in slots.items() if any(cell.values())},
            callbacks={name: _counts(cell) for name, cell in callbacks.items() if any(cell.values())},
            workers=[WorkerStatus(*worker) for worker in db.execute(STATUS.workers, (now - KEEP,))],
            stale_messages=Ledger(*row).stale,
        )


class Change:
    """What one transaction does to the elements, in the contract's words; `store` writes what it has counted."""

    def __init__(
        self,
        db: sqlite3.Connection,
        *,
        now: float,
        worker: str,
        lease_seconds: float,
        max_attempts: int,
        limits: Mapping[str, SlotLimit],
        default_limit: SlotLimit,
    ) -> None:
        self.now = now
        self.stale: list[Held] = []
        self.roused: set[int] = set()
        """Slots that may have got something ready or a free place; `_wake` puts them where they belong."""
        self.ledger = Ledger(*db.execute(EXCHANGE.read_crawl).fetchone())
        self._db = db
        self._worker = worker
        self._deadline = now + lease_seconds
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._limits = limits
        self._default_limit = default_limit
        self._pushed: Counter[tuple[int, int]] = Counter()
        self._done: Counter[tuple[int, int]] = Counter()
        self._slot_ids: dict[str, int] = {}
        self._callback_ids: dict[str, int] = {}

    def reclaim(self, limit: int) -> None:
        """End the leases that have expired (-1: every one): queue them again, or bury them if their attempts
        are used up.
        """
        for number, slot, attempts in self._db.execute(EXCHANGE.expired, (self.now, limit)).fetchall():
            if attempts >= self._max_attempts:
                self._db.execute(
                    EXCHANGE.bury, (self.now, f"lease expired after {attempts} attempts", number)
                )
                self.ledger.unfinished -= 1
            else:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, attempts, number))
            self.roused.add(slot)

    def wake_on_time(self, limit: int) -> None:
        """End the delays and the pauses that are over."""
        for number, slot in self._db.execute(EXCHANGE.due, (self.now, limit)).fetchall():
            self._db.execute(EXCHANGE.promote, (number,))
            self.roused.add(slot)
        for (slot,) in self._db.execute(EXCHANGE.released, (self.now, limit)).fetchall():
            self._db.execute(EXCHANGE.release, (slot,))
            self.roused.add(slot)

    def add(self, entries: list[Entry]) -> list[int]:
        """Add what is new, reschedule what waits; returns the keys of what is leased, done or dead."""
        refused = []
        for entry in entries:
            state, not_before = (DELAYED, self.now + entry.delay) if entry.delay > 0 else (QUEUED, 0.0)
            known = self._db.execute(EXCHANGE.find, (entry.key,)).fetchone()
            if known is not None and known[1] in (QUEUED, DELAYED):
                number, _, slot, priority = known
                self._db.execute(
                    EXCHANGE.reschedule, (state, not_before, max(priority, entry.priority), number)
                )
                self.roused.add(slot)
            elif known is not None or self._db.execute(EXCHANGE.is_done, (entry.key,)).fetchone() is not None:
                refused.append(entry.key)
            else:
                self._add_new(entry, state, not_before)
        return refused

    def _add_new(self, entry: Entry, state: int, not_before: float) -> None:
        number = self.ledger.next_id
        slot = self._slot(entry.slot)
        callback = self._callback(entry.callback)
        self._db.execute(
            EXCHANGE.add, (number, entry.key, state, slot, callback, entry.priority, self.now, not_before)
        )
        self._db.execute(EXCHANGE.add_body, (number, entry.payload))
        self.ledger.next_id += 1
        self.ledger.unfinished += 1
        self._pushed[slot, callback] += 1
        self.roused.add(slot)

    def land(self, landed: list[Held]) -> None:
        """Free the places of these leases; the leases go on."""
        for held in landed:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.land, (lease[0],))

    def land_unsent(self, unsent: list[Held]) -> None:
        """Free the places of these leases, and the time of one that was its slot's last hand-out."""
        for held in unsent:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.free_time, (lease[1], held.token, lease[0]))
                self._db.execute(EXCHANGE.land, (lease[0],))

    def finish(self, acks: list[Held]) -> None:
        """These elements are done; only their keys stay."""
        for held in acks:
            if (lease := self._find(held)) is not None:
                number, slot, callback, _ = lease
                self._db.execute(EXCHANGE.remove, (number,))
                self._db.execute(EXCHANGE.remove_body, (number,))
                self._db.execute(EXCHANGE.finish, (held.key,))
                self.ledger.unfinished -= 1
                self._done[slot, callback] += 1

    def retry(self, retries: list[Retry]) -> list[int]:
        """Queue these again, after their delay; returns the keys of those buried because their attempts are
        used up.
        """
        buried = []
        for retry in retries:
            lease = self._find(retry.held)
            if lease is None:
                continue
            number, _, _, attempts = lease
            if attempts >= self._max_attempts:
                self._db.execute(EXCHANGE.bury, (self.now, _storable(retry.reason), number))
                self.ledger.unfinished -= 1
                buried.append(retry.held.key)
            elif retry.delay > 0:
                self._db.execute(EXCHANGE.requeue, (DELAYED, self.now + retry.delay, attempts, number))
            else:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, attempts, number))
        return buried

    def bury(self, held: Held, reason: str) -> None:
        """This element becomes a dead letter."""
        if (lease := self._find(held)) is not None:
            self._db.execute(EXCHANGE.bury, (self.now, _storable(reason), lease[0]))
            self.ledger.unfinished -= 1

    def give_back(self, returns: list[Held]) -> None:
        """Queue these again at once; the attempt does not count."""
        for held in returns:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, lease[3] - 1, lease[0]))

    def renew(self, renewals: list[Held]) -> None:
        """Hold these leases for another full lease time."""
        for held in renewals:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.renew, (self._deadline, lease[0]))

    def pause(self, pauses: Mapping[str, float]) -> None:
        """Hand out nothing of these slots for so many seconds from now, or longer where a longer pause is
        set.
        """
        for name, seconds in pauses.items():
            slot = self._slot(name)
            self._db.execute(EXCHANGE.pause, (self.now + seconds, slot))
            self.roused.add(slot)

    def pace(self, paces: Mapping[str, PaceChange]) -> dict[str, Pace]:
        """Take the changes that are based on the latest version; returns what holds now, for all of them."""
        known = {}
        for name, change in paces.items():
            slot = self._slot(name)
            self._db.execute(EXCHANGE.change_pace, (change.interval, slot, change.version))
            known[name] = Pace(*self._db.execute(EXCHANGE.pace, (slot,)).fetchone())
        return known

    def hand_out(self, want: int) -> list[Lease]:
        """Up to `want` leases, in equal shares from the slots whose turn it is; a slot that was served goes
        to the end.

        Each round gives out at least one lease or takes at least one slot out of the rotation, so it comes to
        an end.
        """
        self._wake()
        leases: list[Lease] = []
        while (missing := want - len(leases)) > 0:
            slots = self._db.execute(EXCHANGE.next_slots, (missing,)).fetchall()
            if not slots:
                break
            share = missing // len(slots)
            for slot, name, pace in slots:
                limit = self._limits.get(name, self._default_limit)
                leases += self._serve(slot, name, share, limit.cap, max(limit.interval, pace))
        return leases

    def _serve(self, slot: int, name: str, share: int, cap: int, interval: float) -> list[Lease]:
        """Up to `share` leases of one slot, within its cap; the slot stays in the rotation if it may have
        more. One that has an interval gives one, and then nothing for that long.
        """
        if interval > 0:
            share = 1
        room = number = self._free_places(slot, cap, share)
        leases: list[Lease] = []
        if room > 0:
            rows = self._db.execute(EXCHANGE.ready, (slot, min(room, share))).fetchall()
            number = len(rows)
            for element, key, attempts, payload in rows:
                token = self.ledger.next_token
                self.ledger.next_token += 1
                self._db.execute(EXCHANGE.lease, (attempts + 1, token, self._deadline, self._worker, element))
                leases.append(Lease(key, token, attempts + 1, name, payload))
        if leases and interval > 0:
            self._db.execute(EXCHANGE.space_out, (self.now + interval, leases[-1].token, slot))
            self.roused.add(slot)
        elif number < share or number == room:
            self._db.execute(EXCHANGE.turn, (None, slot))
        else:
            self._db.execute(EXCHANGE.turn, (self.ledger.next_turn, slot))
            self.ledger.next_turn += 1
        return leases

    def _free_places(self, slot: int, cap: int, share: int) -> int:
        """How many more leases of the slot may go on the wire; more than `share` when there is no limit."""
        if cap == 0:
            return share + 1
        on_wire: int = self._db.execute(EXCHANGE.on_wire, (slot,)).fetchone()[0]
        return max(0, cap - on_wire)

    def next_due(self) -> float | None:
        """Seconds until the next delay, pause or interval ends that holds something back; None when there is
        none.
        """
        times = [
            self._db.execute(EXCHANGE.next_delayed).fetchone()[0],
            self._db.execute(EXCHANGE.next_held).fetchone()[0],
        ]
        return min((max(0.0, at - self.now) for at in times if at is not None), default=None)

    def claim(self) -> bool:
        """Whether this worker has the claim to the end, now that it has asked."""
        ledger = self.ledger
        if ledger.unfinished > 0:
            return False
        if ledger.claimer == self._worker:
            return True
        if ledger.claimer is not None:
            last_seen = self._db.execute(CRAWL.last_seen, (ledger.claimer,)).fetchone()
            if last_seen is not None and last_seen[0] + self._lease_seconds > self.now:
                return False
        self._db.execute(CRAWL.withdraw, (ledger.crawl_id,))
        ledger.claimer = self._worker
        return True

    def store(self) -> None:
        """Write the counters, and put the slots that were roused where they belong."""
        self._wake()
        ledger = self.ledger
        ledger.stale += len(self.stale)
        if ledger.unfinished > 0:
            ledger.claimer = None
        for slot, callback in self._pushed.keys() | self._done.keys():
            numbers = (self._pushed[slot, callback], self._done[slot, callback])
            self._db.execute(EXCHANGE.count, (slot, callback, *numbers))
        self._db.execute(
            EXCHANGE.write_crawl,
            (
                ledger.next_id,
                ledger.next_token,
                ledger.next_turn,
                ledger.unfinished,
                ledger.stale,
                ledger.claimer,
            ),
        )

    def _find(self, held: Held) -> tuple[int, int, int, int] | None:
        """Number, slot, callback and attempts of a lease that is still held, whose slot is roused; None if it
        is stale.
        """
        lease: tuple[int, int, int, int] | None = self._db.execute(
            EXCHANGE.find_held, (held.key, held.token)
        ).fetchone()
        if lease is None:
            self.stale.append(held)
        else:
            self.roused.add(lease[1])
        return lease

    def _wake(self) -> None:
        """Put every roused slot that has something ready in its place: in the rotation, or held back by its
        pause or interval.
        """
        for slot in self.roused:
            turn, held_until, not_before = self._db.execute(EXCHANGE.place, (slot,)).fetchone()
            if turn is not None:
                continue
            ready = self._db.execute(EXCHANGE.has_ready, (slot,)).fetchone() is not None
            if held_until is not None:
                if not ready:
                    self._db.execute(EXCHANGE.release, (slot,))
            elif ready and not_before > self.now:
                self._db.execute(EXCHANGE.hold, (not_before, slot))
            elif ready:
                self._db.execute(EXCHANGE.turn, (self.ledger.next_turn, slot))
                self.ledger.next_turn += 1
        self.roused.clear()

    def _slot(self, name: str) -> int:
        if name not in self._slot_ids:
            row = self._db.execute(EXCHANGE.slot_id, (name,)).fetchone()
            self._slot_ids[name] = row[0] if row else _new_id(self._db.execute(EXCHANGE.add_slot, (name,)))
        return self._slot_ids[name]

    def _callback(self, name: str) -> int:
        if name not in self._callback_ids:
            row = self._db.execute(EXCHANGE.callback_id, (name,)).fetchone()
            self._callback_ids[name] = (
                row[0] if row else _new_id(self._db.execute(EXCHANGE.add_callback, (name,)))
            )
        return self._callback_ids[name]


def check_header(path: Path) -> None:
    """Read the first bytes of `path` and raise `ForeignFile` unless they are of a frontier of this version."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise ForeignFile(f"{path} is not a SQLite file; move it away to crawl with this path")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ForeignFile(f"{path} is a SQLite file of another program; move it away to crawl with this path")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        raise ForeignFile(
            f"{path} has schema version {version}, and this release knows only {SCHEMA_VERSION}"
        )


def _schema() -> str:
    return files("carscraper.frontier").joinpath("sql", "schema.sql").read_text("utf-8")


def _make_file(path: Path) -> None:
    """Make an empty frontier under another name, then rename it: nobody ever sees a part of it."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(f"BEGIN;\n{_schema()}\nCOMMIT;")
    except sqlite3.Error as error:
        raise _translated(error, path, opening=True) from error
    draft.replace(path)


def _translated(error: sqlite3.Error, path: Path | None, *, opening: bool) -> FrontierError:
    """The project's error for one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return FrontierUnavailable(f"{path} is busy: another process is writing to it")
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    if opening and code in damaged:
        return ForeignFile(f"{path} cannot be read as a frontier: {error}")
    return FrontierError(f"{path or 'frontier in memory'}: {error}")


def _storable(text: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()


def _new_id(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise FrontierError("SQLite gave no number to a new row")
    return cursor.lastrowid


def _counts(cell: Counter[str]) -> Counts:
    return Counts(
        queued=cell["queued"],
        delayed=cell["delayed"],
        leased=cell["leased"],
        dead=cell["dead"],
        done=cell["done"],
    )


def _empty_status() -> Status:
    return Status(
        crawl_id=None,
        total=Counts(0, 0, 0, 0, 0),
        past_due=0,
        oldest=None,
        slots={},
        callbacks={},
        workers=[],
        stale_messages=0,
    )
