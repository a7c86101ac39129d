"""The state of a crawl in one word, and why; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scrapy_durable.crawl_numbers import LEFT, LOG_FULL
from scrapy_durable.frontier.contract import SlotWait, Status, WorkerStatus
from scrapy_durable.status.words import duration

BY_HAND = "paused by hand"
"""The reason of a pause that `scrapy queue pause` has set."""

NOTHING = "nothing here"
RUNNING, SLOW, WAITING, PAUSED = "running", "slow", "waiting", "paused"
STALLED, STOPPED = "stalled", "stopped"
FINISHING, COMPLETE, INCOMPLETE = "finishing", "complete", "incomplete"


@dataclass(frozen=True, slots=True)
class Condition:
    """How a crawl is."""

    word: str
    """One of those above."""
    reason: str
    """One sentence without its full stop; empty where there is nothing to add."""

    @property
    def is_well(self) -> bool:
        """False where somebody may have to do something."""
        return self.word not in (STALLED, INCOMPLETE)


def living(status: Status, lease_seconds: float) -> list[WorkerStatus]:
    """The workers that were heard of within the time of a lease, and have not said that they leave."""
    return [
        worker
        for worker in status.workers
        if not worker.report.get(LEFT) and status.now - worker.last_seen < lease_seconds
    ]


def condition_of(status: Status, lease_seconds: float) -> Condition:
    """The state of the crawl. `lease_seconds`: those of its workers."""
    if status.crawl_id is None:
        return Condition(NOTHING, "no crawl has begun here, or the last one has ended")
    total, workers = status.total, living(status, lease_seconds)
    unfinished = total.queued + total.delayed + total.leased
    if not unfinished:
        return _at_the_end(status, workers)
    if not workers:
        return _without_workers(status, unfinished)
    full = sum(bool(worker.report.get(LOG_FULL)) for worker in workers)
    if full == len(workers):
        return Condition(SLOW, "the item log is full, and its feeds are behind: nothing more is asked for")
    found = _with_workers(status)
    if not full:
        return found
    note = f"the item log of {full} of {len(workers)} workers is full, and its feeds are behind"
    return replace(found, reason="; ".join(filter(None, (found.reason, note))))


def _with_workers(status: Status) -> Condition:
    """Something is left, and somebody is there who asks for it."""
    total = status.total
    held = {slot: wait for slot, wait in status.waits.items() if wait.until is not None}
    busy = [slot for slot, counts in status.slots.items() if counts.queued and slot not in held]
    if status.in_flight or (total.leased and not held):
        return _at_work(status, held, busy)
    if held and not busy:
        return _held_up(status, held)
    if not total.queued:
        return Condition(WAITING, f"all {total.delayed} requests that are left wait for their time")
    return Condition(RUNNING, "")


def why(wait: SlotWait, now: float) -> str:
    """Why nothing of a slot is leased, in a few words."""
    if wait.until is None:
        return f"all {wait.cap} places are taken"
    left = duration(wait.until - now)
    if wait.why == "interval":
        return f"one request in {wait.interval:.3g} s"
    return f"{wait.reason or 'paused'}, {left} left"


def _at_the_end(status: Status, workers: Sequence[WorkerStatus]) -> Condition:
    waiting = [log for log in status.logs if not log.closed]
    if workers:
        return Condition(FINISHING, f"items of {len(waiting)} workers are being stored" if waiting else "")
    if status.total.dead:
        return Condition(INCOMPLETE, f"{status.total.dead} requests are dead letters, all others are done")
    if waiting:
        return Condition(INCOMPLETE, f"items of {len(waiting)} workers wait for these to come back")
    if not status.total.done:
        return Condition(STOPPED, "nothing was asked for yet")
    return Condition(COMPLETE, "all requests are done; the next run ends the crawl")


def _without_workers(status: Status, unfinished: int) -> Condition:
    if all(worker.report.get(LEFT) for worker in status.workers):
        return Condition(STOPPED, f"no worker is at it; {unfinished} requests wait for the next run")
    silent = status.now - max(worker.last_seen for worker in status.workers if not worker.report.get(LEFT))
    return Condition(STALLED, f"no worker was heard of for {duration(silent)}, {unfinished} requests wait")


def _at_work(status: Status, held: dict[str, SlotWait], busy: Sequence[str]) -> Condition:
    """Something is in flight."""
    if not held or busy:
        waiting = f"{len(held)} of {len(status.slots)} sites wait" if held else ""
        return Condition(RUNNING, waiting)
    slot, wait = _longest(held)
    more = f", and {len(held) - 1} more sites" if len(held) > 1 else ""
    return Condition(SLOW, f"{slot}: {why(wait, status.now)}{more}")


def _held_up(status: Status, held: dict[str, SlotWait]) -> Condition:
    """Nothing is in flight, and every site that has something due waits."""
    slot, wait = _longest(held)
    by_hand = all(one.reason == BY_HAND for one in held.values())
    word = PAUSED if by_hand else SLOW if wait.why == "interval" else WAITING
    more = f", and {len(held) - 1} more sites" if len(held) > 1 else ""
    return Condition(word, f"{slot}: {why(wait, status.now)}{more}")


def _longest(held: dict[str, SlotWait]) -> tuple[str, SlotWait]:
    return max(held.items(), key=lambda item: (item[1].until or 0.0, item[0]))
