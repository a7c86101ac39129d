"""What there is to see of a frontier in SQLite, read in one transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from scrapy_durable.frontier.contract import (
    Counts,
    HeldLease,
    SlotLimit,
    SlotUse,
    SlotWait,
    Status,
    WorkerStatus,
)
from scrapy_durable.frontier.report import read_report
from scrapy_durable.frontier.sqlite_books import Ledger
from scrapy_durable.frontier.sqlite_statements import CRAWL, EXCHANGE, load_statements
from scrapy_durable.frontier.views import WINDOW, Element, Listing

STATUS = load_statements("status")
MOST_WAITS = 1000
"""Slots held back by a time that are listed, slots at their cap, and slots with something in flight."""
MOST_DUE = 1000
"""Delayed elements whose time has come that are looked at: as many as an exchange would queue."""


def read_status(db: sqlite3.Connection, now: float, keep: float) -> Status:
    """`now` by the crawl's clock; lists workers that were heard of in the last `keep` seconds, or hold something."""
    row = db.execute(EXCHANGE.read_crawl).fetchone()
    if row is None:
        return empty_status()
    cells: dict[tuple[str, str], Counter[str]] = {}
    for slot, callback, pushed, done, delayed, dead in db.execute(STATUS.tallies):
        queued = pushed - done - delayed - dead
        cells[slot, callback] = Counter(queued=queued, done=done, delayed=delayed, dead=dead)
    for slot, callback, number in db.execute(STATUS.leased):
        cells[slot, callback].update(leased=number, queued=-number)
    for slot, callback, number in db.execute(STATUS.due, (now, MOST_DUE)):
        cells[slot, callback].update(queued=number, delayed=-number)
    total: Counter[str] = Counter()
    slots: dict[str, Counter[str]] = {}
    callbacks: dict[str, Counter[str]] = {}
    for (slot, callback), cell in cells.items():
        for sums in (total, slots.setdefault(slot, Counter()), callbacks.setdefault(callback, Counter())):
            sums.update(cell)
    oldest = db.execute(STATUS.oldest).fetchone()
    limits = {name: SlotLimit(cap, interval) for name, cap, interval in db.execute(STATUS.limits)}
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
        retried=dict(db.execute(STATUS.reasons, ("retry",))),
        dead_lettered=dict(db.execute(STATUS.reasons, ("dead",))),
        waits=_read_waits(db, now, limits),
        now=now,
        in_flight={
            slot: SlotUse(
                number, limits.get(slot, limits[""]).cap, max(limits.get(slot, limits[""]).interval, pace)
            )
            for slot, pace, number in db.execute(STATUS.in_flight, (MOST_WAITS,))
        },
    )


def read_workers(db: sqlite3.Connection, since: float) -> list[WorkerStatus]:
    """Those that were heard of since then, or hold or have reported something."""
    return [
        WorkerStatus(name, leased, last_seen, read_report(report or b""))
        for name, leased, last_seen, report in db.execute(STATUS.workers, (since,))
    ]


def _read_waits(db: sqlite3.Connection, now: float, limits: Mapping[str, SlotLimit]) -> dict[str, SlotWait]:
    def wait(slot: str, why: str, until: float | None, reason: str, pace: float, in_flight: int) -> SlotWait:
        limit = limits.get(slot, limits[""])
        return SlotWait(why, until, reason, limit.cap, max(limit.interval, pace), in_flight)

    waits = {}
    for slot, paused_until, reason, spaced_until, pace, in_flight in db.execute(
        STATUS.held, (now, MOST_WAITS)
    ):
        if paused_until >= spaced_until:
            waits[slot] = wait(slot, "pause", paused_until, reason, pace, in_flight)
        else:
            waits[slot] = wait(slot, "interval", spaced_until, "", pace, in_flight)
    for slot, pace, in_flight in db.execute(STATUS.busy):
        cap = limits.get(slot, limits[""]).cap
        if 0 < cap <= in_flight and slot not in waits and len(waits) < 2 * MOST_WAITS:
            waits[slot] = wait(slot, "cap", None, "", pace, in_flight)
    return waits


def read_leases(db: sqlite3.Connection, limit: int) -> list[HeldLease]:
    """What is leased, the oldest first."""
    return [
        replace(lease, downloaded=bool(lease.downloaded))
        for lease in (HeldLease(*row) for row in db.execute(STATUS.leases, (limit,)))
    ]


def read_element(db: sqlite3.Connection, key: int, now: float) -> Element | None:
    """The request of that key; `now` by the crawl's clock."""
    row = db.execute(STATUS.element, (key,)).fetchone()
    if row is None:
        return Element(key, "done") if db.execute(EXCHANGE.is_done, (key,)).fetchone() else None
    (
        number,
        slot,
        callback,
        priority,
        born,
        attempts,
        failures,
        not_before,
        worker,
        since,
        ends,
        reason,
        payload,
    ) = row
    state = ("queued", "delayed", "leased", "dead")[number]
    if state == "delayed" and not_before <= now:
        state = "queued"
    is_leased, is_dead = state == "leased", state == "dead"
    return Element(
        key=key,
        state=state,
        slot=slot,
        callback=callback,
        priority=priority,
        pushed_at=born,
        attempts=attempts,
        failures=failures,
        due=not_before if state == "delayed" else None,
        worker=worker if is_leased else "",
        since=since if is_leased else 0.0,
        deadline=ends if is_leased else 0.0,
        died_at=ends if is_dead else 0.0,
        reason=reason if is_dead else "",
        payload=payload,
    )


def read_listing(
    db: sqlite3.Connection, now: float, state: str, limit: int, slot: str, callback: str
) -> Listing:
    """The first requests in that state; `now` by the crawl's clock."""
    if state == "queued" and slot:
        rows = db.execute(STATUS.list_queued_of, (slot, WINDOW + 1)).fetchall()
    elif state == "delayed":
        rows = db.execute(STATUS.list_delayed, (now, WINDOW + 1)).fetchall()
    else:
        rows = db.execute(getattr(STATUS, f"list_{state}"), (WINDOW + 1,)).fetchall()
    elements, matched = [], 0
    for (key,) in rows[:WINDOW]:
        element = read_element(db, key, now)
        if element and slot in ("", element.slot) and callback in ("", element.callback):
            matched += 1
            if matched <= limit:
                elements.append(element)
    return Listing(elements, matched, len(rows[:WINDOW]), len(rows) if len(rows) <= WINDOW else None)


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
