"""All that views show of a crawl at one moment; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scrapy_durable.crawl_numbers import BEHIND, DOWN, KEPT, LEFT, LOG_BYTES, TOTAL
from scrapy_durable.frontier.contract import Counts, SlotUse, SlotWait, Status, WorkerStatus
from scrapy_durable.status.condition import RUNNING, SLOW, Condition, condition_of, living
from scrapy_durable.status.rates import Rates

_SILENT = 3.5
"""Seconds: each worker is heard of every two, if only the machine lets it."""
_SLOWER, _SLOW = 2.0, 0.5
"""Answers are slow when they take so many times as long as before, and so many seconds at least."""


@dataclass(frozen=True, slots=True)
class Host:
    """A site, as the frontier asks it."""

    name: str
    """Of its slot."""
    counts: Counts
    in_flight: int
    cap: int | None
    """Most in flight, 0: no limit; None when it is not known, as nothing of it is in flight or waits."""
    interval: float | None
    """Seconds between two requests, likewise."""
    wait: SlotWait | None
    """Why nothing of it is asked now, though something is due."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker, and how far behind its stores are."""

    name: str
    leased: int
    silent: float
    """Seconds since it was heard of."""
    has_left: bool
    """True when it has said so."""
    is_living: bool
    """True when it was heard of within the time of a lease, and has not left."""
    behind: Mapping[str, int]
    """Records that a database has not got yet, by its name."""
    unanswered: Collection[str]
    """The databases that do not answer it."""
    log_bytes: int
    """Bytes of items that a feed of it still needs."""

    @property
    def is_silent(self) -> bool:
        """True when it should have been heard of since, and was not."""
        return not self.has_left and self.silent >= _SILENT


@dataclass(frozen=True, slots=True)
class Store:
    """A database that has not got everything yet, or does not answer, as the workers say that are there."""

    name: str
    lacks: int
    """Records, of all workers together."""
    answers: bool

    @property
    def words(self) -> str:
        """What there is to say of it."""
        return f"lacks {self.lacks:,} records" + ("" if self.answers else ": it does not answer")


@dataclass(frozen=True, slots=True)
class Report:
    """A crawl at one moment."""

    status: Status
    condition: Condition
    rates: Rates | None
    """Of the last minute; None before a second look."""
    latency: float | None
    """Seconds that an answer takes now, or took in the last minute; None when nobody knows."""
    kept: int
    """Items passed on by all workers: one that two have passed on counts twice, but never more than are expected."""
    expected: int
    """Items that there are; 0 when nobody was told."""
    seconds_left: float | None
    """At the rates of now; None when nothing can be said."""
    is_least: bool
    """True when `seconds_left` counts only what is queued so far: more may be found."""
    hosts: list[Host]
    """Those that have something to do first, then by what they have done."""
    workers: list[WorkerView]
    stores: list[Store]
    """By name."""
    configured: Mapping[str, str]
    """What whoever looks has configured for the crawl, in words."""

    @property
    def log_bytes(self) -> int:
        """Bytes of items that a feed still needs, of all workers."""
        return sum(worker.log_bytes for worker in self.workers)


def report_of(
    status: Status,
    rates: Rates | None,
    lease_seconds: float,
    configured: Mapping[str, str],
    *,
    recent: Rates | None = None,
    before: Rates | None = None,
) -> Report:
    """What follows from one look, and the rates of it and those before: of a minute, of its last seconds, and of what
    came before these.
    """
    kept = sum(worker.report.get(KEPT, 0) for worker in status.workers)
    expected = max((worker.report.get(TOTAL, 0) for worker in status.workers), default=0)
    kept = min(kept, expected) if expected else kept
    alive = {worker.worker for worker in living(status, lease_seconds)}
    workers = [_worker(worker, status.now, worker.worker in alive) for worker in status.workers]
    stores = _stores([worker for worker in workers if worker.is_living] or workers)
    condition = _with_latency(condition_of(status, lease_seconds), recent, before)
    seconds, is_least = _time_left(status, rates, max(0, expected - kept) if expected else None)
    return Report(
        status=status,
        condition=_with_notes(condition, workers, stores),
        rates=rates,
        latency=_latency(recent) or _latency(rates),
        kept=kept,
        expected=expected,
        seconds_left=seconds,
        is_least=is_least,
        hosts=sorted(_hosts(status), key=_order),
        workers=workers,
        stores=stores,
        configured=configured,
    )


