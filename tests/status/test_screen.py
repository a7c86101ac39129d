"""A crawl fits any screen, whatever there is of it: what matters most stays."""

from __future__ import annotations

import re
import unicodedata

import pytest

from scrapy_durable.frontier.contract import HeldLease, SlotUse
from scrapy_durable.status.rates import Rates
from scrapy_durable.status.report import Report, report_of
from scrapy_durable.status.screen import Moment, frame, one_line
from tests.status.made_up import LEASE, NOW, counts, look, paused, worker

NAMES = [f"車{number}.example\x1b[31m" for number in range(40)]


def crowded() -> Report:
    """More of everything than a screen has room for, with names of wide letters that a terminal would obey."""
    lease = HeldLease(
        1, 1, "a", "parse", NAMES[0], 2, 1, NOW - 90, NOW, False, b'{"url":"https://a/%s"}' % (b"x" * 300)
    )
    status = look(
        total=counts(queued=12_345_678, dead=9, done=123),
        slots=dict.fromkeys(NAMES, counts(queued=5)),
        workers=[worker(name, leased=3, silent=2.0, crawl__behind__MongoDB=7) for name in NAMES],
        in_flight=dict.fromkeys(NAMES, SlotUse(3, 8, 0.25)),
        waits={NAMES[3]: paused("the site asks to wait " * 20)},
        dead_lettered={f"status 404 {name}": 3 for name in NAMES},
        retried={f"status 503 {name}": 5 for name in NAMES},
        leases=[lease] * 20,
    )
    return report_of(status, Rates(60.0, 12.5, 0.1, 40.0, 12.0, 1.5e6, 0.31), LEASE, {})


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (81, 25), (40, 10), (20, 2), (33, 7)])
def test_every_line_fits_and_obeys_nobody(width: int, height: int) -> None:
    lines = frame(Moment(crowded()), "shop", width, height, colours=False)
    assert len(lines) == height
    for line in lines:
        assert columns(line) <= width, line
        assert line.isprintable(), line


def test_on_a_usual_screen_there_is_something_of_everything() -> None:
    text = "\n".join(frame(Moment(crowded()), "shop", 80, 24, colours=False))
    for title in (
        "sites (",
        "workers (",
        "dead letters, by reason (",
        "tried again, by reason (",
        "leased longest (",
    ):
        assert title in text
    for said in (
        "12,345,678 queued",
        "12.5 answers/s in 0.31 s",
        "3/8 in flight",
        "1 in 0.25 s",
        "MongoDB      lacks 280 records",
    ):
        assert said in text
    assert "(39 more)" not in text, "no section has its title alone"


def test_workers_at_work_come_before_those_that_are_lost() -> None:
    workers = [worker("gone", silent=5, left=1), worker("lost", silent=300), worker("live", silent=2)]
    status = look(total=counts(queued=1), workers=[*workers, worker("slow", silent=9)])
    text = "\n".join(frame(Moment(report_of(status, None, LEASE, {})), "shop", 80, 24, colours=False))
    assert sorted(["gone", "lost", "live", "slow"], key=lambda name: text.index(f"  {name} ")) == [
        "slow",
        "live",
        "lost",
        "gone",
    ]


def test_colours_are_left_out_on_request() -> None:
    moment = Moment(report_of(look(total=counts(queued=1)), None, LEASE, {}))
    assert any("\x1b[1;32m" in line for line in frame(moment, "shop", 80, 24))
    assert not any("\x1b" in line for line in frame(moment, "shop", 80, 24, colours=False))


def test_one_line_has_the_state_the_counts_and_the_rates() -> None:
    status = look(total=counts(queued=3, done=4))
    shown = one_line(Moment(report_of(status, Rates(60.0, 2.0, 0.0, 1.0, 0.5, 10.0, 0.3), LEASE, {})))
    assert shown == (
        "running; at least 6.0 s left; 3 queued, 0 delayed, 0 leased, 0 dead, 4 done; "
        "2.0 answers/s in 0.3 s  0.0 failed/s  1.0 items/s  0.50 done/s  10 B/s"
    )


def test_a_line_about_a_queue_that_is_away_says_why() -> None:
    report = report_of(look(None), None, LEASE, {})
    shown = one_line(Moment(report, lost_since=NOW, lost_why="it is\naway"))
    assert shown == "disconnected since 08:00:00Z, trying again: it is\\naway"


@pytest.mark.parametrize(
    ("now", "before", "reason"),
    [
        (2.04, 0.2, "an answer takes 2 s, and took 0.2 s before"),
        (0.45, 0.1, ""),  # slower, and nothing that anybody waits for
        (1.9, 1.0, ""),
        (None, 0.2, ""),
        (2.0, None, ""),
    ],
)
def test_a_site_that_has_become_slow_is_the_reason_of_a_slow_crawl(
    now: float | None, before: float | None, reason: str
) -> None:
    def rates(latency: float | None) -> Rates:
        return Rates(5.0, 12.5, 0.1, 40.0, 12.0, 1.5e6, latency)

    status = look(
        total=counts(queued=5, leased=1), slots={"a": counts(queued=5, leased=1)}, workers=[worker()]
    )
    report = report_of(status, rates(0.3), LEASE, {}, recent=rates(now), before=rates(before))
    assert (report.condition.word, report.condition.reason) == ("slow" if reason else "running", reason)
    text = "\n".join(frame(Moment(report), "shop", 80, 24, colours=False))
    assert f"in {now or 0.3:.2g} s" in text


def test_a_worker_that_is_not_heard_of_is_silent_before_its_leases_end() -> None:
    status = look(
        total=counts(leased=2),
        workers=[worker("one", leased=2, silent=4.0), worker("two", silent=2.5)],
    )
    text = "\n".join(frame(Moment(report_of(status, None, LEASE, {})), "shop", 80, 24, colours=False))
    assert "running: 1 of 2 workers silent" in text
    assert re.search(r"one .*silent for 4", text)
    assert re.search(r"two .*heard of 2\.5 s ago", text)


def test_a_database_that_does_not_answer_is_named_as_those_say_that_are_there() -> None:
    numbers = {"crawl__behind__MongoDB": 5, "crawl__behind__PostgreSQL": 40}
    workers = [
        worker("one", **numbers, crawl__down__PostgreSQL=1),
        worker("two", **numbers),
        worker("gone", silent=LEASE, **numbers, crawl__down__MongoDB=1),
    ]
    report = report_of(look(total=counts(leased=2), workers=workers), None, LEASE, {})
    assert [(store.name, store.words) for store in report.stores] == [
        ("MongoDB", "lacks 10 records"),
        ("PostgreSQL", "lacks 80 records: it does not answer"),
    ]
    assert (report.condition.word, report.condition.reason) == ("running", "PostgreSQL does not answer")
