"""What `scrapy queue status` shows of a frontier, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import orjson

from scrapy_durable.frontier.contract import Counts, HeldLease, SlotWait, Status
from scrapy_durable.plain import plain_json

_MOST_WAITS = 20
_MOST_REASONS = 10
_MOST_LEASES = 5
"""Lines for people; machines are given all."""


def status_lines(status: Status, leases: list[HeldLease]) -> Iterator[str]:
    """For people: a row in all, per slot and per callback; why sites wait, what failed, workers, the oldest leases."""
    yield f"crawl {status.crawl_id or '(none)'}" + (f" of {status.identity}" if status.identity else "")
    yield ""
    yield f"{'':<28}{'queued':>9}{'delayed':>9}{'leased':>9}{'dead':>9}{'done':>9}{'seen':>9}"
    yield _row("all", status.total)
    for kind, groups in (("slot", status.slots), ("callback", status.callbacks)):
        for name, counts in sorted(groups.items()):
            yield _row(f"{kind} {name}", counts)
    yield ""
    oldest = "nothing waits" if status.oldest is None else f"the oldest has waited {status.oldest:.0f} s"
    yield (
        f"{status.past_due} past due (their time has come, and nobody has fetched them yet), {oldest}, "
        f"{status.stale_messages} stale messages refused (of workers whose leases had expired)"
    )
    yield from _wait_lines(status)
    yield from _reason_lines("queued again", status.retried)
    yield from _reason_lines("dead-lettered", status.dead_lettered)
    for worker in status.workers:
        silent = max(0.0, status.now - worker.last_seen)
        yield f"worker {worker.worker}: holds {worker.leased}, last heard of {silent:.0f} s ago"
    for lease in leases[:_MOST_LEASES]:
        held = max(0.0, status.now - lease.since)
        yield f"leased {held:.0f} s ago to {lease.worker}, attempt {lease.attempt}: {url_of(lease.payload)}"


def status_json(status: Status, leases: list[HeldLease]) -> list[str]:
    """The status as it is in `frontier.views`, with `seen` among the counts and the leases without their payloads."""
    found = asdict(status)
    found["total"]["seen"] = status.total.seen
    for kind, groups in (("slots", status.slots), ("callbacks", status.callbacks)):
        for name, counts in groups.items():
            found[kind][name]["seen"] = counts.seen
    found["leases"] = [
        {
            "url": url_of(lease.payload),
            "callback": lease.callback,
            "slot": lease.slot,
            "worker": lease.worker,
            "attempt": lease.attempt,
            "failures": lease.failures,
            "since": lease.since,
            "deadline": lease.deadline,
            "downloaded": lease.downloaded,
        }
        for lease in leases
    ]
    return plain_json(found, orjson.OPT_INDENT_2).decode().split("\n")


def url_of(payload: bytes) -> str:
    """Of a serialized request."""
    try:
        return str(orjson.loads(payload).get("url", ""))
    except (orjson.JSONDecodeError, AttributeError):
        return "(unreadable)"


def _row(name: str, counts: Counts) -> str:
    numbers = (counts.queued, counts.delayed, counts.leased, counts.dead, counts.done, counts.seen)
    return f"{name[:27]:<28}" + "".join(f"{number:>9}" for number in numbers)


def _wait_lines(status: Status) -> Iterator[str]:
    """Those that wait longest first, then those at their cap."""
    waits = sorted(status.waits.items(), key=lambda item: (-(item[1].until or 0.0), item[0]))
    for slot, wait in waits[:_MOST_WAITS]:
        yield f"slot {slot} waits {_why(wait, status.now)}"
    if len(waits) > _MOST_WAITS:
        yield f"{len(waits) - _MOST_WAITS} more slots wait"


def _why(wait: SlotWait, now: float) -> str:
    if wait.until is None:
        return f"for an answer: {wait.in_flight} requests are in flight, of {wait.cap} at most"
    left = f"{max(0.0, wait.until - now):.1f} s"
    if wait.why == "interval":
        return f"{left}: one request in {wait.interval:g} s"
    return f"{left}: paused" + (f", {wait.reason}" if wait.reason else "")


def _reason_lines(what: str, reasons: dict[str, int]) -> Iterator[str]:
    """The most frequent first."""
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    for reason, number in ranked[:_MOST_REASONS]:
        yield f"{what} {number} times: {reason}"
    if len(ranked) > _MOST_REASONS:
        rest = sum(number for _, number in ranked[_MOST_REASONS:])
        yield f"{what} {rest} times: for {len(ranked) - _MOST_REASONS} other reasons"
