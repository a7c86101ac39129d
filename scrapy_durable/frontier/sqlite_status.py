"""What there is to see of a frontier in SQLite, read in one transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter

from scrapy_durable.frontier.contract import Counts, Status, WorkerStatus
from scrapy_durable.frontier.report import read_report
from scrapy_durable.frontier.sqlite_change import CRAWL, EXCHANGE, Ledger, load_statements

STATUS = load_statements("status")


def read_status(db: sqlite3.Connection, now: float, keep: float) -> Status:
    """`now` by the crawl's clock; lists workers that were heard of in the last `keep` seconds, or hold something."""
    row = db.execute(EXCHANGE.read_crawl).fetchone()
    if row is None:
        return empty_status()
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
        workers=read_workers(db, now - keep),
        stale_messages=Ledger(*row).stale,
        identity=db.execute(CRAWL.identity).fetchone()[0],
        now=now,
    )


def read_workers(db: sqlite3.Connection, since: float) -> list[WorkerStatus]:
    """Those that were heard of since then, or hold or have reported something."""
    return [
        WorkerStatus(name, leased, last_seen, read_report(report or b""))
        for name, leased, last_seen, report in db.execute(STATUS.workers, (since,))
    ]


def empty_status() -> Status:
    """Where there is no crawl."""
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


def _counts(cell: Counter[str]) -> Counts:
    return Counts(
        queued=cell["queued"],
        delayed=cell["delayed"],
        leased=cell["leased"],
        dead=cell["dead"],
        done=cell["done"],
    )
