"""What one transaction does to the elements of a frontier in SQLite."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import SimpleNamespace

from scrapy_durable.exceptions import FrontierError
from scrapy_durable.frontier.contract import Entry, Held, Lease, Pace, PaceChange, Retry, SlotLimit

QUEUED, DELAYED, LEASED, DEAD = range(4)


def load_statements(operation: str) -> SimpleNamespace:
    """The named statements of `sql/<operation>.sql`, as attributes."""
    text = files("scrapy_durable.frontier").joinpath("sql", f"{operation}.sql").read_text("utf-8")
    statements = {}
    for section in text.split("-- :")[1:]:
        headline, _, sql = section.partition("\n")
        statements[headline.split()[0]] = sql.strip().removesuffix(";")
    return SimpleNamespace(**statements)


EXCHANGE = load_statements("exchange")
CRAWL = load_statements("crawl")


@dataclass(slots=True)
class Ledger:
    """The row of table `crawl`, while a transaction changes it."""

    crawl_id: str
    next_id: int
    next_token: int
    next_turn: int
    unfinished: int
    stale: int
    finisher: str | None


class Names:
    """The numbers of slots and callbacks, which stand for their names; new ones are given as they come."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._slots: dict[str, int] = {}
        self._callbacks: dict[str, int] = {}

    def slot(self, name: str) -> int:
        """Of a slot."""
        if name not in self._slots:
            row = self._db.execute(EXCHANGE.slot_id, (name,)).fetchone()
            self._slots[name] = row[0] if row else _new_id(self._db.execute(EXCHANGE.add_slot, (name,)))
        return self._slots[name]

    def callback(self, name: str) -> int:
        """Of a callback."""
        if name not in self._callbacks:
            row = self._db.execute(EXCHANGE.callback_id, (name,)).fetchone()
            self._callbacks[name] = (
                row[0] if row else _new_id(self._db.execute(EXCHANGE.add_callback, (name,)))
            )
        return self._callbacks[name]


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
        self.marked: set[int] = set()
        """Slots that may have got something ready or a free place; `_place_marked` puts them where they belong."""
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
        self._names = Names(db)

    def reclaim(self, limit: int) -> None:
        """End the leases that have expired (-1: every one): queue them again, or dead-letter them if their attempts
        are used up.
        """
        for number, slot, attempts in self._db.execute(EXCHANGE.expired, (self.now, limit)).fetchall():
            if attempts >= self._max_attempts:
                self._db.execute(
                    EXCHANGE.dead_letter, (self.now, f"lease expired after {attempts} attempts", number)
                )
                self.ledger.unfinished -= 1
            else:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, attempts, number))
            self.marked.add(slot)

    def wake_on_time(self, limit: int) -> None:
        """End the delays and the pauses that are over."""
        for number, slot in self._db.execute(EXCHANGE.due, (self.now, limit)).fetchall():
            self._db.execute(EXCHANGE.promote, (number,))
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
                number, _, slot, priority = known
                self._db.execute(
                    EXCHANGE.reschedule, (state, not_before, max(priority, entry.priority), number)
                )
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
        self._pushed[slot, callback] += 1
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
                self._done[slot, callback] += 1
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
            number, _, _, attempts = lease
            self._db.execute(EXCHANGE.fail, (number,))
            if attempts >= self._max_attempts:
                self._db.execute(EXCHANGE.dead_letter, (self.now, _storable(retry.reason), number))
                self.ledger.unfinished -= 1
                dead_lettered.append(retry.held.key)
            elif retry.delay > 0:
                self._db.execute(EXCHANGE.requeue, (DELAYED, self.now + retry.delay, attempts, number))
            else:
                self._db.execute(EXCHANGE.requeue, (QUEUED, 0, attempts, number))
        return dead_lettered

    def dead_letter(self, held: Held, reason: str) -> None:
        """This element becomes a dead letter."""
        if (lease := self._find(held)) is not None:
            self._db.execute(EXCHANGE.dead_letter, (self.now, _storable(reason), lease[0]))
            self.ledger.unfinished -= 1

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

    def pause(self, pauses: Mapping[str, float]) -> None:
        """Lease nothing of these slots for so many seconds from now, or longer where a longer pause is
        set.
        """
        for name, seconds in pauses.items():
            slot = self._names.slot(name)
            self._db.execute(EXCHANGE.pause, (self.now + seconds, slot))
            self.marked.add(slot)

    def pace(self, paces: Mapping[str, PaceChange]) -> dict[str, Pace]:
        """Take the changes that are based on the latest version; returns what holds now, for all of them."""
        known = {}
        for name, change in paces.items():
            slot = self._names.slot(name)
            self._db.execute(EXCHANGE.change_pace, (change.interval, slot, change.version))
            known[name] = Pace(*self._db.execute(EXCHANGE.pace, (slot,)).fetchone())
        return known

    def lease(self, want: int) -> list[Lease]:
        """Up to `want` leases, in equal shares from the slots whose turn it is; a slot that was served goes
        to the end.

        Each round gives out at least one lease or takes at least one slot out of the rotation, so it comes to
        an end.
        """
        self._place_marked()
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
        room = number = _free_places(self._db, slot, cap, share)
        leases: list[Lease] = []
        if room > 0:
            rows = self._db.execute(EXCHANGE.ready, (slot, min(room, share))).fetchall()
            number = len(rows)
            for element, key, attempts, failures, payload in rows:
                token = self.ledger.next_token
                self.ledger.next_token += 1
                self._db.execute(EXCHANGE.lease, (attempts + 1, token, self._deadline, self._worker, element))
                leases.append(Lease(key, token, attempts + 1, name, payload, failures))
        if leases and interval > 0:
            self._db.execute(EXCHANGE.space_out, (self.now + interval, leases[-1].token, slot))
            self.marked.add(slot)
        elif number < share or number == room:
            self._db.execute(EXCHANGE.turn, (None, slot))
        else:
            self._db.execute(EXCHANGE.turn, (self.ledger.next_turn, slot))
            self.ledger.next_turn += 1
        return leases

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

    def store(self) -> None:
        """Write the counters, and put the slots that were marked where they belong."""
        self._place_marked()
        ledger = self.ledger
        ledger.stale += len(self.stale)
        if ledger.unfinished > 0:
            ledger.finisher = None
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

    def _place_marked(self) -> None:
        """Put every marked slot that has something ready in its place: in the rotation, or held back by its
        pause or interval.
        """
        for slot in self.marked:
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
        self.marked.clear()


def _free_places(db: sqlite3.Connection, slot: int, cap: int, share: int) -> int:
    """How many more leases of the slot may go in flight; more than `share` when there is no limit."""
    if cap == 0:
        return share + 1
    in_flight: int = db.execute(EXCHANGE.in_flight, (slot,)).fetchone()[0]
    return max(0, cap - in_flight)


def next_due(db: sqlite3.Connection, now: float) -> float | None:
    """Seconds until the next delay, pause or interval ends that holds something back; None when there is
    none.
    """
    times = [
        db.execute(EXCHANGE.next_delayed).fetchone()[0],
        db.execute(EXCHANGE.next_held).fetchone()[0],
    ]
    return min((max(0.0, at - now) for at in times if at is not None), default=None)


def _storable(text: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()


def _new_id(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise FrontierError("SQLite gave no number to a new row")
    return cursor.lastrowid
