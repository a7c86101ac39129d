"""The values of all metrics at one moment, from a report, a process's stats and the history of runs; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy_durable import crawl_numbers
from scrapy_durable.frontier.contract import Counts
from scrapy_durable.metrics import names
from scrapy_durable.plain import plain
from scrapy_durable.status import condition

if TYPE_CHECKING:
    from scrapy_durable.metrics.names import Metric
    from scrapy_durable.status.report import Report

Values = dict["Metric", dict[tuple[str, ...], float]]
"""What there is, by metric and the values of its labels."""

MOST = {"slot": 100, "callback": 50, "reason": 50, "worker": 100, "store": 20}
"""Values of a label that are told apart, for each kind of label."""
OTHER = "other"
_LONGEST = 100
"""Characters of a label's value."""
_STATES = (
    condition.NOTHING,
    condition.RUNNING,
    condition.SLOW,
    condition.WAITING,
    condition.PAUSED,
    condition.STALLED,
    condition.STOPPED,
    condition.FINISHING,
    condition.COMPLETE,
    condition.INCOMPLETE,
)
_COUNTS = ("queued", "delayed", "leased", "dead", "done")
_SUMS = {
    crawl_numbers.ANSWERS: (names.ANSWERS, 1.0),
    crawl_numbers.LATENCY_MS: (names.LATENCY, 0.001),
    crawl_numbers.FAILED: (names.FAILURES, 1.0),
    crawl_numbers.BYTES: (names.BYTES, 1.0),
    crawl_numbers.ITEMS: (names.ITEMS, 1.0),
}
_STATUS = re.compile(r"downloader/response_status_count/([1-5][0-9]{2})")
_LEVEL = re.compile(r"log_count/([A-Z]+)")
_STATS = {
    "downloader/request_count": names.PROCESS_REQUESTS,
    "item_scraped_count": names.PROCESS_ITEMS,
}


class Bounds:
    """Which values of a label are told apart: those that come first, as long as there is room; the rest is `other`.

    Who once has a value of his own keeps it for the crawl, so that no counter falls.
    """

    def __init__(self, most: Mapping[str, int] = MOST) -> None:
        self._most = most
        self._crawl: str | None = None
        self._known: dict[str, set[str]] = {}

    def begin(self, crawl: str | None) -> None:
        """Forget what there was when this is another crawl."""
        if crawl != self._crawl:
            self._crawl, self._known = crawl, {}

    def value(self, kind: str, text: str) -> str:
        """The value of a label of that kind for this text."""
        known = self._known.setdefault(kind, set())
        text = plain(text)[:_LONGEST]
        if text not in known:
            if len(known) >= self._most[kind]:
                return OTHER
            known.add(text)
        return text


def crawl_values(report: Report, bounds: Bounds) -> Values:
    """What a look at the frontier has told."""
    status, found = report.status, Values()
    bounds.begin(status.crawl_id)
    for state in _STATES:
        _add(found, names.CRAWL_STATE, float(report.condition.word == state), state)
    _add_counts(found, names.REQUESTS, status.total)
    for host in report.hosts:
        slot = bounds.value("slot", host.name)
        _add_counts(found, names.SLOT_REQUESTS, host.counts, slot)
        _add(found, names.SLOT_IN_FLIGHT, host.in_flight, slot)
        if slot != OTHER and host.cap is not None and host.interval is not None:
            _add(found, names.SLOT_CAP, host.cap, slot)
            _add(found, names.SLOT_INTERVAL, host.interval, slot)
    for callback, counts in _largest_first(status.callbacks):
        _add_counts(found, names.CALLBACK_REQUESTS, counts, bounds.value("callback", callback))
    for why in ("cap", "interval", "pause"):
        _add(found, names.SLOTS_WAITING, sum(wait.why == why for wait in status.waits.values()), why)
    _add(found, names.OLDEST, status.oldest or 0.0)
    _add(found, names.REQUESTS_DONE, status.total.done)
    _add(found, names.STALE, status.stale_messages)
    for metric, sums in ((names.RETRIES, status.retried), (names.DEAD_LETTERS, status.dead_lettered)):
        for reason, number in sorted(sums.items(), key=lambda item: (-item[1], item[0])):
            _add(found, metric, number, bounds.value("reason", reason))
    _add(found, names.KEPT, report.kept)
    if report.expected:
        _add(found, names.EXPECTED, report.expected)
    if report.seconds_left is not None:
        _add(found, names.TIME_LEFT, report.seconds_left)
    _add_workers(found, report, bounds)
    return found


def silent_workers(report: Report) -> list[str]:
    """Those that have not left, and were not heard of for as long as a lease holds."""
    return [worker.name for worker in report.workers if not (worker.has_left or worker.is_living)]


def process_values(stats: Mapping[str, Any]) -> Values:
    """Of the process that has these stats of Scrapy's."""
    found = Values()
    for name, metric in _STATS.items():
        _add(found, metric, stats.get(name, 0))
    for name, value in stats.items():
        if match := _STATUS.fullmatch(name):
            _add(found, names.PROCESS_RESPONSES, value, match[1])
        elif match := _LEVEL.fullmatch(name):
            level = match[1] if match[1] in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL") else OTHER
            _add(found, names.PROCESS_LOG, value, level)
    return found


def history_values(runs: Iterable[Mapping[str, Any]]) -> Values:
    """Of the runs that count."""
    ends = [_seconds(run.get("ended")) for run in runs if run.get("verdict") == "complete"]
    return {names.LAST_COMPLETE: {(): max(ends, default=0.0)}}


def _seconds(text: object) -> float:
    try:
        return datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _add_workers(found: Values, report: Report, bounds: Bounds) -> None:
    silent = set(silent_workers(report))
    left = sum(worker.has_left for worker in report.workers)
    for state, number in (
        ("living", len(report.workers) - left - len(silent)),
        ("silent", len(silent)),
        ("left", left),
    ):
        _add(found, names.WORKERS, number, state)
    for worker in report.workers:
        if not worker.has_left:
            name = bounds.value("worker", worker.name)
            _add(found, names.WORKER_LEASES, worker.leased, name)
            if name != OTHER:
                _add(found, names.WORKER_SILENT, worker.silent, name)
        for store, number in worker.behind.items():
            _add(found, names.STORE_BEHIND, number, bounds.value("store", store))
    for name, (metric, factor) in _SUMS.items():
        _add(found, metric, factor * sum(one.report.get(name, 0) for one in report.status.workers))
    _add(found, names.LOG_BYTES, sum(worker.log_bytes for worker in report.workers))
    full = sum(bool(one.report.get(crawl_numbers.LOG_FULL)) for one in report.status.workers)
    _add(found, names.LOGS_FULL, full)


def _add_counts(found: Values, metric: Metric, counts: Counts, *labels: str) -> None:
    for state in _COUNTS:
        _add(found, metric, getattr(counts, state), *labels, state)


def _add(found: Values, metric: Metric, value: float, *labels: str) -> None:
    """What stands there already is added up: that is what has become `other`."""
    family = found.setdefault(metric, {})
    family[labels] = family.get(labels, 0.0) + value


def _largest_first(groups: Mapping[str, Counts]) -> list[tuple[str, Counts]]:
    return sorted(groups.items(), key=lambda item: (-item[1].seen, item[0]))
