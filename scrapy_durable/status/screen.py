"""A crawl on one screen of a terminal, and in one line for where there is none; pure."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from scrapy_durable.plain import plain
from scrapy_durable.status.condition import NOTHING, RUNNING, why
from scrapy_durable.status.lines import headline
from scrapy_durable.status.report import Host, Report, WorkerView
from scrapy_durable.status.words import address, duration, rate, size


class Style(Enum):
    """How a line looks; the value is what a terminal is told (SGR)."""

    USUAL = ""
    TITLE = "1"
    DIM = "2"
    WELL = "1;32"
    SLOW = "1;33"
    BAD = "1;31"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen, whatever is in it."""

    text: str
    style: Style = Style.USUAL


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of a crawl when the screen is drawn."""

    report: Report
    """Of the last look that was answered."""
    ended: Report | None = None
    """Of the last look at a crawl that is gone since; None when a crawl is there, or none was seen."""
    lost_since: float | None = None
    """Since when no look is answered: seconds since the epoch by this machine's clock; None when the last one was."""
    lost_why: str = ""


_HINT = "Ctrl-C ends this view; the crawl goes on"
_NARROWEST = 20


def frame(moment: Moment, what: str, width: int, height: int, *, colours: bool = True) -> list[str]:
    """The lines of the screen, each plain and no wider than it, with their style around; `what`: whose crawl it is."""
    width, height = max(_NARROWEST, width), max(2, height)
    shown = moment.ended or moment.report
    lines = [
        Line(_sides(f"scrapy queue watch: {what}", _clock(moment.report.status.now), width), Style.TITLE),
        *_state(moment, width),
    ]
    if shown.status.crawl_id is not None:
        lines += _body(shown, width, height - len(lines) - 1)
    lines = lines[: height - 1]
    lines += [Line("")] * (height - 1 - len(lines))
    return [_styled(line, width, colours) for line in (*lines, Line(_HINT, Style.DIM))]


def one_line(moment: Moment) -> str:
    """The same in one line, for a log or a terminal that cannot be drawn on."""
    state, *more = _state(moment, 10_000)
    report = moment.ended or moment.report
    if report.status.crawl_id is None:
        return plain(": ".join(line.text for line in (state, *more)))
    total = report.status.total
    said = (
        f"{state.text}; {total.queued} queued, {total.delayed} delayed, {total.leased} leased, "
        f"{total.dead} dead, {total.done} done"
    )
    if report.rates is not None and moment.ended is None:
        said += f"; {_rates(report)}"
    return plain(said)


def _state(moment: Moment, width: int) -> Iterator[Line]:
    """Is it all right, and when will it be done: one line, or two."""
    if moment.lost_since is not None:
        since = _clock(moment.lost_since)
        yield Line(f"disconnected since {since}, trying again", Style.BAD)
        yield Line(moment.lost_why, Style.BAD)
        if moment.report.status.crawl_id is not None:
            yield Line(f"as it was then: {headline(moment.report)}", Style.DIM)
        return
    if moment.ended is not None:
        total = moment.ended.status.total
        how = f"{total.dead} dead letters" if total.dead else "nothing was given up"
        yield Line(f"ended: the crawl is gone from the queue; last seen with {how}", Style.TITLE)
        return
    condition = moment.report.condition
    if condition.word == NOTHING:
        yield Line("no crawl yet: waiting for one to begin", Style.TITLE)
        return
    style = Style.WELL if condition.word == RUNNING else Style.SLOW if condition.is_well else Style.BAD
    said = headline(moment.report)
    if _width(plain(said)) <= width or not condition.reason:
        yield Line(said, style)
        return
    word, _, rest = said.partition(f": {condition.reason}")
    yield Line(word + rest, style)
    yield Line(condition.reason, style)


