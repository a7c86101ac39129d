"""The verdict in a few lines, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from carscraper.api.deviations import departures
from carscraper.monitoring.verdict import Verdict
from scrapy_durable.feeds import Whereabouts


def summary(verdict: Verdict, not_stored: Sequence[str] = (), feeds: Iterable[Whereabouts] = ()) -> list[str]:
    """Reasons first, then at most five or ten of whatever is named; all of it is in `run.json`.

    `not_stored` says in a sentence each which items are in no feed yet.
    """
    complete = verdict.complete and not not_stored
    state = "complete" if complete else "STOPPED" if verdict.goes_on else "NOT COMPLETE"
    lines = [
        f"{state}: kept {verdict.kept:,} of {verdict.expected:,} listings",
        f"without specs (the API has none): {verdict.without_specs:,}",
    ]
    if verdict.spec_missing:
        lines.append(f"without specs (could not be had): {_some(verdict.spec_missing)}")
    if odd := list(departures(verdict.deviations)):
        lines.append(f"departs from the known shape, but kept as it came: {_some(odd)}")
    lines += [f"why: {reason}" for reason in (*verdict.reasons, *not_stored)]
    for feed in feeds:
        if not feed.stored:
            lines.append(
                f"feed {feed.feed}: {f'what there is of it is in {feed.at}' if feed.at else 'not stored'}"
            )
    for item in verdict.set_aside[:5]:
        where = item.store or item.path
        lines.append(f"set aside: listing {item.id or '?'}: {where}: {item.problem}")
    for request in verdict.given_up[:5]:
        lines.append(f"given up: {request.url}: {request.reason}")
    if verdict.missing:
        lines.append(f"missing: {_some(verdict.missing)}")
    if len(verdict.set_aside) > 5 or len(verdict.given_up) > 5:
        lines.append("more in run.json")
    return lines


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:10])}{' …' if len(names) > 10 else ''}"
