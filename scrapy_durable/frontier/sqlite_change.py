"""What one transaction does to the elements of a frontier in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from scrapy_durable.frontier.contract import (
    LONGEST_REASON,
    Entry,
    Held,
    Pace,
    PaceChange,
    Pause,
    Retry,
    SlotLimit,
)
from scrapy_durable.frontier.reasons import kind_of
from scrapy_durable.frontier.sqlite_books import Cell, Ledger, Names, Tally
from scrapy_durable.frontier.sqlite_rotation import Rotation
from scrapy_durable.frontier.sqlite_statements import CRAWL, EXCHANGE

QUEUED, DELAYED, LEASED, DEAD = range(4)


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
        self.ledger = Ledger(*db.execute(EXCHANGE.read_crawl).fetchone())
        self._db = db
        self._worker = worker
        self._deadline = now + lease_seconds
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._tally = Tally(db)
        self._names = Names(db)
        self._rotation = Rotation(
            db,
            self.ledger,
            now=now,
            worker=worker,
            deadline=self._deadline,
            limits=limits,
            default_limit=default_limit,
        )
        self.marked = self._rotation.marked
        self.lease = self._rotation.lease

    def reclaim(self, limit: int) -> None:
        """End the leases that have expired (-1: every one): queue them again, or dead-letter them if their attempts
        are used up.
        """
        expired = self._db.execute(EXCHANGE.expired, (self.now, limit)).fetchall()
        for number, slot, callback, attempts in expired:
            if attempts >= self._max_attempts:
                self._give_up(number, (slot, callback), f"lease expired after {attempts} attempts")
            else:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, attempts, number))
            self.marked.add(slot)

    def wake_on_time(self, limit: int) -> None:
        """End the delays and the pauses that are over."""
        for number, slot, callback in self._db.execute(EXCHANGE.due, (self.now, limit)).fetchall():
            self._db.execute(EXCHANGE.promote, (number,))
            self._tally.delayed[slot, callback] -= 1
            self.marked.add(slot)
        for (slot,) in self._db.execute(EXCHANGE.released, (self.now, limit)).fetchall():
            self._db.execute(EXCHANGE.release, (slot,))
            self.marked.add(slot)

    def add(self, entries: list[Entry]) -> list[int]:
        """Add what is new, reschedule what waits; returns the keys of what is leased, done or dead."""
        refused = []
        for entry in entries:
            state, not_before = (DELAYED, self.now + entry.delay) if entry.delay > 0 else (QUEUED, 0.0)
            known = self._db.execute(EXCHANGE.find, (entry.key,)).fetchone()
            if known is not None and known[1] in (QUEUED, DELAYED):
                number, was, slot, callback, priority = known
                self._db.execute(
                    EXCHANGE.reschedule, (state, not_before, max(priority, entry.priority), number)
                )
                self._tally.delayed[slot, callback] += (state == DELAYED) - (was == DELAYED)
                self.marked.add(slot)
            elif known is not None or self._db.execute(EXCHANGE.is_done, (entry.key,)).fetchone() is not None:
                refused.append(entry.key)
            else:
                self._add_new(entry, state, not_before)
        return refused

    def _add_new(self, entry: Entry, state: int, not_before: float) -> None:
        number = self.ledger.next_id
        slot = self._names.slot(entry.slot)
        callback = self._names.callback(entry.callback)
        self._db.execute(
            EXCHANGE.add, (number, entry.key, state, slot, callback, entry.priority, self.now, not_before)
        )
        self._db.execute(EXCHANGE.add_body, (number, entry.payload))
        self.ledger.next_id += 1
        self.ledger.unfinished += 1
        self._tally.pushed[slot, callback] += 1
        self._tally.delayed[slot, callback] += state == DELAYED
        self.marked.add(slot)

    def note_downloaded(self, downloaded: list[Held]) -> None:
        """Free the places of these leases; the leases go on."""
        for held in downloaded:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.note_downloaded, (lease[0],))

    def note_unsent(self, unsent: list[Held]) -> None:
        """Free the places of these leases, and the time of one that was its slot's last lease."""
        for held in unsent:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.free_time, (lease[1], held.token, lease[0]))
                self._db.execute(EXCHANGE.note_downloaded, (lease[0],))

    def finish(self, acks: list[Held]) -> list[int]:
        """These elements are done; only their keys stay. Returns the tokens of those that were not stale."""
        accepted = []
        for held in acks:
            if (lease := self._find(held)) is not None:
                number, slot, callback, _ = lease
                self._db.execute(EXCHANGE.remove, (number,))
                self._db.execute(EXCHANGE.remove_body, (number,))
                self._db.execute(EXCHANGE.finish, (held.key,))
                self.ledger.unfinished -= 1
                self._tally.done[slot, callback] += 1
                accepted.append(held.token)
        return accepted

    def retry(self, retries: list[Retry]) -> list[int]:
        """Count a failure, and queue these again after their delay; returns the keys of those whose attempts are
        used up, and which are dead letters now.
        """
        dead_lettered = []
        for retry in retries:
            lease = self._find(retry.held)
            if lease is None:
                continue
            number, slot, callback, attempts = lease
            self._db.execute(EXCHANGE.fail, (number,))
            if attempts >= self._max_attempts:
                self._give_up(number, (slot, callback), retry.reason)
                dead_lettered.append(retry.held.key)
                continue
            if retry.delay > 0:
                self._db.execute(EXCHANGE.requeue, (DELAYED, self.now + retry.delay, attempts, number))
                self._tally.delayed[slot, callback] += 1
            else:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, attempts, number))
            self._tally.reasons["retry", kind_of(retry.reason)] += 1
        return dead_lettered

    def dead_letter(self, held: Held, reason: str) -> None:
        """This element becomes a dead letter."""
        if (lease := self._find(held)) is not None:
            number, slot, callback, _ = lease
            self._give_up(number, (slot, callback), reason)

    def _give_up(self, number: int, cell: Cell, reason: str) -> None:
        self._db.execute(EXCHANGE.dead_letter, (self.now, _storable(reason), number))
        self.ledger.unfinished -= 1
        self._tally.dead[cell] += 1
        self._tally.reasons["dead", kind_of(reason)] += 1

    def release(self, releases: list[Held]) -> None:
        """Queue these again at once; the attempt does not count."""
        for held in releases:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, lease[3] - 1, lease[0]))

    def renew(self, renewals: list[Held]) -> None:
        """Hold these leases for another full lease time."""
        for held in renewals:
            if (lease := self._find(held)) is not None:
                self._db.execute(EXCHANGE.renew, (self._deadline, lease[0]))

    def pause(self, pauses: Mapping[str, Pause]) -> None:
        """Lease nothing of these slots for so long, or longer where a longer pause is set."""
        for name, pause in pauses.items():
            slot, ends = self._names.slot(name), self.now + pause.seconds
            self._db.execute(EXCHANGE.pause, (ends, _storable(pause.reason[:LONGEST_REASON]), ends, slot))
            self.marked.add(slot)

    def pace(self, paces: Mapping[str, PaceChange]) -> dict[str, Pace]:
        """Take the changes that are based on the latest version; returns what holds now, for all of them."""
        known = {}
        for name, change in paces.items():
            slot = self._names.slot(name)
            self._db.execute(EXCHANGE.change_pace, (change.interval, slot, change.version))
            known[name] = Pace(*self._db.execute(EXCHANGE.pace, (slot,)).fetchone())
        return known

    def claim(self) -> bool:
        """Whether this worker has the claim to the end, now that it has asked."""
        ledger = self.ledger
        if ledger.unfinished > 0:
            return False
        if ledger.finisher == self._worker:
            return True
        if ledger.finisher is not None:
            last_seen = self._db.execute(CRAWL.last_seen, (ledger.finisher,)).fetchone()
            if last_seen is not None and last_seen[0] + self._lease_seconds > self.now:
                return False
        self._db.execute(CRAWL.withdraw, (ledger.crawl_id,))
        ledger.finisher = self._worker
        return True

    @property
    def is_finisher(self) -> bool:
        """Whether this worker has that claim, and nothing is left to do."""
        return self.ledger.unfinished == 0 and self.ledger.finisher == self._worker

    def store(self) -> None:
        """Write the counters, and put the slots that were marked where they belong."""
        self._rotation.place_marked()
        ledger = self.ledger
        ledger.stale += len(self.stale)
        if ledger.unfinished > 0:
            ledger.finisher = None
        self._tally.store()
        self._db.execute(
            EXCHANGE.write_crawl,
            (
                ledger.next_id,
                ledger.next_token,
                ledger.next_turn,
                ledger.unfinished,
                ledger.stale,
                ledger.finisher,
            ),
        )

    def _find(self, held: Held) -> tuple[int, int, int, int] | None:
        """Number, slot, callback and attempts of a lease that is still held, whose slot is marked; None if it
        is stale.
        """
        lease: tuple[int, int, int, int] | None = self._db.execute(
            EXCHANGE.find_held, (held.key, held.token)
        ).fetchone()
        if lease is None:
            self.stale.append(held)
        else:
            self.marked.add(lease[1])
        return lease


def _storable(text: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()