def _body(report: Report, width: int, height: int) -> list[Line]:
    """Counts, rates, sites, workers, what failed, the oldest leases: as much of each as there is room for."""
    total = report.status.total
    counters = {
        "queued": total.queued,
        "delayed": total.delayed,
        "leased": total.leased,
        "dead": total.dead,
        "done": total.done,
        "seen": total.seen,
    }
    lines = [
        Line("  ".join(f"{number:,} {name}" for name, number in counters.items())),
        Line(_rates(report) if report.rates else "rates follow with the next look"),
    ]
    sections = [
        _section("sites", [_host(host, report.status.now, width) for host in _asked(report)]),
        _section("workers", [_worker(worker, width) for worker in _first_at_work(report.workers)]),
        _section("stores", [f"{_padded(store.name, 12)} {store.words}" for store in report.stores]),
        _section("dead letters, by reason", _reasons(report.status.dead_lettered)),
        _section("tried again, by reason", _reasons(report.status.retried)),
        _section(
            "leased longest",
            [
                f"{duration(report.status.now - lease.since):>7}  attempt {lease.attempt}  {address(lease.payload)}"
                for lease in report.status.leases
            ],
        ),
    ]
    for section in _fitted([section for section in sections if section], height - len(lines)):
        lines += section
    return lines


def _section(title: str, rows: Sequence[str]) -> list[Line]:
    return [Line(title, Style.TITLE), *(Line(f"  {row}") for row in rows)] if rows else []


def _fitted(sections: list[list[Line]], height: int) -> Iterator[list[Line]]:
    """Sections cut until all fit, a row of the longest at a time; its title says how many are hidden."""
    sizes = [len(section) for section in sections]
    while sum(sizes) > height and max(sizes, default=0) > 2:
        sizes[sizes.index(max(sizes))] -= 1
    for section, rows in zip(sections, sizes, strict=True):
        hidden = len(section) - rows
        title = Line(f"{section[0].text} ({hidden} more)", Style.TITLE) if hidden else section[0]
        yield [title, *section[1:rows]]


def _rates(report: Report) -> str:
    rates = report.rates
    if rates is None:
        return ""
    latency = "" if report.latency is None else f" in {report.latency:.2g} s"
    return (
        f"{rate(rates.answers)} answers/s{latency}  {rate(rates.failed)} failed/s  {rate(rates.items)} items/s  "
        f"{rate(rates.done)} done/s  {size(rates.bytes)}/s"
    )


def _asked(report: Report) -> list[Host]:
    """Sites with something to do; all, when none has."""
    busy = [host for host in report.hosts if host.counts.queued + host.counts.delayed + host.counts.leased]
    return busy or report.hosts


def _host(host: Host, now: float, width: int) -> str:
    cap = f"/{host.cap}" if host.cap else ""
    interval = f"1 in {host.interval:.3g} s" if host.interval else ""
    waits = f"{host.counts.queued + host.counts.delayed:,} left"
    if host.wait is not None and host.wait.why != "interval":
        waits = why(host.wait, now)
    name = _cut(plain(host.name), max(10, width // 3))
    return f"{_padded(name, max(10, width // 3))} {host.in_flight}{cap} in flight  {interval:<12} {waits}".rstrip()


def _first_at_work(workers: Sequence[WorkerView]) -> list[WorkerView]:
    return sorted(workers, key=lambda worker: (not worker.is_living, worker.has_left, -worker.silent))


def _worker(worker: WorkerView, width: int) -> str:
    name = _padded(_cut(plain(worker.name), max(10, width // 3)), max(10, width // 3))
    heard = f"heard of {duration(worker.silent)} ago"
    if worker.has_left or worker.is_silent:
        heard = "has left" if worker.has_left else f"silent for {duration(worker.silent)}"
    behind = [f"feeds lack {size(worker.log_bytes)}"] if worker.log_bytes else []
    return "  ".join([f"{name} holds {worker.leased}", heard, *behind])


def _reasons(reasons: dict[str, int]) -> list[str]:
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number:>7,}  {reason}" for reason, number in ranked]


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%SZ", time.gmtime(seconds)) if seconds else ""


def _sides(left: str, right: str, width: int) -> str:
    left = _cut(plain(left), max(0, width - len(right) - 1))
    return f"{_padded(left, width - len(right))}{right}"


def _styled(line: Line, width: int, colours: bool) -> str:
    text = _cut(plain(line.text), width)
    return f"\x1b[{line.style.value}m{text}\x1b[0m" if colours and line.style.value and text else text


def _cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    if _width(text) <= width:
        return text
    kept, taken = [], 0
    for letter in text:
        taken += _width(letter)
        if taken > width - 1:
            break
        kept.append(letter)
    return "".join(kept) + "…" if width > 0 else ""


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - _width(text))


def _width(text: str) -> int:
    """Columns that a terminal gives it."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(letter) in ("Mn", "Me", "Cf")
        else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )
