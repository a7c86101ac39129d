"""A `Retry-After` holds up the whole site, for every worker, until it is over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from scrapy_durable.retry.backoff import backoff, retry_after
from tests.exchanges import LOGGED, exchanges, sends
from tests.hostile.conftest import SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import SPEC_PATH, StandIn

NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
YEAR = 365 * 24 * 3600
CAP = 4
"""Requests in flight, of all workers."""


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("5", 5),
        (" 120 ", 120),
        (str(YEAR), 3600),
        ("9" * 400, 3600),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0),
        (format_datetime(NOW + timedelta(days=365), usegmt=True), 3600),
        ("Fri, 20 Nov 2026 12:00:30 +0200", 30),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        ("1e3", None),
        ("Fri, 20 Nov 99999 10:00:00 GMT", None),
        ("Fri, 20 Nov 99999999999999999999999 10:00:00 GMT", None),
        ("Fri, 20 Nov 2026 10:00:00 +99999999999999", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 3600),
        ("Sat, 01 Jan 0001 00:00:00 +2359", 0),
        ("Fri, " * 2000, None),
        ("\xff\xfe", None),
    ],
)
def test_seconds_and_dates_are_obeyed_within_a_bound_and_garbage_is_not(
    header: str, seconds: float | None
) -> None:
    assert retry_after(header, NOW, 3600) == seconds


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,2} Nov \d{1,30} \d{1,3}:\d\d:\d\d [-+]?\d{1,30}"))
def test_no_header_makes_it_fail_or_wait_beyond_the_bound(header: str) -> None:
    seconds = retry_after(header, NOW, 3600)
    assert seconds is None or 0 <= seconds <= 3600


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_wait_doubles_up_to_its_bound(attempt: int, chance: float) -> None:
    wait = backoff(attempt, chance, 1.0, 300.0)
    assert 0 <= wait <= min(300.0, 2.0 ** min(attempt - 1, 20))
    assert backoff(attempt, 0.5, 1.0, 300.0) <= backoff(attempt + 1, 0.5, 1.0, 300.0)


@dataclass
class Quiet:
    """The time in which no worker is given anything."""

    asked_for: set[float]
    """Seconds that the frontier was told to wait."""
    known: float
    """When it knew that, at the latest."""
    over: float
    """When a worker first asked that was given something again."""
    at_least: float
    """Seconds from when the frontier was told to when that worker had its answer."""
    at_most: float
    """The longest that a worker waited until it asked and was given something, by its own clock; what it waited for the
    frontier's answers is left out.
    """


def quiet_of(logs: list[str]) -> Quiet | None:
    """None when the frontier was not told to wait."""
    workers = [exchanges(log) for log in logs]
    told = [one for worker in workers for one in worker if one.pauses]
    if not told:
        return None
    known = min(one.ended for one in told if one.answered)
    given, waited = [], []
    for worker in workers:
        since = [one for one in worker if one.ended >= known]
        place = next((at for at, one in enumerate(since) if one.leases and one.began > known), None)
        if place is not None:
            given.append(since[place])
            waited.append(
                sum(after.own_began - before.own_ended for before, after in pairwise(since[: place + 1]))
            )
    return Quiet(
        {seconds for one in told for seconds in one.pauses},
        known,
        min(one.began for one in given),
        min(one.ended for one in given) - min(one.began for one in told),
        max(waited),
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_nobody_asks_before_it_is_over(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, workers: int
) -> None:
    site.faults([{"match": SPEC_PATH, "fault": "status", "retry_after": "5", "times": 1, "after": 20}])
    settings: dict[str, object] = {
        "CARS_PAGE_SIZE": 20,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CAP,
        **LOGGED,
    }
    runs = [start(settings=settings, redis_url=server.url) for _ in range(workers)]
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    journal = site.journal()
    quiet = quiet_of([run.log for run in runs])
    assert quiet is not None
    assert quiet.asked_for == {5}
    assert quiet.at_least >= 4.8
    assert quiet.at_most < 6.0
    [told] = [run.log for run in runs if any(one.pauses for one in exchanges(run.log))]
    requests = [one for one in sends(told) if not one.url.endswith("/robots.txt")]
    assert requests
    meanwhile = [one for one in requests if quiet.known < one.at < quiet.over]
    assert len(meanwhile) <= CAP, "sent by whoever was told so: no more than it had in flight"
    assert sum(bool(entry["fault"]) for entry in journal) == 1
    assert sorted(runs[0].cars()) == sorted(site.ids())


@pytest.mark.parametrize("header", ["date", "a year", "-5", "soon"])
def test_dates_years_and_garbage(site: StandIn, start: Start, header: str) -> None:
    """The date, a minute from now, and the year are cut at `DURABLE_MAX_RETRY_AFTER`."""
    written = {
        "date": format_datetime(datetime.now(UTC) + timedelta(minutes=1), usegmt=True),
        "a year": str(YEAR),
    }
    site.faults(
        [
            {
                "match": SPEC_PATH,
                "fault": "status",
                "retry_after": written.get(header, header),
                "times": 1,
                "after": 9,
            }
        ]
    )
    settings = {"DURABLE_MAX_RETRY_AFTER": 2, "CARS_PAGE_SIZE": 20, "DURABLE_RETRY_BASE_DELAY": 0.5}
    run = start(settings={**settings, **LOGGED})
    assert run.wait(SECONDS) == 0, run.log
    quiet = quiet_of([run.log])
    if header in written:
        assert quiet is not None
        assert quiet.asked_for == {2}
        assert quiet.at_least >= 1.8
        assert quiet.at_most < 3.0
    else:
        assert quiet is None
        [delay] = re.findall(r"Retrying .* in ([\d.]+) s \(failed", run.log)
        assert float(delay) < 1.0
