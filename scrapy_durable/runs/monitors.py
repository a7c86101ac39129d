"""What is unusual about a run, compared with those before it: a finding for each; pure.

A minimum that is not reached is an error, a maximum that is exceeded a warning, as data contracts have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from scrapy_durable.runs.file import Run

ERROR, WARNING = "error", "warning"
ENOUGH_ITEMS = 20
"""Of fewer, a share says nothing."""
RARE = 0.05
"""A field that fewer have, as a share, may be missing for a day."""
MORE_REQUESTS, MORE_SECONDS, MORE_FAILED = 100, 600.0, 10
"""What is not exceeded by this much is noise, whatever multiple it is of the median."""
MEASURED = "measured"
"""The member of a run that holds what the monitors compare: numbers of the whole crawl, told by its finisher."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a monitor has found."""

    monitor: str
    severity: str
    """`error` or `warning`."""
    expected: str
    found: str
    sentence: str
    """All of it for people, without a full stop."""


class Monitor(Protocol):
    """A function of a project's own, named in `DURABLE_MONITORS`."""

    def __call__(self, run: Run, before: Sequence[Run]) -> Iterable[Finding]:
        """What is unusual about the run, as `runs.jsonl` is going to have it. `before` are the complete ones of the
        same spider and command, the last one last; there is none before the first. What it raises is warned about.
        """


def core_monitor(bounds: Mapping[str, float]) -> Monitor:
    """What holds for any project, within those of `DURABLE_MONITOR_BOUNDS`."""

    def monitor(run: Run, before: Sequence[Run]) -> Iterator[Finding]:
        if before:
            yield from _kept(run, before, bounds)
            yield from _fill(run, before, bounds)
            yield from _at_most(run, before, bounds, "requests", MORE_REQUESTS)
            yield from _at_most(run, before, bounds, "seconds", MORE_SECONDS)
            yield from _shares(run, before, bounds)

    return monitor


def comparable(run: Run, runs: Iterable[Run], most: int) -> list[Run]:
    """Those that a run is compared with: complete, of the same spider and command, the last `most` of them."""
    found = [
        one
        for one in runs
        if one.get("verdict") == "complete"
        and isinstance(one.get(MEASURED), dict)
        and (one["spider"], one.get("command")) == (run["spider"], run.get("command"))
        and one["run"] != run["run"]
    ]
    return found[-most:] if most else []


def _kept(run: Run, before: Sequence[Run], bounds: Mapping[str, float]) -> Iterator[Finding]:
    usual, kept = _usual(before, "kept"), measured(run, "kept")
    if usual is None or kept is None:
        return
    if "kept_min" in bounds and kept < usual * bounds["kept_min"]:
        yield _finding("kept", ERROR, f"at least {_shown(usual * bounds['kept_min'])}", kept, usual, "kept")
    if "kept_max" in bounds and kept > usual * bounds["kept_max"] and kept > ENOUGH_ITEMS:
        yield _finding("kept", WARNING, f"at most {_shown(usual * bounds['kept_max'])}", kept, usual, "kept")


def _fill(run: Run, before: Sequence[Run], bounds: Mapping[str, float]) -> Iterator[Finding]:
    """Of each field that is not rare; one that a run does not name, none of its items have."""
    enough = [one for one in before if _number(one.get("items")) >= ENOUGH_ITEMS]
    if "fill_min" not in bounds or _number(run.get("items")) < ENOUGH_ITEMS or not enough:
        return
    for name in sorted({name for one in enough for name in _mapping(one.get("fill"))}):
        usual = median(_number(_mapping(one.get("fill")).get(name)) for one in enough)
        share = _number(_mapping(run.get("fill")).get(name))
        least = usual * bounds["fill_min"]
        if usual >= RARE and share < least:
            sentence = f"{share:.1%} of the items have {name!r}, usually {usual:.1%}"
            yield Finding(f"fill:{name}", ERROR, f"at least {least:.1%}", f"{share:.1%}", sentence)


def _at_most(
    run: Run, before: Sequence[Run], bounds: Mapping[str, float], name: str, more: float
) -> Iterator[Finding]:
    usual, found, bound = _usual(before, name), measured(run, name), bounds.get(f"{name}_max")
    if usual is None or found is None or bound is None:
        return
    most = max(usual * bound, usual + more)
    if found > most:
        yield _finding(name, WARNING, f"at most {_shown(most)}", found, usual, name)


def _shares(run: Run, before: Sequence[Run], bounds: Mapping[str, float]) -> Iterator[Finding]:
    """Of requests that failed, or came to nothing."""
    for name, what in (("failed", "downloads failed"), ("dead", "requests are dead letters")):
        count, bound = measured(run, name), bounds.get(f"{name}_max")
        if not count or bound is None or (name == "failed" and count < MORE_FAILED):
            continue
        share = _share(run, name)
        most = median(_share(one, name) for one in before) + bound
        if share > most:
            sentence = (
                f"{_shown(count)} {what}, {share:.1%} of what was asked for; at most {most:.1%} is usual"
            )
            yield Finding(name, WARNING, f"at most {most:.1%}", f"{share:.1%}", sentence)


def _finding(monitor: str, severity: str, expected: str, found: float, usual: float, what: str) -> Finding:
    sentence = f"{_shown(found)} {what}, usually {_shown(usual)}: {expected} expected"
    return Finding(monitor, severity, expected, _shown(found), sentence)


def measured(run: Run, name: str) -> float | None:
    """A number of the whole crawl; None where the run has none."""
    value = _mapping(run.get(MEASURED)).get(name)
    return float(value) if isinstance(value, int | float) else None


def _usual(before: Sequence[Run], name: str) -> float | None:
    values = [value for one in before if (value := measured(one, name)) is not None]
    return median(values) if values else None


def _share(run: Run, name: str) -> float:
    return (measured(run, name) or 0.0) / max(measured(run, "requests") or 0.0, 1.0)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
