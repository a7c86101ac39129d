"""Which slots have their turn, and what of them is leased, in one transaction of a frontier in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from scrapy_durable.frontier.contract import Lease, SlotLimit
from scrapy_durable.frontier.sqlite_books import Ledger
from scrapy_durable.frontier.sqlite_statements import EXCHANGE


class Rotation:
    """Leases to `worker`, within the limits of the slots, until `deadline`."""

    def __init__(
        self,
        db: sqlite3.Connection,
        ledger: Ledger,
        *,
        now: float,
        worker: str,
        deadline: float,
        limits: Mapping[str, SlotLimit],
        default_limit: SlotLimit,
    ) -> None:
        self.marked: set[int] = set()
        """Slots that may have got something ready or a free place; `place_marked` puts them where they belong."""
        self._db = db
        self._ledger = ledger
        self._now = now
        self._worker = worker
        self._deadline = deadline
        self._limits = limits
        self._default_limit = default_limit

    def lease(self, want: int) -> list[Lease]:
        """Up to `want` leases, in equal shares from the slots whose turn it is; a slot that was served goes
        to the end.

        Each round gives out at least one lease or takes at least one slot out of the rotation, so it comes to
        an end.
        """
        self.place_marked()
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
                token = self._ledger.next_token
                self._ledger.next_token += 1
                leased = (attempts + 1, token, self._deadline, self._now, self._worker, element)
                self._db.execute(EXCHANGE.lease, leased)
                leases.append(Lease(key, token, attempts + 1, name, payload, failures))
        if leases and interval > 0:
            self._db.execute(EXCHANGE.space_out, (self._now + interval, leases[-1].token, slot))
            self.marked.add(slot)
        elif number < share or number == room:
            self._db.execute(EXCHANGE.turn, (None, slot))
        else:
            self._db.execute(EXCHANGE.turn, (self._ledger.next_turn, slot))
            self._ledger.next_turn += 1
        return leases

    def place_marked(self) -> None:
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
            elif ready and not_before > self._now:
                self._db.execute(EXCHANGE.hold, (not_before, slot))
            elif ready:
                self._db.execute(EXCHANGE.turn, (self._ledger.next_turn, slot))
                self._ledger.next_turn += 1
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
