"""Several workers learn one pace: what is said to the frontier, and what is made of its word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.frontier.contract import Pace, PaceChange
from scrapy_durable.throttle.pacing import Pacing, build_pacing
from scrapy_durable.throttle.policy import Answer, Policy, next_delay

POLICY = Policy(target_concurrency=4.0, start_delay=0.5, min_delay=0.0, max_delay=60.0)
GOOD = Answer(0.2, 200)
TOO_MUCH = Answer(0.01, 429)


class Frontier:
    """The frontier's part: a pace that changes when its version is named."""

    def __init__(self) -> None:
        self.paces: dict[str, Pace] = {}

    def take(self, changes: dict[str, PaceChange]) -> dict[str, Pace]:
        for slot, change in changes.items():
            if self.paces.get(slot, Pace(0, 0.0)).version == change.version:
                self.paces[slot] = Pace(change.version + 1, change.interval)
        return {slot: self.paces.get(slot, Pace(0, 0.0)) for slot in changes}

    def hear(self, pacing: Pacing, now: float = 1.0) -> None:
        said = pacing.changes()
        pacing.learned(said, self.take(said), now)


def test_nothing_heard_is_nothing_said() -> None:
    assert Pacing(POLICY).changes() == {}


def test_a_site_is_entered_with_the_start_delay() -> None:
    pacing = Pacing(POLICY)
    assert pacing.interval("a") is None
    pacing.enter("a")
    assert pacing.changes() == {"a": PaceChange(0, 0.5)}
    Frontier().hear(pacing)
    assert pacing.interval("a") == 0.5
    pacing.enter("a")
    assert pacing.changes() == {}


@pytest.mark.parametrize(
    ("least", "expected"),
    [pytest.param(2.0, 2.0, id="a longer DOWNLOAD_DELAY"), pytest.param(0.1, 0.5, id="a shorter one")],
)
def test_the_start_delay_is_not_below_the_least(least: float, expected: float) -> None:
    pacing = Pacing(Policy(4.0, 0.5, least, 60.0))
    pacing.enter("a")
    assert pacing.changes()["a"].interval == expected


def test_who_comes_late_takes_over_what_others_have_learned() -> None:
    frontier, late = Frontier(), Pacing(POLICY)
    frontier.paces["a"] = Pace(7, 0.05)
    late.enter("a")
    frontier.hear(late)
    assert late.interval("a") == 0.05
    assert frontier.paces["a"] == Pace(7, 0.05)
    assert late.changes() == {}


def test_answers_are_said_once() -> None:
    frontier, pacing = Frontier(), Pacing(POLICY)
    pacing.note("a", GOOD, 1.0)
    frontier.hear(pacing)
    assert frontier.paces["a"] == Pace(1, pytest.approx(0.45))
    assert pacing.changes() == {}


def test_answers_that_came_meanwhile_are_kept_for_the_next_time() -> None:
    frontier, pacing = Frontier(), Pacing(POLICY)
    pacing.note("a", GOOD, 1.0)
    said = pacing.changes()
    pacing.note("a", TOO_MUCH, 1.0)
    pacing.learned(said, frontier.take(said), 1.0)
    assert pacing.changes() == {"a": PaceChange(1, pytest.approx(0.9))}


def test_when_another_was_first_the_same_answers_are_applied_to_its_pace() -> None:
    frontier, first, second = Frontier(), Pacing(POLICY), Pacing(POLICY)
    frontier.paces["a"] = Pace(1, 1.0)
    for pacing in (first, second):
        pacing.enter("a")
        frontier.hear(pacing)
    first.note("a", GOOD, 1.0)
    second.note("a", TOO_MUCH, 1.0)
    said = second.changes()
    frontier.hear(first)
    second.learned(said, frontier.take(said), 1.0)
    assert frontier.paces["a"] == Pace(2, pytest.approx(0.9))
    assert second.interval("a") == pytest.approx(0.9)
    frontier.hear(second)
    assert frontier.paces["a"] == Pace(3, pytest.approx(1.8))
    assert second.changes() == {}


