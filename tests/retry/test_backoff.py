"""How long a request waits: within bounds, whatever the site says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_durable.retry.backoff import backoff, retry_after

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
LONGEST = 3600.0


@pytest.mark.parametrize(("attempt", "bound"), [(1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (10**6, 300)])
def test_the_bound_doubles_with_each_try_up_to_the_longest(attempt: int, bound: float) -> None:
    assert backoff(attempt, 0.0, 1.0, 300.0) == 0.0
    assert backoff(attempt, 0.5, 1.0, 300.0) == bound / 2


@given(
    st.integers(1, 10**9), st.floats(0, 1, exclude_max=True), st.floats(0.001, 3600), st.floats(0.001, 86400)
)
def test_a_wait_is_never_negative_nor_above_the_longest(
    attempt: int, chance: float, base: float, longest: float
) -> None:
    assert 0 <= backoff(attempt, chance, base, longest) <= longest


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("99999999999999999999999999", LONGEST),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW + timedelta(days=9), usegmt=True), LONGEST),
        (format_datetime(NOW - timedelta(days=9), usegmt=True), 0.0),
        ("Fri, 20 Nov 2026 14:01:00 +0200", 60.0),
        ("Fri, 20 Nov 2026 12:00:30", 30.0),  # no zone: UTC is meant
    ],
)
def test_seconds_and_dates_are_understood(header: str, seconds: float) -> None:
    assert retry_after(header, NOW, LONGEST) == seconds


@pytest.mark.parametrize(
    "header", ["", "soon", "-5", "1.5", "5 seconds", "٣", "²", "1e3", "Fri, 99 Nov 2026"]
)
def test_garbage_says_nothing(header: str) -> None:
    assert retry_after(header, NOW, LONGEST) is None


@given(
    st.one_of(
        st.text(max_size=60),
        st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ .*", fullmatch=True),
    )
)
def test_nothing_that_a_site_can_send_breaks_it(header: str) -> None:
    seconds = retry_after(header, NOW, LONGEST)
    assert seconds is None or 0 <= seconds <= LONGEST
