"""What the site feels, whoever asks: crawls by several workers.

Judged by the stand-in's journal, and by what the workers log: in which exchange the frontier leased what they sent.
A machine that is busy, or stands still, makes exchanges longer and answers late; no request may come before its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.crawling import Crawl, crawl, wait_until
from tests.exchanges import LOGGED, exchanges, latencies, sends
from tests.redis_server import RedisServer
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

Journal = list[dict[str, Any]]
Start = Callable[..., list[Crawl]]

SECONDS = 60
CAP = 4
LATENESS = 1.0
"""Seconds, by the worker's own clock, from the frontier's answer to the sending of what it has leased: what lies in a
worker for longer than a machine that is busy makes it, was leased too early.
"""
CLOCKS = 0.05
"""Seconds by which the server's clock and that of the workers may drift apart in a crawl."""
LEASE = 6
"""Seconds; so that no worker's leases expire that is only slow."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def start(server: RedisServer, tmp_path: Path) -> Iterator[Start]:
    """Starts so many workers on one crawl of the site, on a Redis that is empty at first; `shared=False` starts
    as many crawls that know nothing of each other.
    """
    with server.client() as client:
        client.flushall()
    started: list[Crawl] = []
    with ExitStack() as running:

        def start_workers(
            site: StandIn, workers: int, *, shared: bool = True, **settings: object
        ) -> list[Crawl]:
            asked = {"CONCURRENT_REQUESTS_PER_DOMAIN": CAP, **LOGGED, **settings}
            for _ in range(workers):
                output_dir = tmp_path / ("data" if shared else f"data-{len(started)}")
                url = server.url if shared else None
                started.append(
                    running.enter_context(crawl(site.url, output_dir, settings=asked, redis_url=url))
                )
            return started[-workers:]

        yield start_workers


def finish(site: StandIn, runs: list[Crawl]) -> Journal:
    """Wait for the workers, see that nothing is missing, and return the journal."""
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    assert sorted(runs[0].cars()) == sorted(site.ids())
    return site.journal()


@dataclass
class Request:
    """One that was sent, and the exchange in which it was leased: at any time between its beginning and its end."""

    began: float
    ended: float
    late: float
    """Seconds from then to its sending, by the worker's own clock."""


def requests(run: Crawl) -> list[Request]:
    """Those of a worker, in their order. The one for robots.txt has its time from the last that came before it."""
    bringing = [exchange for exchange in exchanges(run.log) if exchange.leases]
    made = []
    for sent in sends(run.log):
        by = next(
            exchange
            for exchange in reversed(bringing)
            if (sent.lease in exchange.leases if sent.lease else exchange.ended <= sent.at)
        )
        made.append(Request(by.since, by.ended, sent.own_at - by.own_ended))
    return made


def crowding(asked: list[Request], interval: float) -> float:
    """Seconds by which some of them, at whatever time of their exchanges, were leased before their time."""
    in_time = sorted(asked, key=lambda request: request.ended)
    early = (
        number * interval - (request.ended - first.began)
        for first in asked
        for number, request in enumerate(other for other in in_time if other.began >= first.began)
    )
    return max(early, default=0.0)


def assert_in_time(journal: Journal, runs: list[Crawl], interval: float) -> None:
    """Nothing is asked without the frontier, nor before the frontier says so, nor long after."""
    asked = Counter(entry["target"] for entry in journal)
    sent = Counter("?".join(filter(None, urlsplit(one.url)[2:4])) for run in runs for one in sends(run.log))
    assert not asked - sent
    leased = [request for run in runs for request in requests(run)]
    assert crowding(leased, interval) < CLOCKS
    assert [request for request in leased if request.late > LATENESS] == []


def times(journal: Journal) -> list[float]:
    return [entry["started"] for entry in journal]


def gaps(journal: Journal) -> list[float]:
    return [later - time for time, later in pairwise(times(journal))]


def most_at_once(journal: Journal) -> int:
    return max(entry["concurrency"] for entry in journal)


def rate(journal: Journal, interval: float) -> float:
    """Requests per second; a gap in which the machine may have stood still counts for two intervals."""
    return (len(journal) - 1) / sum(min(gap, 2 * interval) for gap in gaps(journal))


def robots(journal: Journal) -> int:
    return sum(entry["target"] == "/robots.txt" for entry in journal)


# Cap and interval.