def nothing_seen() -> Report:
    """Where no look was answered yet."""
    return report_of(Status(None, Counts(0, 0, 0, 0, 0), 0, None, {}, {}, [], 0), None, 0.0, {})


def _latency(rates: Rates | None) -> float | None:
    return None if rates is None else rates.latency


def _with_latency(condition: Condition, recent: Rates | None, before: Rates | None) -> Condition:
    """A crawl that runs, while the site has become slow, is one that is slow."""
    now, usual = _latency(recent), _latency(before)
    if condition.word != RUNNING or now is None or usual is None or now < max(_SLOW, _SLOWER * usual):
        return condition
    said = f"an answer takes {now:.2g} s, and took {usual:.2g} s before"
    return Condition(SLOW, "; ".join(filter(None, (said, condition.reason))))


def _with_notes(
    condition: Condition, workers: Collection[WorkerView], stores: Collection[Store]
) -> Condition:
    """What somebody should know of at first sight, though the crawl goes on."""
    if condition.word not in (RUNNING, SLOW):
        return condition
    silent = sum(worker.is_living and worker.is_silent for worker in workers)
    notes = [
        condition.reason,
        f"{silent} of {sum(worker.is_living for worker in workers)} workers silent" if silent else "",
        *(f"{store.name} does not answer" for store in stores if not store.answers),
    ]
    return Condition(condition.word, "; ".join(filter(None, notes)))


def _time_left(status: Status, rates: Rates | None, missing: int | None) -> tuple[float | None, bool]:
    total = status.total
    unfinished = total.queued + total.delayed + total.leased
    if not unfinished or rates is None:
        return None, False
    if missing:
        return (missing / rates.items if rates.items else None), False
    return (unfinished / rates.done if rates.done else None), True


def _hosts(status: Status) -> list[Host]:
    found = []
    for name, counts in status.slots.items():
        wait = status.waits.get(name)
        use = status.in_flight.get(name)
        if use is None and wait is not None:
            use = SlotUse(wait.in_flight, wait.cap, wait.interval)
        found.append(
            Host(
                name=name,
                counts=counts,
                in_flight=use.in_flight if use else 0,
                cap=use.cap if use else None,
                interval=use.interval if use else None,
                wait=wait,
            )
        )
    return found


def _order(host: Host) -> tuple[int, int, str]:
    counts = host.counts
    return -(counts.queued + counts.delayed + counts.leased), -counts.done, host.name


def _worker(worker: WorkerStatus, now: float, is_living: bool) -> WorkerView:
    report = worker.report
    return WorkerView(
        name=worker.worker,
        leased=worker.leased,
        silent=max(0.0, now - worker.last_seen),
        has_left=bool(report.get(LEFT)),
        is_living=is_living,
        behind={
            name.removeprefix(BEHIND): number for name, number in report.items() if name.startswith(BEHIND)
        },
        unanswered=[
            name.removeprefix(DOWN) for name, number in report.items() if name.startswith(DOWN) and number
        ],
        log_bytes=report.get(LOG_BYTES, 0),
    )


def _stores(workers: Collection[WorkerView]) -> list[Store]:
    lacks: Counter[str] = Counter()
    unanswered: set[str] = set()
    for worker in workers:
        lacks.update(worker.behind)
        unanswered.update(worker.unanswered)
    names = sorted(unanswered.union(name for name, number in lacks.items() if number > 0))
    return [Store(name, lacks[name], name not in unanswered) for name in names]
