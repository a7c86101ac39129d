"""The frontier in one SQLite file, or in memory: for a crawl by one process.

Every method is a coroutine by contract but runs from start to end without waiting: an exchange takes about a
millisecond, less than a switch to a thread and back would cost under load.

The file is in WAL mode with `synchronous = NORMAL`: a kill of the process loses nothing; a loss of power may
roll back the last exchanges, whole and in order. Work is then done again, never left out, since an element
leaves the frontier only after its records are durable in the stores, and repeated records change nothing.
"""

from __future__ import annotations

import fcntl
import math
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from scrapy_durable.exceptions import (
    ConfigurationError,
    ForeignCrawl,
    ForeignFile,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier.contract import (
    Counts,
    CrawlState,
    DeadLetter,
    Inbox,
    Outbox,
    SlotLimit,
    Status,
    WorkerStatus,
    counted_on,
)
from scrapy_durable.frontier.report import pack_report, read_report
from scrapy_durable.frontier.sqlite_change import CRAWL, EXCHANGE, Change, Ledger, load_statements

APPLICATION_ID = 0x63617266
SCHEMA_VERSION = 5
"""Raised by one with each change of `sql/schema.sql` or of what payloads are; a file of another one is refused."""
BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that is writing: `scrapy queue` beside a crawl."""
SWEEP = 1000
"""Most leases reclaimed, delays ended and pauses ended in one exchange; the rest has its turn in the next."""
KEEP = 3600.0
"""Seconds for which a verdict, and a silent worker that holds nothing, are remembered."""

STATUS = load_statements("status")
DEAD_LETTERS = load_statements("dead")
FORGET = load_statements("forget")


class SqliteFrontier:
    """A frontier in the file `path`, or in memory when it is None.

    `begin` locks the file (`<path>.lock`) until `close`, so that one process at a time crawls with it;
    reading and the work on dead letters need no lock. `lease_seconds` is how long a lease holds without
    renewal, `max_attempts` how often an element is leased before it is dead-lettered. `clock` gives seconds
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
        self._ahead = 0.0
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None

    async def time(self) -> float:
        """The machine's clock."""
        return self._clock()

    async def begin(self, crawl_id: str, identity: str = "") -> CrawlState:
        """Lock the file, and join the crawl in it or begin one; see the contract.

        Leases that are found are of a process that is gone: they end at once, as if they had expired. Raises
        `ConfigurationError` when another crawl holds the file, `ForeignFile` when it is not a frontier of
        ours.
        """
        self._take_lock()
        if self._connection is None:
            self._connection = self._open(create=True)
        with self._transaction() as db:
            created = db.execute(EXCHANGE.read_crawl).fetchone() is None
            if created:
                db.execute(CRAWL.begin, (crawl_id, identity))
            (found,) = db.execute(CRAWL.identity).fetchone()
            if found != identity:
                raise ForeignCrawl(str(self._path or "memory"), found, identity)
            now, ahead = self._keep_time(db)
            db.execute(CRAWL.drop_workers, (now - KEEP,))
            db.execute(CRAWL.prune_verdicts, (self._clock(),))
            db.execute(CRAWL.all_leases)
            change = self._change(db, now)
            change.reclaim(limit=-1)
            if change.ledger.unfinished == 0:
                change.ledger.finisher = None
            change.store()
            self._crawl_id = change.ledger.crawl_id
        return CrawlState(self._crawl_id, resumed=not created, now=now, ahead=ahead)

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        """One transaction; see the contract. A failed one left no trace, so a repetition is simply the first."""
        report = pack_report(outbox.report)
        with self._transaction() as db:
            change = self._joined(db)
            change.reclaim(SWEEP)
            change.wake_on_time(SWEEP)
            refused = change.add(outbox.entries)
            change.note_downloaded(outbox.downloaded)
            change.note_unsent(outbox.unsent)
            change.finish(outbox.acks)
            dead_lettered = change.retry(outbox.retries)
            for message in outbox.dead_lettered:
                change.dead_letter(message.held, message.reason)
            change.release(outbox.releases)
            change.renew(outbox.renewals)
            change.pause(outbox.pauses)
            paces = change.pace(outbox.paces)
            if report:
                db.execute(EXCHANGE.report, (report, self._worker))
            leases = change.lease(want)
            change.store()
            return Inbox(
                leases=leases,
                refused=refused,
                stale=change.stale,
                dead_lettered=dead_lettered,
                unfinished=change.ledger.unfinished,
                next_due=change.next_due(),
                now=change.now,
                ahead=self._ahead,
                paces=paces,
            )

    async def status(self) -> Status:
        """Counts, slots, callbacks and workers in one reading transaction."""
        if self._is_absent():
            return _empty_status()
        with self._transaction(write=False) as db:
            return self._read_status(db, self._time(db)[0])

    async def workers(self) -> list[WorkerStatus]:
        """Of all workers of the crawl."""
        if self._is_absent():
            return []
        with self._transaction(write=False) as db:
            return _read_workers(db, -math.inf)

    async def dead_letters(self, limit: int = 1000, skip: int = 0) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        if self._is_absent():
            return []
        with self._transaction(write=False) as db:
            return [DeadLetter(*row) for row in db.execute(DEAD_LETTERS.list, (limit, skip))]

    async def retry_dead(self) -> int:
        """Queue every dead letter again, with its attempts and failures back at zero; returns how many."""
        if self._is_absent():
            return 0
        with self._transaction() as db:
            if db.execute(EXCHANGE.read_crawl).fetchone() is None:
                return 0
            change = self._change(db, self._time(db)[0])
            change.marked.update(slot for (slot,) in db.execute(DEAD_LETTERS.slots))
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

    async def elect_finisher(self) -> bool:
        """Whether this worker may finish it; see the contract."""
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
            db.execute(CRAWL.publish, (change.ledger.crawl_id, verdict, self._clock() + KEEP))

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
        now, self._ahead = self._keep_time(db)
        change = self._change(db, now)
        db.execute(EXCHANGE.sign_of_life, (self._worker, change.now))
        return change

    def _time(self, db: sqlite3.Connection) -> tuple[float, float]:
        """The crawl's time, and by how much it is ahead of the machine's."""
        return counted_on(self._clock(), *(db.execute(CRAWL.clock).fetchone() or (0.0, 0.0)))

    def _keep_time(self, db: sqlite3.Connection) -> tuple[float, float]:
        """The same, kept with the crawl; whoever sets a time by it has to."""
        now, ahead = self._time(db)
        db.execute(CRAWL.keep_clock, (now, ahead))
        return now, ahead

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
            workers=_read_workers(db, now - KEEP),
            stale_messages=Ledger(*row).stale,
            identity=db.execute(CRAWL.identity).fetchone()[0],
            now=now,
        )


def _read_workers(db: sqlite3.Connection, since: float) -> list[WorkerStatus]:
    return [
        WorkerStatus(name, leased, last_seen, read_report(report or b""))
        for name, leased, last_seen, report in db.execute(STATUS.workers, (since,))
    ]


def check_header(path: Path) -> None:
    """Look at the first bytes of `path`. Raises `ForeignFile` unless it is a frontier, and `OtherRelease` unless it is
    one of this release.
    """
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise ForeignFile(f"{path} is not a SQLite file; move it away to crawl with this path")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ForeignFile(f"{path} is a SQLite file of another program; move it away to crawl with this path")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        raise OtherRelease(str(path), str(version), str(SCHEMA_VERSION), "move it away to begin anew")


def _schema() -> str:
    return files("scrapy_durable.frontier").joinpath("sql", "schema.sql").read_text("utf-8")


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