def test_with_no_interval_all_places_are_taken_at_once_and_no_more(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    """So few requests per worker that one alone cannot take all places, each of which is empty for a moment only."""
    site = stand_in(150, latency=0.2)
    runs = start(site, 4, CONCURRENT_REQUESTS=2)
    journal = finish(site, runs)
    assert most_at_once(journal) == CAP
    assert crowding([request for run in runs for request in requests(run)], 0.1) > 10 * CLOCKS


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_cap_interval_and_rate_are_those_of_one_worker(
    stand_in: Callable[..., StandIn], start: Start, workers: int
) -> None:
    """Some three under way for 0.4 s each: if anything were not shared, there would be more at once. Of the small
    pages many name the same specification, so that one request in six is answered without the site. The first page is
    late, so that all workers are there when it comes.
    """
    late = {"match": PAGE_PATH, "fault": "delay", "seconds": 0.7 * workers, "times": 1}
    site = stand_in(150, latency=0.4, rules=[late])
    runs = start(site, workers, DOWNLOAD_DELAY=0.15, CARS_PAGE_SIZE=10)
    journal = finish(site, runs)
    assert most_at_once(journal) <= CAP
    assert_in_time(journal, runs, 0.15)
    assert robots(journal) > workers / 2, "most of them had something to do"
    measured = rate(journal[1 + next(i for i, entry in enumerate(journal) if entry["fault"]) :], 0.15)
    assert measured < 1.1 / 0.15, "each has its own interval"
    assert measured > 0.6 / 0.15, "it does not stand still"


def test_neither_kills_nor_newcomers_make_it_faster(stand_in: Callable[..., StandIn], start: Start) -> None:
    """The cap is what slows it down here: four places for 0.3 s are 13 a second, the interval alone 20."""
    site = stand_in(200, latency=0.3)
    settings = {"DOWNLOAD_DELAY": 0.05, "DURABLE_LEASE_SECONDS": LEASE, "CONCURRENT_REQUESTS": 3}
    runs = start(site, 3, **settings)
    for number, run in enumerate(runs[:2]):
        wait_until(lambda so_far=10 * (number + 1): site.counts()["requests"] > so_far, 30)
        run.kill()
        runs += start(site, 1, **settings)
    journal = finish(site, runs[2:])
    assert most_at_once(journal) <= CAP
    assert_in_time(journal, runs, 0.05)


def test_those_that_waited_for_a_download_that_failed_take_their_turn(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    """Each specification fails twice, for all who wait for it. Meanwhile these have given their places and times
    to others; if they asked at once, they would be more than the cap, and sooner than the interval.
    """
    fails = {"match": SPEC_PATH, "fault": "status", "times": 2, "per": "target"}
    site = stand_in(50, latency=0.5, rules=[fails])
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 6, "DOWNLOAD_DELAY": 0.1, "CARS_PAGE_SIZE": 3}
    runs = start(site, 4, **settings, DURABLE_RETRY_BASE_DELAY=0.1, STATS_DUMP=1)
    journal = finish(site, runs)
    assert most_at_once(journal) <= 6
    assert_in_time(journal, runs, 0.1)
    assert any("SharedDownloadFailed" in run.log for run in runs)


def test_it_is_seen_when_workers_do_not_share(stand_in: Callable[..., StandIn], start: Start) -> None:
    """The counterpart: two crawls of their own, which are answered too little to end."""
    answered = 60
    site = stand_in(500, latency=0.2, rules=[{"match": SPEC_PATH, "fault": "hang", "after": answered}])
    runs = start(site, 2, shared=False, DOWNLOAD_DELAY=0.05)
    wait_until(lambda: site.counts()["specs"] == answered + 2 * CAP, SECONDS, what="the places are taken")
    assert most_at_once(site.journal()) > CAP
    alone = max((requests(run) for run in runs), key=len)
    assert crowding(alone, 0.05) < CLOCKS
    assert crowding(2 * alone, 0.05) > 10 * CLOCKS, "as if both had asked at the same times"


def test_what_waited_for_robots_txt_does_not_come_all_at_once_after_it(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    """A worker that joins later is given requests, while its robots.txt takes a while."""
    site = stand_in(180, rules=[{"match": "robots", "fault": "delay", "seconds": 1.5, "after": 1}])
    settings = {"DOWNLOAD_DELAY": 0.1, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    runs = start(site, 1, **settings)
    wait_until(lambda: site.counts()["requests"] > 0, 30)
    runs += start(site, 1, **settings)
    journal = finish(site, runs)
    assert robots(journal) == 2
    assert_in_time(journal, runs, 0.1)


def test_a_slot_has_its_own_cap_and_interval(stand_in: Callable[..., StandIn], start: Start) -> None:
    site = stand_in(40, latency=0.12)
    runs = start(site, 1, DOWNLOAD_SLOTS='{"127.0.0.1": {"concurrency": 1, "delay": 0.1}}')
    journal = finish(site, runs)
    assert most_at_once(journal) == 1
    assert_in_time(journal, runs, 0.1)


# AutoThrottle.


@dataclass
class Change:
    """One of the pace, for all workers, and when the exchange began and ended that made it."""

    version: int
    interval: float
    began: float
    ended: float


@dataclass
class Throttled:
    """A crawl that was throttled: what the site had to bear, and what the workers made of it."""

    journal: Journal
    requests: list[Request]
    changes: list[Change]
    """In their order."""
    slowest: float
    """Seconds that an answer has taken at most, as a worker saw it."""


LATENCY, TARGET, START_DELAY = 0.2, 2, 0.15


def changes(runs: list[Crawl]) -> list[Change]:
    """Those that the frontier has taken, one after the other. Two workers that say the same at once are one."""
    made: dict[int, Change] = {}
    for exchange in [exchange for run in runs for exchange in exchanges(run.log)]:
        for (version, wanted), (now, interval) in zip(
            exchange.changes, exchange.paces, strict=exchange.answered
        ):
            if (now, interval) == (version + 1, wanted):
                made.setdefault(now, Change(now, interval, exchange.since, exchange.ended))
    return [made[version] for version in sorted(made)]


@pytest.fixture(scope="module")
def throttled(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Throttled:
    """Four workers; the 31st specification is answered with a 429, all others in time."""
    settings = {
        "AUTOTHROTTLE_ENABLED": 1,
        "AUTOTHROTTLE_START_DELAY": START_DELAY,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": TARGET,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DURABLE_RETRY_BASE_DELAY": 0.1,
        **LOGGED,
    }
    too_much = {"match": SPEC_PATH, "fault": "status", "status": 429, "times": 1, "after": 30}
    with (
        server.client() as client,
        StandIn(200, latency=LATENCY, rules=[too_much]) as site,
        ExitStack() as running,
    ):
        client.flushall()
        output_dir = tmp_path_factory.mktemp("throttled")
        runs = [
            running.enter_context(crawl(site.url, output_dir, settings=settings, redis_url=server.url))
            for _ in range(4)
        ]
        journal = finish(site, runs)
        return Throttled(
            journal,
            [request for run in runs for request in requests(run)],
            changes(runs),
            max(seconds for run in runs for seconds in latencies(run.log)),
        )


def test_the_target_is_the_sites_load_and_not_each_workers(throttled: Throttled) -> None:
    """If each had it for itself, four would bring it to eight."""
    asked = next(entry["started"] for entry in throttled.journal if entry["fault"])
    changes = [change for change in throttled.changes if change.began < asked]
    quickest = min(change.interval for change in changes)
    assert LATENCY / quickest <= 2.5
    assert crowding([request for request in throttled.requests if request.began < asked], quickest) < CLOCKS
    slowest = max(change.interval for change in changes)
    assert slowest <= max(START_DELAY, throttled.slowest / TARGET)
    before = [entry for entry in throttled.journal if entry["started"] <= asked]
    assert median(gaps(before[len(before) // 2 :])) <= 1.3 * slowest, "and nobody dawdles"


def test_a_429_that_does_not_say_how_long_slows_down_every_worker(throttled: Throttled) -> None:
    """From nearly ten a second to two; a worker by itself would leave the other three as they are."""
    asked = next(entry["started"] for entry in throttled.journal if entry["fault"])
    earlier = [change for change in throttled.changes if change.ended < asked]
    later = throttled.changes[len(earlier) :]
    slowed = next(
        change for before, change in pairwise([earlier[-1], *later]) if change.interval >= 2 * before.interval
    )
    assert 0.5 <= slowed.interval <= max(0.5, 2 * START_DELAY, throttled.slowest)
    after = [request for request in throttled.requests if request.began > slowed.ended]
    assert after, "it goes on"
    soon = [request for request in after if request.ended < slowed.ended + 2]
    assert len(soon) <= 8, "two a second, and a little more with each answer"
    since = [change for change in later if change.version >= slowed.version]
    quickest = min(change.interval for change in since if change.began < slowed.ended + 2)
    assert crowding(soon, quickest) < CLOCKS
    assert min(change.interval for change in since) < slowed.interval, "it recovers"
