"""The frontier in one SQLite file, or in memory: for a crawl by one process.

Every method is a coroutine by contract but runs from start to end without waiting: an exchange takes about a
millisecond, less than a switch to a thread and back would cost under load.

The file is in WAL mode with `synchronous = NORMAL`: a kill of the process loses nothing; a loss of power may
roll back the last exchanges, whole and in order. Work is then done again, never left out, since an element
leaves the frontier only after its records are durable in the stores, and repeated records change nothing.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from scrapy_durable.exceptions import ForeignCrawl, FrontierLost
from scrapy_durable.frontier.contract import (
    CrawlState,
    DeadLetter,
    Entry,
    HeldLease,
    Inbox,
    Key,
    Outbox,
    Pause,
    Status,
    WorkerStatus,
)
from scrapy_durable.frontier.parts import checked_part
from scrapy_durable.frontier.report import pack_report
from scrapy_durable.frontier.sqlite_change import Change
from scrapy_durable.frontier.sqlite_logs import SqliteLogs, read_logs
from scrapy_durable.frontier.sqlite_rotation import next_due
from scrapy_durable.frontier.sqlite_statements import CRAWL, EXCHANGE, load_statements
from scrapy_durable.frontier.sqlite_status import (
    empty_status,
    read_element,
    read_leases,
    read_listing,
    read_status,
    read_workers,
)
from scrapy_durable.frontier.views import Element, Listing

MOST_AT_ONCE = 1000
"""Most leases reclaimed, delays ended and pauses ended in one exchange; the next one does the rest."""
KEEP = 3600.0
"""Seconds for which a verdict, and a silent worker that holds nothing, are remembered."""

DEAD_LETTERS = load_statements("dead")
FORGET = load_statements("forget")


class SqliteFrontier(SqliteLogs):
    """A frontier in the file `path`, or in memory when it is None.

    `begin` locks the file (`<path>.lock`) until `close`, so that one process at a time crawls with it;
    reading and the work on dead letters need no lock. `lease_seconds` is how long a lease holds without
    renewal, `max_attempts` how often an element is leased before it is dead-lettered. `clock` gives seconds
    since the epoch.
    """

    async def begin(self, crawl_id: str, identity: str = "") -> CrawlState:
        """Lock the file, and join the crawl in it or begin one; see the contract.

        Leases that are found are of a process that is gone: they end at once, as if they had expired. Raises
        `ConfigurationError` when another crawl holds the file, `ForeignFile` when it is not a frontier of
        ours.
        """
        self._file.lock()
        self._file.open()
        with self._transaction() as db:
            created = db.execute(EXCHANGE.read_crawl).fetchone() is None
            if created:
                db.execute(CRAWL.begin, (crawl_id, identity))
            (found,) = db.execute(CRAWL.identity).fetchone()
            if found != identity:
                raise ForeignCrawl(self._file.place, found, identity)
            now, ahead = self._keep_time(db)
            db.execute(CRAWL.drop_limits)
            for slot, limit in {"": self._default_limit, **self._limits}.items():
                db.execute(CRAWL.limit, (slot, limit.cap, limit.interval))
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
            change.reclaim(MOST_AT_ONCE)
            change.wake_on_time(MOST_AT_ONCE)
            refused = change.add(outbox.entries)
            change.note_downloaded(outbox.downloaded)
            change.note_unsent(outbox.unsent)
            change.finish(outbox.acks)
            if outbox.logged or outbox.confirmed:
                self._note_logged(db, change, outbox)
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
                next_due=next_due(db, change.now),
                now=change.now,
                ahead=self._ahead,
                paces=paces,
            )

    async def status(self, leases: int = 0) -> Status:
        """Everything there is to see, in one reading transaction."""
        if self._file.is_absent():
            return empty_status()
        with self._transaction(write=False) as db:
            status = read_status(db, self._time(db)[0], KEEP)
            return (
                replace(status, leases=read_leases(db, leases), logs=read_logs(db)) if status.now else status
            )

    async def workers(self) -> list[WorkerStatus]:
        """Of all workers of the crawl."""
        if self._file.is_absent():
            return []
        with self._transaction(write=False) as db:
            return read_workers(db, -math.inf)

    async def leases(self, limit: int = 1000) -> list[HeldLease]:
        """What is leased, the oldest first."""
        if self._file.is_absent():
            return []
        with self._transaction(write=False) as db:
            return read_leases(db, limit)

    async def dead_letters(self, limit: int = 1000, skip: int = 0) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        if self._file.is_absent():
            return []
        with self._transaction(write=False) as db:
            return [DeadLetter(*row) for row in db.execute(DEAD_LETTERS.list, (limit, skip))]

    async def retry_dead(self, keys: Collection[Key] | None = None) -> int:
        """Queue every dead letter again, or those of these keys, with attempts and failures back at zero; returns how
        many.
        """
        if self._file.is_absent():
            return 0
        with self._transaction() as db:
            if db.execute(EXCHANGE.read_crawl).fetchone() is None:
                return 0
            change = self._change(db, self._time(db)[0])
            if keys is None:
                cells = db.execute(DEAD_LETTERS.count).fetchall()
                db.execute(DEAD_LETTERS.revive)
            else:
                found = [
                    row for key in keys for row in db.execute(DEAD_LETTERS.revive_one, (key,)).fetchall()
                ]
                cells = [(*cell, 1) for cell in found]
            for slot, callback, number in cells:
                db.execute(EXCHANGE.count, (slot, callback, 0, 0, 0, -number))
                change.marked.add(slot)
            revived = sum(int(number) for _, _, number in cells)
            change.ledger.unfinished += revived
            change.store()
            return revived

    async def drop_dead(self) -> int:
        """Remove every dead letter and forget that it was ever pushed; returns how many."""
        if self._file.is_absent():
            return 0
        with self._transaction() as db:
            for slot, callback, number in db.execute(DEAD_LETTERS.count).fetchall():
                db.execute(EXCHANGE.count, (slot, callback, -number, 0, 0, -number))
            db.execute(DEAD_LETTERS.drop_bodies)
            return db.execute(DEAD_LETTERS.drop).rowcount

    async def find(self, key: Key) -> Element | None:
        """The request of that key."""
        if self._file.is_absent():
            return None
        with self._transaction(write=False) as db:
            return read_element(db, key, self._time(db)[0])

    async def listing(self, state: str, limit: int, slot: str = "", callback: str = "") -> Listing:
        """The first requests in that state."""
        if self._file.is_absent():
            return Listing([], 0, 0, 0)
        with self._transaction(write=False) as db:
            return read_listing(db, self._time(db)[0], state, limit, slot, callback)

    async def push(self, entries: list[Entry]) -> list[Key]:
        """Add requests beside the worker."""
        with self._beside() as (_, change):
            return change.add(entries)

    async def pause(self, slot: str, pause: Pause) -> None:
        """Lease nothing of a slot."""
        with self._beside() as (_, change):
            change.pause({slot: pause})

    async def resume(self, slot: str, reason: str) -> bool:
        """End such a pause; an interval goes on."""
        with self._beside() as (db, change):
            resumed = db.execute(EXCHANGE.resume, (slot, reason, change.now)).fetchone()
            if resumed is not None:
                change.marked.add(resumed[0])
            return resumed is not None

    @contextmanager
    def _beside(self) -> Iterator[tuple[sqlite3.Connection, Change]]:
        """A change of whatever crawl is there, by somebody who is no worker."""
        if self._file.is_absent():
            raise FrontierLost("there is no crawl")
        with self._transaction() as db:
            if db.execute(EXCHANGE.read_crawl).fetchone() is None:
                raise FrontierLost("there is no crawl")
            change = self._change(db, self._keep_time(db)[0])
            yield db, change
            change.store()

    async def elect_finisher(self) -> Status | None:
        """What there is, when this worker may finish it; see the contract."""
        with self._transaction() as db:
            change = self._joined(db)
            claimed = change.claim()
            change.store()
        return await self.status() if claimed else None

    async def publish_verdict(self, verdict: bytes) -> bool:
        """Leave the verdict for the workers that wait; it is kept for an hour, and for an hour after
        `forget`.
        """
        with self._transaction() as db:
            change = self._joined(db)
            if not change.is_finisher:
                return False
            db.execute(CRAWL.publish, (change.ledger.crawl_id, verdict, self._clock() + KEEP))
            return True

    async def verdict(self) -> bytes | None:
        """What was published for the crawl that this worker has joined, or None."""
        with self._transaction(write=False) as db:
            row = db.execute(CRAWL.verdict, (self._crawl_id, self._clock())).fetchone()
            return None if row is None else bytes(row[0])

    async def leave_part(self, name: str, part: bytes) -> None:
        """Leave it for whichever process goes on with the crawl."""
        with self._transaction() as db:
            self._joined(db)
            db.execute(CRAWL.leave_part, (name, checked_part(part)))

    async def part(self, name: str) -> bytes | None:
        """What was left."""
        with self._transaction(write=False) as db:
            self._joined(db)
            row = db.execute(CRAWL.part, (name,)).fetchone()
        return None if row is None else bytes(row[0])

    async def forget(self, *, unless_unfinished: bool = False) -> bool:
        """Remove the crawl with all it has seen; the file stays, for the next one."""
        if self._file.is_absent():
            return True
        with self._transaction() as db:
            if unless_unfinished and self._joined(db).ledger.unfinished > 0:
                return False
            row = db.execute(EXCHANGE.read_crawl).fetchone()
            if row is not None:
                db.execute(CRAWL.keep_verdict, (self._clock() + KEEP, row[0]))
            for statement in vars(FORGET).values():
                db.execute(statement)
            return True
