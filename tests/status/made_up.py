"""Looks at crawls that nobody has crawled."""

from __future__ import annotations

from typing import Any

from scrapy_durable.frontier.contract import Counts, SlotUse, SlotWait, Status, WorkerStatus

NOW = 1_800_000_000.0
LEASE = 60.0


def counts(**numbers: int) -> Counts:
    return Counts(**{name: numbers.get(name, 0) for name in ("queued", "delayed", "leased", "dead", "done")})


def worker(name: str = "w1", leased: int = 0, silent: float = 0.0, **report: int) -> WorkerStatus:
    return WorkerStatus(name, leased, NOW - silent, {key.replace("__", ":"): n for key, n in report.items()})


def look(crawl_id: str | None = "crawl", now: float = NOW, **facts: Any) -> Status:
    """Of one slot, `a`, unless `slots` says otherwise."""
    total = facts.pop("total", counts())
    slots = facts.pop("slots", {"a": total})
    workers = facts.pop("workers", [worker()])
    oldest = facts.pop("oldest", None)
    return Status(crawl_id, total, 0, oldest, slots, {}, workers, 0, now=now, **facts)


def paused(reason: str, seconds: float = 30.0) -> SlotWait:
    return SlotWait("pause", NOW + seconds, reason, 8, 0.0, 0)


IN_FLIGHT = {"a": SlotUse(2, 8, 0.0)}
