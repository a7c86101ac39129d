"""Rates follow from several looks: of the last minute, of all workers, whoever comes and goes."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_durable.status.rates import WINDOW, Rates, Window
from tests.status.made_up import NOW, counts, look, worker


def window(*looks: tuple[float, int, list[Any]]) -> Rates | None:
    """After looks at these seconds, with so many requests done, and these workers."""
    seen = Window()
    for seconds, done, workers in looks:
        seen.add(look(now=NOW + seconds, total=counts(done=done), workers=workers))
    return seen.rates


def reporting(name: str = "w1", **numbers: int) -> Any:
    return worker(name, **{f"crawl__{key}": number for key, number in numbers.items()})


def test_one_look_has_no_rates_and_two_at_the_same_time_neither() -> None:
    assert window((0, 5, [])) is None
    assert window((0, 5, []), (0, 9, [])) is None


def test_two_looks_have_the_rates_and_the_mean_latency_of_the_time_between() -> None:
    before = reporting(answers=100, latency_ms=9_000_000, failed=3, items=10, bytes=1000)
    after = reporting(answers=120, latency_ms=9_005_000, failed=4, items=50, bytes=3000)
    assert window((0, 7, [before]), (10, 27, [after])) == Rates(
        over=10.0, answers=2.0, failed=0.1, items=4.0, done=2.0, bytes=200.0, latency=0.25
    )


def test_without_an_answer_there_is_no_latency() -> None:
    rates = window((0, 7, [reporting(answers=5)]), (1, 7, [reporting(answers=5)]))
    assert rates is not None
    assert (rates.answers, rates.latency) == (0.0, None)


def test_only_the_last_minute_counts() -> None:
    looks = [(second, 0, [reporting(answers=min(second, 100))]) for second in range(0, 200, 10)]
    rates = window(*looks)
    assert rates is not None
    assert (rates.over, rates.answers) == (WINDOW, 0.0), "it has stood still for longer"


def test_a_worker_that_begins_counts_from_its_beginning_and_one_that_is_gone_takes_nothing_away() -> None:
    one, two = reporting("one", answers=100), reporting("two", answers=30)
    rates = window((0, 0, [one]), (5, 0, [one, two]), (10, 0, [two]))
    assert rates is not None
    assert rates.answers == pytest.approx(3.0)


def test_without_a_crawl_nothing_is_kept() -> None:
    seen = Window()
    seen.add(look(total=counts(done=500)))
    seen.add(look(now=NOW + 1, total=counts(done=600)))
    for _ in range(3):
        seen.add(look(None, now=0.0))
    assert seen.rates is None
    assert not seen._looks
    seen.add(look(now=NOW + 2, total=counts(done=600)))
    assert seen.rates is None


def test_another_crawl_begins_at_nothing() -> None:
    seen = Window()
    seen.add(look(total=counts(done=500)))
    seen.add(look(now=NOW + 1, total=counts(done=600)))
    seen.add(look("next", now=NOW + 2, total=counts(done=3)))
    assert seen.rates is None
    seen.add(look("next", now=NOW + 3, total=counts(done=4)))
    assert seen.rates is not None
    assert seen.rates.done == 1.0


def test_the_last_seconds_are_told_from_what_came_before() -> None:
    seen = Window()
    for second in range(31):
        slow = max(0, second - 27)
        answers = 10 * min(second, 27) + slow
        milliseconds = 10 * min(second, 27) * 200 + slow * 2000
        seen.add(look(now=NOW + second, workers=[reporting(answers=answers, latency_ms=milliseconds)]))
    assert seen.recent is not None
    assert seen.before is not None
    assert (seen.recent.latency, seen.recent.over) == (2.0, 3.0)
    assert seen.before.latency == pytest.approx(0.2, abs=0.02)
    assert seen.before.over == 27.0


def test_a_few_looks_have_no_recent_rates() -> None:
    seen = Window()
    for second in range(3):
        seen.add(look(now=NOW + second, workers=[reporting(answers=second)]))
    assert (seen.recent, seen.before) == (None, None)
