"""Whether a spider has run to a complete end lately: a dead man's switch's question; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.runs.file import BEGUN, ENDED, KILLED, RUNNING

if TYPE_CHECKING:
    from scrapy_durable.runs.file import Run

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=3660)
_AHEAD = timedelta(hours=1)
"""How far the clocks of two machines may be apart."""


def duration(option: str, text: str) -> timedelta:
    """`90s`, `30m`, `26h`, `2d`, `1.5w`. Raises `ConfigurationError`, which names the option."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST.total_seconds():
        raise ConfigurationError(
            f"{option}: a time such as 90m, 26h or 2d is needed, ten years at most, not {text!r}"
        )
    return timedelta(seconds=seconds)


def overdue(runs: Sequence[Run], spider: str | None, now: datetime, max_age: timedelta) -> list[str]:
    """Why nobody can say that a complete run has ended within that time before `now`, a sentence each; none when one
    has. `runs` are those that count, the last one last.
    """
    ends = [end for run in runs if run.get("verdict") == "complete" and (end := _time(run.get("ended")))]
    if any(now - max_age <= end <= now + _AHEAD for end in ends):
        return []
    who = f"of {spider} " if spider else ""
    past = max((end for end in ends if end <= now + _AHEAD), default=None)
    ahead = [end for end in ends if end > now + _AHEAD]
    last = f"the last one ended {_ago(now - past)}" if past else "there is none at all"
    return [
        f"no complete run {who}has ended within {_length(max_age)}: {last}",
        *(f"a run ends in the future ({end:%Y-%m-%dT%H:%M:%SZ}): clocks are wrong" for end in ahead),
        *_since(runs, now),
    ]


def _since(runs: Sequence[Run], now: datetime) -> Iterator[str]:
    """What the runs since the last complete one came to: the last of them, and all that have not ended."""
    complete = [number for number, run in enumerate(runs) if run.get("verdict") == "complete"]
    since = runs[complete[-1] + 1 :] if complete else runs
    ended = [run for run in since if run["state"] == ENDED]
    if ended:
        many = f"the last {len(ended)} runs were" if len(ended) > 1 else "the last run was"
        yield f"{many} not complete; {ended[-1]['run']}: {_why(ended[-1])}"
    for run in [run for run in since if run["state"] != ENDED][-3:]:
        begun = _time(run["begun"])
        age = f"since {_length(now - begun)}" if begun else f"since {run['begun']}"
        where = f"process {run.get('pid')} on {run.get('host')}"
        match run["state"]:
            case str(state) if state == RUNNING:
                yield f"{run['run']} is running {age}: {where} is alive"
            case str(state) if state == KILLED:
                yield f"{run['run']} was killed: {where} is gone"
            case str(state) if state == BEGUN:
                yield f"{run['run']} has begun and not ended, {age}: {where}, which cannot be seen from here"


def _why(run: Run) -> str:
    reasons = run.get("reasons")
    first = f", {reasons[0]}" if isinstance(reasons, list) and reasons else ""
    return f"{run.get('verdict')}{first}"


def _time(text: Any) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (ValueError, TypeError):
        return None


def _ago(age: timedelta) -> str:
    return f"{_length(age)} ago"


def _length(age: timedelta) -> str:
    seconds = age.total_seconds()
    for unit, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} seconds"
