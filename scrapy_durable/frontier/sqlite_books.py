"""What a transaction counts, and the numbers that stand for names in a frontier in SQLite."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass

from scrapy_durable.exceptions import FrontierError
from scrapy_durable.frontier.reasons import MOST_KINDS, OTHER
from scrapy_durable.frontier.sqlite_statements import EXCHANGE

Cell = tuple[int, int]
"""Numbers of a slot and a callback."""


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


class Tally:
    """Elements by slot and callback, and reasons; written at the end of the transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.pushed: Counter[Cell] = Counter()
        self.done: Counter[Cell] = Counter()
        self.delayed: Counter[Cell] = Counter()
        """More or fewer; `dead` likewise."""
        self.dead: Counter[Cell] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        """"retry" or "dead", and the kind of reason."""

    def store(self) -> None:
        """Write the counts, and begin again at nothing."""
        for cell in self.pushed.keys() | self.done.keys() | self.delayed.keys() | self.dead.keys():
            numbers = (self.pushed[cell], self.done[cell], self.delayed[cell], self.dead[cell])
            self._db.execute(EXCHANGE.count, (*cell, *numbers))
        for (what, kind), number in self.reasons.items():
            self._db.execute(EXCHANGE.count_reason, (what, self._counted_as(what, kind), number))
        for counts in (self.pushed, self.done, self.delayed, self.dead, self.reasons):
            counts.clear()

    def _counted_as(self, what: str, kind: str) -> str:
        """The kind itself, unless it is one too many."""
        known = self._db.execute(EXCHANGE.is_counted, (what, kind)).fetchone() is not None
        if known or self._db.execute(EXCHANGE.kinds).fetchone()[0] < MOST_KINDS:
            return kind
        return OTHER


def _new_id(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise FrontierError("SQLite gave no number to a new row")
    return cursor.lastrowid
