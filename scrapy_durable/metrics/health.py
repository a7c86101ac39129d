"""Whether a crawl is healthy, and if not, why; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_durable.crawl_numbers import LOG_FULL
from scrapy_durable.metrics.values import silent_workers

if TYPE_CHECKING:
    from scrapy_durable.status.report import Report

MOST_BEHIND = 10_000
"""Records that a database may be behind: a minute's or so of a crawl at full speed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    why: str = ""
    """What is wrong, in a sentence without its full stop; empty: nothing."""


def checks(report: Report | None, why_not: str) -> Iterator[Check]:
    """All of them; `report` is None where the frontier does not answer, and `why_not` says why."""
    if report is None:
        yield Check("frontier", why_not or "it did not answer")
        return
    yield Check("frontier")
    bad = report.condition
    yield Check("crawl", "" if bad.is_well else f"{bad.word}: {bad.reason}")
    silent = len(silent_workers(report))
    yield Check("workers", f"{silent} workers are silent for longer than a lease holds" if silent else "")
    behind: dict[str, int] = {}
    for worker in report.workers:
        for store, number in worker.behind.items():
            behind[store] = behind.get(store, 0) + number
    late = [
        f"{store} has not got {number} records" for store, number in behind.items() if number > MOST_BEHIND
    ]
    yield Check("stores", "; ".join(late))
    full = sum(bool(worker.report.get(LOG_FULL)) for worker in report.status.workers)
    yield Check("item_log", f"the item log of {full} workers is full" if full else "")


def health_document(found: list[Check], state: str | None) -> dict[str, Any]:
    """What `/healthcheck?complete` answers; `state` of the crawl, None when it is not known."""
    return {
        "status": "failing" if any(check.why for check in found) else "ok",
        "state": state,
        "checks": {check.name: {"ok": not check.why, "why": check.why} for check in found},
    }
