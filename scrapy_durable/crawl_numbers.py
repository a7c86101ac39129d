"""How far a crawl is, and who is at it: what all its workers have said of themselves, put together; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scrapy_durable.frontier.contract import WorkerStatus

KEPT, TOTAL, REQUESTS, LEFT = "kept", "total", "requests", "left"
"""What a worker reports: different items that it has passed on and acknowledged, items that there are (0: it was
not told), requests that it has made, and 1 when it has left in good order.
"""
ANSWERS, LATENCY_MS, FAILED, BYTES, ITEMS = (
    "crawl:answers",
    "crawl:latency_ms",
    "crawl:failed",
    "crawl:bytes",
    "crawl:items",
)
"""Sums that only grow: answers of any status, milliseconds that these took all together, downloads that brought none
or a status from 400 on, bytes of their bodies as they came, items passed on. Who looks twice has the rates between.
"""
LOG_BYTES, LOG_FULL = "crawl:log_bytes", "crawl:log_full"
"""Bytes of items on the worker's disk that a feed still needs, and 1 while these are too many to go on."""
BEHIND = "crawl:behind:"
"""In front of a database's name: records that it has not got yet."""
DOWN = "crawl:down:"
"""In front of a database's name: 1 while it does not answer."""


@dataclass(frozen=True, slots=True)
class CrawlNumbers:
    """The crawl's numbers, of all workers that it has or had."""

    kept: int
    """Items passed on; one that two workers have passed on counts twice, but never more than there are."""
    total: int
    """Items that there are; 0 when no worker was told."""
    requests: int
    failed: int = 0
    """Downloads that brought no answer, or a status from 400 on."""


def crawl_numbers(workers: Collection[WorkerStatus], own: str, mine: Mapping[str, int]) -> CrawlNumbers:
    """Of the workers in the frontier; `mine` are the latest numbers of the one named `own`."""
    reports = [mine, *(worker.report for worker in workers if worker.worker != own)]
    total = mine.get(TOTAL, 0) or max(report.get(TOTAL, 0) for report in reports)
    kept = sum(report.get(KEPT, 0) for report in reports)
    return CrawlNumbers(
        min(kept, total) if total else kept,
        total,
        sum(one.get(REQUESTS, 0) for one in reports),
        sum(worker.report.get(FAILED, 0) for worker in workers),
    )


def others_live(workers: Collection[WorkerStatus], own: str, now: float, lease_seconds: float) -> bool:
    """True when another worker is at it: heard of within the time of a lease, and it has not said that it leaves."""
    return any(
        worker.worker != own and not worker.report.get(LEFT) and now - worker.last_seen < lease_seconds
        for worker in workers
    )


def waited_for(workers: Collection[WorkerStatus], own: str, now: float, lease_seconds: float) -> str | None:
    """The leases that somebody holds who is silent, in words; None when there are none.

    A worker that lives is heard of in each third of a lease's time, and its leases end no later than that time after
    it was last heard of.
    """
    waits = []
    for worker in workers:
        silent = now - worker.last_seen
        if worker.worker != own and worker.leased and silent > lease_seconds / 2:
            left = max(0.0, lease_seconds - silent)
            waits.append(
                f"{worker.leased} leases of a worker not heard of for {silent:.0f} s, back in {left:.0f} s"
            )
    return "; ".join(waits) or None
