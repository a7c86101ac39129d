"""The delay between two requests, as a function of the answers: Scrapy's arithmetic, and where it differs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_durable.throttle.policy import TOO_MUCH, Answer, Policy, next_delay

POLICY = Policy(target_concurrency=4.0, start_delay=0.5, min_delay=0.0, max_delay=60.0)

OK = 200
DELAYS = st.floats(0, 100)
LATENCIES = st.floats(0, 100)
ANSWERS = st.lists(st.builds(Answer, LATENCIES, st.sampled_from([200, 204, 404, 429, 500, 503])), max_size=9)


@pytest.mark.parametrize(
    ("delay", "answers", "expected"),
    [
        pytest.param(0.5, [], 0.5, id="nothing heard, nothing changed"),
        pytest.param(0.5, [Answer(2.0, OK)], 0.5, id="as it should be"),
        pytest.param(0.1, [Answer(2.0, OK)], 0.5, id="up at once"),
        pytest.param(0.5, [Answer(0.2, OK)], 0.45, id="down by a tenth"),
        pytest.param(0.5, [Answer(1.9, OK)], 0.4875, id="down half-way when that is less"),
        pytest.param(0.5, [Answer(0.2, OK)] * 2, 0.405, id="each answer counts"),
        pytest.param(0.5, [Answer(0.01, 404)], 0.5, id="a quick failure is no reason to hurry"),
        pytest.param(0.5, [Answer(0.01, 500)], 0.5, id="nor is a quick error"),
        pytest.param(0.1, [Answer(2.0, 500)], 0.5, id="a slow error is a reason to slow down"),
        pytest.param(0.4, [Answer(0.01, 429)], 0.8, id="too much: half as fast"),
        pytest.param(0.4, [Answer(0.01, 503)], 0.8, id="the same"),
        pytest.param(0.01, [Answer(0.01, 429)], 0.5, id="too much: half a second at least"),
        pytest.param(0.0, [Answer(0.01, 429)], 0.5, id="also where there was no delay at all"),
        pytest.param(0.4, [Answer(0.01, 429)] * 8, 0.8, id="those under way together count once"),
        pytest.param(50.0, [Answer(0.01, 429)], 60.0, id="not beyond the longest"),
        pytest.param(0.5, [Answer(1000.0, OK)], 60.0, id="nor for a slow answer"),
    ],
)
def test_the_delay_after_some_answers(delay: float, answers: list[Answer], expected: float) -> None:
    assert next_delay(delay, answers, POLICY) == pytest.approx(expected)


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_it_settles_where_the_target_is_whoever_gets_the_answers(workers: int) -> None:
    """The answers of one site with 0.2 s per answer, however they are spread: 4 under way are 20 a second."""
    delay = POLICY.start_delay
    for _ in range(0, 200, workers):
        delay = next_delay(delay, [Answer(0.2, OK)] * workers, POLICY)
    assert delay == pytest.approx(0.05, rel=0.01)


def test_it_takes_some_twenty_good_answers_to_get_over_one_that_said_too_much() -> None:
    delay, answers = next_delay(0.05, [Answer(0.01, 429)], POLICY), 0
    while delay > 0.06:
        delay, answers = next_delay(delay, [Answer(0.2, OK)], POLICY), answers + 1
    assert 15 <= answers <= 40


@given(DELAYS, ANSWERS, st.floats(0, 10), st.floats(10, 60), st.floats(0.1, 16))
def test_never_below_the_least_nor_above_the_longest(
    delay: float, answers: list[Answer], least: float, longest: float, target: float
) -> None:
    policy = Policy(target, 0.5, least, longest)
    assert least <= next_delay(delay, answers, policy) <= longest


@given(st.floats(0.001, 60), ANSWERS)
def test_no_answer_makes_it_faster_by_more_than_a_tenth(delay: float, answers: list[Answer]) -> None:
    after = next_delay(delay, answers, POLICY)
    assert after >= min(delay * 0.9 ** len(answers), 60.0) * (1 - 1e-9)


@given(st.floats(0, 60), st.lists(LATENCIES, max_size=9), st.sampled_from([301, 400, 404, 500, 502]))
def test_failures_never_speed_up(delay: float, latencies: list[float], status: int) -> None:
    assert next_delay(delay, [Answer(latency, status) for latency in latencies], POLICY) >= delay


@given(st.floats(0, 60), LATENCIES, st.sampled_from(sorted(TOO_MUCH)))
def test_too_much_slows_down_however_fast_it_came(delay: float, latency: float, status: int) -> None:
    after = next_delay(delay, [Answer(latency, status)], POLICY)
    assert after >= min(max(2 * delay, 0.5), 60.0)
