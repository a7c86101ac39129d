"""What the site feels, whoever asks: crawls by several workers, judged by the stand-in's journal.

A request has its time when the frontier hands it out. Between that and its arrival lie a worker, a network and
a busy machine, so a late one may stand closer to the next than the interval; `LATENESS` is what is allowed
for. What is asserted grows with every request that comes too early, while lateness does not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import Crawl, crawl, wait_until
from tests.redis_server import RedisServer
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

Journal = list[dict[str, Any]]
Start = Callable[..., list[Crawl]]

SECONDS = 60
CAP = 4
LATENESS = 0.25
"""Seconds that one request may take longer than another from the frontier to the site, where eight workers start
at once on two cores.
"""


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
            asked = {"CONCURRENT_REQUESTS_PER_DOMAIN": CAP, **settings}
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


def times(journal: Journal) -> list[float]:
    return [entry["started"] for entry in journal]


def most_at_once(journal: Journal) -> int:
    return max(entry["concurrency"] for entry in journal)


def lead(journal: Journal, interval: float) -> float:
    """Seconds by which any request came before its time, counted from any earlier one."""
    ahead = [number * interval - time for number, time in enumerate(times(journal))]
    return max(here - least for here, least in zip(ahead, accumulate(ahead, min), strict=True))


def rate(journal: Journal) -> float:
    """Requests per second from the first to the last."""
    return (len(journal) - 1) / (times(journal)[-1] - times(journal)[0])


def load(journal: Journal) -> float:
    """Requests under way on average in the second half."""
    late = times(journal)[len(journal) // 2 :]
    begin, end = late[0], late[-1]
    busy = sum(max(0.0, min(entry["ended"], end) - max(entry["started"], begin)) for entry in journal)
    return busy / (end - begin)


def robots(journal: Journal) -> int:
    return sum(entry["target"] == "/robots.txt" for entry in journal)


# Cap and interval.


def test_with_no_interval_all_places_are_taken_at_once_and_no_more(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    """So few requests per worker that one alone cannot take all places."""
    site = stand_in(150, latency=0.05)
    journal = finish(site, start(site, 4, CONCURRENT_REQUESTS=2))
    assert most_at_once(journal) == CAP
    assert lead(journal, 0.1) > LATENESS


@pytest.fixture(scope="module")
def rates() -> dict[int, float]:
    """The rate by number of workers, one after the other; that of one comes first."""
    return {}


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_cap_interval_and_rate_are_those_of_one_worker(
    stand_in: Callable[..., StandIn], start: Start, rates: dict[int, float], workers: int
) -> None:
    """Some three under way for 0.4 s each: if anything were not shared, there would be more at once. Of the small
    pages many name the same specification, so that one request in six is answered without the site; if that took
    time, one worker would be slower by so much. The first page is late, so that all workers are there when it comes.
    """
    late = {"match": PAGE_PATH, "fault": "delay", "seconds": 0.7 * workers, "times": 1}
    site = stand_in(150, latency=0.4, rules=[late])
    journal = finish(site, start(site, workers, DOWNLOAD_DELAY=0.15, CARS_PAGE_SIZE=10))
    assert most_at_once(journal) <= CAP
    assert lead(journal, 0.15) < LATENESS
    assert robots(journal) > workers / 2, "most of them had something to do"
    rates[workers] = rate(journal[1 + next(i for i, entry in enumerate(journal) if entry["fault"]) :])
    assert rates[workers] == pytest.approx(rates[1], rel=0.1)
    assert rates[workers] > 0.9 / 0.15


def test_neither_kills_nor_newcomers_make_it_faster(stand_in: Callable[..., StandIn], start: Start) -> None:
    """The cap is what slows it down here: four places for 0.3 s are 13 a second, the interval alone 20."""
    site = stand_in(200, latency=0.3)
    settings = {"DOWNLOAD_DELAY": 0.05, "CARS_LEASE_SECONDS": 1.5, "CONCURRENT_REQUESTS": 3}
    first = start(site, 3, **settings)
    for number, run in enumerate(first[:2]):
        wait_until(lambda so_far=10 * (number + 1): site.counts()["requests"] > so_far, 30)
        run.kill()
        first += start(site, 1, **settings)
    journal = finish(site, first[2:])
    assert most_at_once(journal) <= CAP
    assert lead(journal, 0.05) < LATENESS


def test_those_that_waited_for_a_download_that_failed_take_their_turn(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    """Each specification fails twice, for all who wait for it. Meanwhile these have given their places and times
    to others; if they asked at once, they would be more than the cap, and sooner than the interval.
    """
    fails = {"match": SPEC_PATH, "fault": "status", "times": 2, "per": "target"}
    site = stand_in(50, latency=0.5, rules=[fails])
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 6, "DOWNLOAD_DELAY": 0.1, "CARS_PAGE_SIZE": 3}
    runs = start(site, 4, **settings, CARS_RETRY_BASE_DELAY=0.1, STATS_DUMP=1)
    journal = finish(site, runs)
    assert most_at_once(journal) <= 6
    assert lead(journal, 0.1) < LATENESS
    assert any("WaitedInVain" in run.log for run in runs)


def test_the_journal_tells_when_workers_do_not_share(stand_in: Callable[..., StandIn], start: Start) -> None:
    """The counterpart: the same, in two crawls of their own."""
    site = stand_in(100, latency=0.2)
    runs = start(site, 2, shared=False, DOWNLOAD_DELAY=0.05)
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    journal = site.journal()
    assert most_at_once(journal) > CAP
    assert lead(journal, 0.05) > LATENESS


def test_what_waited_for_robots_txt_does_not_come_all_at_once_after_it(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    """A worker that joins later is given requests, while its robots.txt takes a while."""
    site = stand_in(180, rules=[{"match": "robots", "fault": "delay", "seconds": 1.5, "after": 1}])
    settings = {"DOWNLOAD_DELAY": 0.1, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    first = start(site, 1, **settings)
    wait_until(lambda: site.counts()["requests"] > 0, 30)
    journal = finish(site, first + start(site, 1, **settings))
    assert robots(journal) == 2
    assert lead(journal, 0.1) < LATENESS


def test_a_slot_has_its_own_cap_and_interval(stand_in: Callable[..., StandIn], start: Start) -> None:
    site = stand_in(40, latency=0.12)
    journal = finish(site, start(site, 1, DOWNLOAD_SLOTS='{"127.0.0.1": {"concurrency": 1, "delay": 0.1}}'))
    assert most_at_once(journal) == 1
    assert lead(journal, 0.1) < LATENESS


# AutoThrottle.


@pytest.fixture(scope="module")
def throttled(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """Four workers and a target of two; the 31st specification is answered with a 429, all others after
    0.2 s.
    """
    settings = {
        "AUTOTHROTTLE_ENABLED": 1,
        "AUTOTHROTTLE_START_DELAY": 0.15,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": 2,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "CARS_RETRY_BASE_DELAY": 0.1,
    }
    too_much = {"match": SPEC_PATH, "fault": "status", "status": 429, "times": 1, "after": 30}
    with (
        server.client() as client,
        StandIn(200, latency=0.2, rules=[too_much]) as site,
        ExitStack() as running,
    ):
        client.flushall()
        output_dir = tmp_path_factory.mktemp("throttled")
        runs = [
            running.enter_context(crawl(site.url, output_dir, settings=settings, redis_url=server.url))
            for _ in range(4)
        ]
        return finish(site, runs)


def test_the_target_is_the_sites_load_and_not_each_workers(throttled: Journal) -> None:
    """If each had it for itself, four would bring it to eight."""
    before = throttled[: next(number for number, entry in enumerate(throttled) if entry["fault"])]
    assert 1.0 <= load(before) <= 2.5


def test_a_429_that_does_not_say_how_long_slows_down_every_worker(throttled: Journal) -> None:
    """From nearly ten a second to two; a worker by itself would leave the other three as they are."""
    asked = next(entry["ended"] for entry in throttled if entry["fault"])
    before = sum(asked - 2 < time < asked for time in times(throttled))
    after = sum(asked + 0.2 < time < asked + 2.2 for time in times(throttled))
    assert 1 <= after <= before / 2
    gaps = [later - time for time, later in pairwise(times(throttled)) if time > asked]
    assert gaps[-1] < max(gaps), "it recovers"
