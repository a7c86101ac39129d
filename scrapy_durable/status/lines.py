"""What `scrapy queue status` shows people, line by line; pure."""

from __future__ import annotations

from collections.abc import Iterator

from scrapy_durable.frontier.contract import Counts
from scrapy_durable.status.condition import why
from scrapy_durable.status.report import Host, Report, WorkerView
from scrapy_durable.status.words import address, duration, rate, size

_MOST_HOSTS = 20
_MOST_REASONS = 10
_MOST_LEASES = 5
"""Lines for people; machines are given all."""


def status_lines(report: Report) -> Iterator[str]:
    """How it is; a row in all, per slot and per callback; each site's pace and why it waits; what failed; workers with
    what they hold and how far behind their stores are; the oldest leases; what is configured.
    """
    status = report.status
    yield f"crawl {status.crawl_id or '(none)'}" + (f" of {status.identity}" if status.identity else "")
    yield headline(report)
    yield from rate_lines(report)
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
    asked = [host for host in report.hosts if host.cap is not None]
    for host in asked[:_MOST_HOSTS]:
        yield f"slot {host.name}: {pace(host, status.now)}"
    if len(asked) > _MOST_HOSTS:
        yield f"{len(asked) - _MOST_HOSTS} more slots are asked, or wait"
    yield from _reason_lines("queued again", status.retried)
    yield from _reason_lines("dead-lettered", status.dead_lettered)
    for worker in report.workers:
        yield worker_line(worker)
    for store in report.stores:
        yield f"store {store.name}: {store.words}"
    for lease in status.leases[:_MOST_LEASES]:
        held = max(0.0, status.now - lease.since)
        yield f"leased {held:.0f} s ago to {lease.worker}, attempt {lease.attempt}: {address(lease.payload)}"
    if status.crawl_id is not None:
        yield "configured here: " + "; ".join(f"{what}: {value}" for what, value in report.configured.items())


def headline(report: Report) -> str:
    """Is it all right, and when will it be done."""
    condition = report.condition
    said = condition.word + (f": {condition.reason}" if condition.reason else "")
    if report.expected:
        said += f"; {report.kept} of {report.expected} items"
    if report.seconds_left is not None:
        said += f"; {'at least ' if report.is_least else ''}{duration(report.seconds_left)} left"
    return said


def rate_lines(report: Report) -> Iterator[str]:
    """The rates and the latency, where they are known."""
    rates = report.rates
    if rates is None:
        return
    latency = "" if rates.latency is None else f", {rates.latency:.3g} s each on average"
    yield (
        f"a second, over the last {duration(rates.over)}: {rate(rates.answers)} answers{latency}, "
        f"{rate(rates.failed)} failures, {rate(rates.items)} items, {rate(rates.done)} requests done, "
        f"{size(rates.bytes)}"
    )


def pace(host: Host, now: float) -> str:
    """How much of a site is in flight, how fast it may be asked, and why it is not."""
    said = f"{host.in_flight} in flight"
    if host.cap:
        said += f" of {host.cap}"
    if host.interval:
        said += f", one request in {host.interval:.3g} s"
    if host.wait is None:
        return said
    if host.wait.why == "interval":
        return f"{said}; waits {duration((host.wait.until or now) - now)}"
    return f"{said}; waits: {why(host.wait, now)}"


def worker_line(worker: WorkerView) -> str:
    """What it holds, since when it is silent, what its stores have not got."""
    said = f"worker {worker.name}: holds {worker.leased}, last heard of {worker.silent:.0f} s ago"
    if worker.has_left:
        said += ", has left"
    for store, number in sorted(worker.behind.items()):
        said += f"; {number} records wait for {store}"
    if worker.log_bytes:
        said += f"; {size(worker.log_bytes)} of items wait for feeds"
    return said


def _row(name: str, counts: Counts) -> str:
    numbers = (counts.queued, counts.delayed, counts.leased, counts.dead, counts.done, counts.seen)
    return f"{name[:27]:<28}" + "".join(f"{number:>9}" for number in numbers)


def _reason_lines(what: str, reasons: dict[str, int]) -> Iterator[str]:
    """The most frequent first."""
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    for reason, number in ranked[:_MOST_REASONS]:
        yield f"{what} {number} times: {reason}"
    if len(ranked) > _MOST_REASONS:
        rest = sum(number for _, number in ranked[_MOST_REASONS:])
        yield f"{what} {rest} times: for {len(ranked) - _MOST_REASONS} other reasons"
