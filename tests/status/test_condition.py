"""The state of a crawl is one word and its reason."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_durable.frontier.contract import LogStatus, SlotWait
from scrapy_durable.status.condition import BY_HAND, condition_of
from scrapy_durable.status.rates import Rates
from scrapy_durable.status.report import report_of
from tests.status.made_up import IN_FLIGHT, LEASE, NOW, counts, look, paused, worker

ROBOTS = "robots.txt could not be read; it is asked for again"
OPEN_LOG = LogStatus("log", "w1", 0, False, False, NOW)


@pytest.mark.parametrize(
    ("facts", "word", "reason"),
    [
        ({"crawl_id": None}, "nothing here", "no crawl has begun here, or the last one has ended"),
        ({"total": counts(queued=9, leased=2), "in_flight": IN_FLIGHT}, "running", ""),
        ({"total": counts(queued=9)}, "running", ""),
        (
            {"total": counts(queued=9), "waits": {"a": paused(ROBOTS)}},
            "waiting",
            f"a: {ROBOTS}, 30 s left",
        ),
        ({"total": counts(delayed=4)}, "waiting", "all 4 requests that are left wait for their time"),
        (
            {"total": counts(queued=9), "waits": {"a": paused(BY_HAND)}},
            "paused",
            "a: paused by hand, 30 s left",
        ),
        (
            {
                "total": counts(queued=9, leased=1),
                "in_flight": IN_FLIGHT,
                "waits": {"a": SlotWait("interval", NOW + 1, "", 8, 2.5, 1)},
            },
            "slow",
            "a: one request in 2.5 s",
        ),
        (
            {
                "total": counts(queued=9, leased=1),
                "slots": {"a": counts(queued=4), "b": counts(queued=5)},
                "in_flight": IN_FLIGHT,
                "waits": {"b": paused("the site asks to wait")},
            },
            "running",
            "1 of 2 sites wait",
        ),
        (
            {"total": counts(queued=1), "workers": [worker(crawl__log_full=1)]},
            "slow",
            "the item log is full, and its feeds are behind: nothing more is asked for",
        ),
        (
            {"total": counts(queued=1), "workers": [worker("w1", crawl__log_full=1), worker("w2")]},
            "running",
            "the item log of 1 of 2 workers is full, and its feeds are behind",
        ),
        (
            {"total": counts(queued=9, leased=2), "workers": [worker(leased=2, silent=300)]},
            "stalled",
            "no worker was heard of for 5 min, 11 requests wait",
        ),
        (
            {"total": counts(queued=9), "workers": [worker(silent=300, left=1)]},
            "stopped",
            "no worker is at it; 9 requests wait for the next run",
        ),
        (
            {"total": counts(queued=9), "workers": []},
            "stopped",
            "no worker is at it; 9 requests wait for the next run",
        ),
        ({"total": counts(done=9)}, "finishing", ""),
        ({"total": counts(done=9), "logs": [OPEN_LOG]}, "finishing", "items of 1 workers are being stored"),
        (
            {"total": counts(done=9, dead=2), "workers": [worker(left=1)]},
            "incomplete",
            "2 requests are dead letters, all others are done",
        ),
        (
            {"total": counts(done=9), "workers": [worker(left=1)], "logs": [OPEN_LOG]},
            "incomplete",
            "items of 1 workers wait for these to come back",
        ),
        (
            {"total": counts(done=9), "workers": [worker(left=1)]},
            "complete",
            "all requests are done; the next run ends the crawl",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_state_has_its_word_and_its_reason(facts: dict[str, Any], word: str, reason: str) -> None:
    condition = condition_of(look(**facts), LEASE)
    assert (condition.word, condition.reason) == (word, reason)
    assert condition.is_well == (word not in ("stalled", "incomplete"))


def test_of_several_sites_that_wait_the_longest_is_named() -> None:
    waits = {"a": paused("one", 5), "b": paused("two", 50)}
    slots = {"a": counts(queued=1), "b": counts(queued=1)}
    found = condition_of(look(total=counts(queued=2), slots=slots, waits=waits), LEASE)
    assert (found.word, found.reason) == ("waiting", "b: two, 50 s left, and 1 more sites")


def rates(**each: float) -> Rates:
    return Rates(
        **{
            **dict.fromkeys(("over", "answers", "failed", "items", "done", "bytes"), 1.0),
            "latency": None,
            **each,
        }
    )


def test_the_time_left_follows_from_the_items_that_there_are_or_else_from_what_is_queued() -> None:
    queued = counts(queued=80, done=20)
    told = report_of(look(total=queued, workers=[worker(kept=10, total=110)]), rates(items=4.0), LEASE, {})
    assert (told.kept, told.expected, told.seconds_left, told.is_least) == (10, 110, 25.0, False)
    untold = report_of(look(total=queued, workers=[worker(kept=10)]), rates(done=4.0), LEASE, {})
    assert (untold.expected, untold.seconds_left, untold.is_least) == (0, 20.0, True)


def test_an_item_that_two_workers_have_passed_on_makes_no_more_items_than_there_are() -> None:
    both = [worker("w1", kept=70, total=110), worker("w2", kept=60, total=110)]
    assert report_of(look(workers=both), None, LEASE, {}).kept == 110


def test_nothing_is_said_of_the_time_left_while_nothing_moves_or_when_nothing_is_left() -> None:
    stands = report_of(look(total=counts(queued=80)), rates(done=0.0), LEASE, {})
    over = report_of(look(total=counts(done=80)), rates(), LEASE, {})
    once = report_of(look(total=counts(queued=80)), None, LEASE, {})
    assert [one.seconds_left for one in (stands, over, once)] == [None, None, None]


def test_a_worker_shows_its_silence_and_what_its_stores_have_not_got() -> None:
    status = look(
        workers=[worker(leased=3, silent=7, crawl__behind__MongoDB=12, crawl__log_bytes=5000, left=1)]
    )
    (shown,) = report_of(status, None, LEASE, {}).workers
    assert (shown.leased, shown.silent, shown.has_left) == (3, 7.0, True)
    assert (shown.behind, shown.log_bytes) == ({"MongoDB": 12}, 5000)
