"""A `Retry-After` holds up the whole site, for every worker, until it is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.retry.backoff import backoff, retry_after
from tests.hostile.conftest import SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import SPEC_PATH, StandIn

NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
YEAR = 365 * 24 * 3600


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
    ],
)
def test_seconds_and_dates_are_heeded_within_a_bound_and_garbage_is_not(
    header: str, seconds: float | None
) -> None:
    assert retry_after(header, NOW, 3600) == seconds


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,2} \w{3} \d{1,6} \d{1,3}:\d\d:\d\d [-+]?\d{1,6}"))
def test_no_header_makes_it_fail_or_wait_beyond_the_bound(header: str) -> None:
    seconds = retry_after(header, NOW, 3600)
    assert seconds is None or 0 <= seconds <= 3600


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_wait_doubles_up_to_its_bound(attempt: int, chance: float) -> None:
    wait = backoff(attempt, chance, 1.0, 300.0)
    assert 0 <= wait <= min(300.0, 2.0 ** min(attempt - 1, 20))
    assert backoff(attempt, 0.5, 1.0, 300.0) <= backoff(attempt + 1, 0.5, 1.0, 300.0)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


def quiet_after(journal: list[dict[str, Any]]) -> float:
    """Seconds from the answer that asked to wait to the next request, those left out that were sent meanwhile."""
    asked = next(entry["ended"] for entry in journal if entry["fault"])
    return min((e["started"] - asked for e in journal if e["started"] > asked + 0.2), default=0.0)


@pytest.mark.parametrize("workers", [1, 3])
def test_nobody_asks_before_it_is_over(
    site: StandIn, start: Start, redis_url: str, tmp_path: Path, workers: int
) -> None:
    site.faults([{"match": SPEC_PATH, "fault": "status", "retry_after": "5", "times": 1, "after": 20}])
    settings: dict[str, object] = {
        "CARS_PAGE_SIZE": 20,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
        "SCHEDULER_QUEUE_KEY": f"retry-after-{workers}",
        "CARS_SPEC_TTL": 0,
    }
    runs = [start(settings=settings, redis_url=redis_url) for _ in range(workers)]
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    journal = site.journal()
    assert 4.8 <= quiet_after(journal) < 6.0
    assert sum(bool(entry["fault"]) for entry in journal) == 1
    assert sorted(runs[0].cars()) == sorted(site.ids())


@pytest.mark.parametrize("header", ["date", "a year", "-5", "soon"])
def test_dates_years_and_garbage(site: StandIn, start: Start, header: str) -> None:
    """The date, a minute from now, and the year are cut at `CARS_MAX_RETRY_AFTER`."""
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
    run = start(settings={"CARS_MAX_RETRY_AFTER": 2, "CARS_PAGE_SIZE": 20, "CARS_RETRY_BASE_DELAY": 0.5})
    assert run.wait(SECONDS) == 0, run.log
    quiet = quiet_after(site.journal())
    if header in written:
        assert 1.8 <= quiet < 3.0
    else:
        assert quiet < 1.0
