"""What `scrapy queue status --json` gives machines; pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scrapy_durable.frontier.contract import HeldLease
from scrapy_durable.status.life import key_text
from scrapy_durable.status.report import Report
from scrapy_durable.status.words import address


def status_document(report: Report) -> dict[str, Any]:
    """The status as it is in `frontier.views`, with `seen` among the counts and the leases without their payloads; and
    what `report` has beside it.
    """
    status = report.status
    found = asdict(status)
    found["total"]["seen"] = status.total.seen
    for kind, groups in (("slots", status.slots), ("callbacks", status.callbacks)):
        for name, counts in groups.items():
            found[kind][name]["seen"] = counts.seen
    found["leases"] = [lease_document(lease) for lease in status.leases]
    for worker, view in zip(found["workers"], report.workers, strict=True):
        worker |= {
            "silent": view.silent,
            "has_left": view.has_left,
            "behind": dict(view.behind),
            "log_bytes": view.log_bytes,
        }
    return {
        "state": report.condition.word,
        "reason": report.condition.reason,
        "kept": report.kept,
        "expected": report.expected or None,
        "seconds_left": report.seconds_left,
        "seconds_left_is_least": report.is_least,
        "rates": None if report.rates is None else asdict(report.rates),
        "latency": report.latency,
        "stores": [asdict(store) for store in report.stores],
        "configured": dict(report.configured),
        **found,
    }


def lease_document(lease: HeldLease) -> dict[str, Any]:
    """A lease without its payload."""
    return {
        "key": key_text(lease.key),
        "url": address(lease.payload),
        "callback": lease.callback,
        "slot": lease.slot,
        "worker": lease.worker,
        "attempt": lease.attempt,
        "failures": lease.failures,
        "since": lease.since,
        "deadline": lease.deadline,
        "downloaded": lease.downloaded,
    }