def test_slots_are_apart() -> None:
    frontier, pacing = Frontier(), Pacing(POLICY)
    pacing.note("a", GOOD, 1.0)
    pacing.note("b", TOO_MUCH, 1.0)
    frontier.hear(pacing)
    assert (pacing.interval("a"), pacing.interval("b")) == (pytest.approx(0.45), 1.0)


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_a_burst_of_too_much_slows_down_once_on_however_many_workers(workers: int) -> None:
    """All were asked at second 1; the answers come one after the other, and are said one after the other."""
    frontier = Frontier()
    frontier.paces["a"] = Pace(1, 0.4)
    pacings = [Pacing(POLICY) for _ in range(workers)]
    for pacing in pacings:
        pacing.enter("a")
        frontier.hear(pacing)
    for number in range(8):
        now = 1.5 + number / 10
        pacings[number % workers].note("a", Answer(now - 1.0, 429), now)
        frontier.hear(pacings[number % workers], now)
    assert frontier.paces["a"].interval == pytest.approx(0.8)
    pacings[0].note("a", Answer(0.1, 429), 5.0)
    frontier.hear(pacings[0])
    assert frontier.paces["a"].interval == pytest.approx(1.6)


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["hears", "says"])), max_size=60)


@given(STEPS)
def test_with_any_mixture_of_workers_no_answer_counts_twice_nor_is_kept_for_ever(
    steps: list[tuple[int, str]],
) -> None:
    """All answers are the same here, so the pace shows how many of them it holds."""
    frontier, workers = Frontier(), [Pacing(POLICY) for _ in range(3)]
    told: dict[int, dict[str, PaceChange]] = {}
    heard = 0
    for number, step in steps:
        pacing = workers[number]
        if step == "hears":
            pacing.note("a", Answer(0.0, 200), 1.0)
            heard += 1
        elif number in told:
            said = told.pop(number)
            pacing.learned(said, frontier.take(said), 1.0)
        else:
            told[number] = pacing.changes()
    for number, said in told.items():
        workers[number].learned(said, frontier.take(said), 1.0)
    for pacing in workers:
        frontier.hear(pacing)  # another may have been first
        frontier.hear(pacing)
    assert [pacing.changes() for pacing in workers] == [{}, {}, {}]
    if heard:
        all_of_them = next_delay(0.5, [Answer(0.0, 200)] * heard, POLICY)
        assert all_of_them * (1 - 1e-9) <= frontier.paces["a"].interval <= 0.45


@given(st.integers(0, 20))
def test_one_worker_counts_every_answer_once(heard: int) -> None:
    frontier, pacing = Frontier(), Pacing(POLICY)
    pacing.enter("a")
    for _ in range(heard):
        pacing.note("a", Answer(0.0, 200), 1.0)
        frontier.hear(pacing)
    frontier.hear(pacing)
    expected = next_delay(0.5, [Answer(0.0, 200)] * heard, POLICY)
    assert frontier.paces["a"].interval == pytest.approx(expected)


# Settings.


def settings(**values: Any) -> Settings:
    return Settings({"AUTOTHROTTLE_ENABLED": True, **values})


def test_off_means_off() -> None:
    assert build_pacing(settings(AUTOTHROTTLE_ENABLED=False)) is None


def test_scrapys_settings_mean_what_they_mean_to_scrapy() -> None:
    pacing = build_pacing(
        settings(
            AUTOTHROTTLE_START_DELAY="3",
            AUTOTHROTTLE_MAX_DELAY="7",
            AUTOTHROTTLE_TARGET_CONCURRENCY="2",
            DOWNLOAD_DELAY="1",
        )
    )
    assert pacing is not None
    pacing.enter("a")
    assert pacing.changes()["a"].interval == 3.0
    for latency, interval in ((100.0, 7.0), (10.0, 7.0)):
        fresh = build_pacing(settings(AUTOTHROTTLE_MAX_DELAY=interval, AUTOTHROTTLE_TARGET_CONCURRENCY=1))
        assert fresh is not None
        fresh.note("a", Answer(latency, 200), 1.0)
        assert fresh.changes()["a"].interval == interval


@pytest.mark.parametrize("target", [0, -1])
def test_a_target_of_nothing_is_refused_by_name(target: float) -> None:
    with pytest.raises(ConfigurationError, match="AUTOTHROTTLE_TARGET_CONCURRENCY"):
        build_pacing(settings(AUTOTHROTTLE_TARGET_CONCURRENCY=target))


def test_a_site_that_asks_for_more_time_gets_it_and_the_others_stay_as_they_are() -> None:
    pacing = Pacing(POLICY)
    pacing.at_least("a", 2.0)
    pacing.enter("a")
    pacing.enter("b")
    assert pacing.changes() == {"a": PaceChange(0, 2.0), "b": PaceChange(0, 0.5)}
