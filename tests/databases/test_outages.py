"""Databases that are killed, down, cut off or slow in the middle of a crawl: nothing is missing, nothing is twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawling import Crawl, crawl, wait_until
from tests.databases.looking import Databases, assert_same, kept, waiting_bytes
from tests.kept import kept_records
from tests.standin import StandIn
from tests.tcp_proxy import TcpProxy

LISTINGS = 1500
KILLS = 5
BACK = "PostgreSQL answers again"
BATCHES = {"CARS_PAGE_SIZE": 20, "CARS_BATCH_SIZE": 50, "CARS_BATCH_SECONDS": 0.1}
"""Small ones, so that there are many in a small catalogue."""
IMPATIENT = {**BATCHES, "CARS_STORE_TIMEOUT": 10}
"""For a crawl with a server that stays down; one that is up, but slow for seconds, still gets everything."""


def committed(out: Path) -> int:
    """Records in the log so far."""
    return len(kept_records(out))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("CRASH_SEEDS", "1"))))
def test_five_kills_of_each_server_lose_nothing(
    seed: int, mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    dice = random.Random(seed)
    site = stand_in(LISTINGS, latency=0.3)
    requests = LISTINGS // 20 + len(site.keys())
    slowly = {**BATCHES, "CONCURRENT_REQUESTS": 6, "CONCURRENT_REQUESTS_PER_DOMAIN": 6}
    with crawl(site.url, tmp_path, settings=slowly, env=mortal.env) as run:
        for kill in range(KILLS):
            down = requests * (kill + dice.uniform(0.3, 0.6)) / (KILLS + 1)
            up = down + requests * dice.uniform(0, 0.3) / (KILLS + 1)
            wait_until(lambda down=down: site.counts()["requests"] >= down, 60, what="the time of a kill")
            assert run.running, run.log
            before = mortal.counts()
            mortal.mongo.kill()
            mortal.postgres.kill()
            wait_until(lambda up=up: site.counts()["requests"] >= up, 60, what="the crawl goes on")
            mortal.mongo.start()
            mortal.postgres.start()
            for server in range(2):
                wait_until(
                    lambda s=server, b=before: mortal.counts()[s] > b[s], 60, what="records arrive again"
                )
            # A record arrives before the crawl knows; of a server that is killed in between nothing new is said.
            wait_until(lambda n=kill + 1: run.log.count(BACK) == n, 60, what="the crawl knows it")
        assert run.wait(120) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert_same(mortal, tmp_path)
    assert all(len(document["prices"]) <= 1 for document in mortal.documents().values())
    assert run.log.count("PostgreSQL does not answer") == KILLS, run.log


def test_servers_that_are_down_at_the_start_get_everything_once_they_are_up(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(600, latency=0.05)
    mortal.mongo.kill()
    mortal.postgres.kill()
    with crawl(site.url, tmp_path, settings=BATCHES, env=mortal.env) as run:
        wait_until(lambda: committed(tmp_path) >= 200, 60, what="JSON goes on")
        mortal.mongo.start()
        mortal.postgres.start()
        assert run.wait(120) == 0, run.log
    assert_same(mortal, tmp_path)


@pytest.mark.slow
def test_a_crawl_ends_without_a_database_and_the_next_run_delivers_what_waited(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """The next run reads twenty listings only, so the others come from the log; the removals, too."""
    site = stand_in(400)
    with crawl(site.url, tmp_path, settings=BATCHES, env=mortal.env) as run:
        assert run.wait(60) == 0, run.log
    gone = set(site.ids()[100:105])
    site.churn(remove=sorted(gone), add=50)
    mortal.postgres.kill()
    with crawl(site.url, tmp_path, settings=IMPATIENT, env=mortal.env) as run:
        assert run.wait(90) == 1, run.log
    found = run.run_json()
    assert found["undelivered"].keys() == {"PostgreSQL"}
    assert found["undelivered"]["PostgreSQL"] >= 445
    assert "records wait on disk for PostgreSQL" in found["reasons"][0]
    assert set(run.cars()) == set(site.ids())
    assert set(mortal.documents()) == set(site.ids()) | gone, "the other database has it all"
    records = kept(tmp_path)

    mortal.postgres.start()
    with crawl(site.url, tmp_path, "-a", "limit=20", settings=BATCHES, env=mortal.env) as run:
        assert run.wait(60) == 0, run.log
    assert "wait for PostgreSQL" in run.log
    stored = mortal.records()
    assert set(stored) == set(records) | gone
    assert all(stored[key]["car_attrs"] == record["car_attrs"] for key, record in records.items())
    assert mortal.removed() == (gone, gone)
    assert waiting_bytes(tmp_path) == 0


def test_one_that_is_too_far_behind_slows_the_crawl_down_and_loses_nothing(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    bound = 400_000  # a hundred records; two hundred are in memory, and some hundreds being scraped
    site = stand_in(4000)
    mortal.mongo.kill()
    settings = {**BATCHES, "CARS_BACKLOG_MAX_BYTES": bound, "CARS_STORE_TIMEOUT": 60}
    with crawl(site.url, tmp_path, settings=settings, env=mortal.env) as run:
        wait_until(lambda: "wait on disk for MongoDB; the crawl waits" in run.log, 60)
        wait_until(lambda: is_waiting(run, site, tmp_path), 60, what="the crawl waits")
        assert committed(tmp_path) < 4000
        mortal.mongo.start()
        assert run.wait(120) == 0, run.log
    assert_same(mortal, tmp_path)


def test_a_crawl_that_waits_for_a_database_can_be_stopped_and_goes_on(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(1000)
    mortal.mongo.kill()
    settings = {**BATCHES, "CARS_BACKLOG_MAX_BYTES": 400_000}
    options = {"jobdir": tmp_path / "job", "env": mortal.env}
    with crawl(site.url, tmp_path / "out", settings=settings, **options) as run:
        wait_until(lambda: "wait on disk for MongoDB; the crawl waits" in run.log, 60)
        wait_until(lambda: is_waiting(run, site, tmp_path / "out"), 60, what="the crawl waits")
        run.send(signal.SIGTERM)
        assert run.wait(30) == 1, run.log
    mortal.mongo.start()
    with crawl(site.url, tmp_path / "out", settings=settings, **options) as run:
        assert run.wait(90) == 0, run.log
    assert "Going on with crawl" in run.log
    assert_same(mortal, tmp_path / "out")


def is_waiting(run: Crawl, site: StandIn, out: Path) -> bool:
    """True when nothing was asked for or committed while half a second went by."""
    before = site.counts()["requests"], committed(out)
    time.sleep(0.5)
    assert run.running, run.log
    return (site.counts()["requests"], committed(out)) == before


@pytest.mark.slow
def test_connections_that_are_cut_after_the_commit_change_nothing(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Again and again, in the middle of an answer, so that the crawl cannot know what was written.

    The site takes its time for as long as that goes on.
    """
    site = stand_in(LISTINGS, rules=[{"fault": "delay", "seconds": 1}])

    async def run_it() -> None:
        async with TcpProxy(databases.mongo.port) as mongo, TcpProxy(databases.postgres.port) as postgres:
            env = {
                "MONGO_URI": databases.mongo.uri(databases.name, port=mongo.port),
                "POSTGRES_DSN": databases.postgres.dsn(databases.name, port=postgres.port),
            }
            with crawl(site.url, tmp_path, settings=BATCHES, env=env) as run:
                dice = random.Random(3)
                await asyncio.to_thread(wait_until, lambda: site.counts()["specs"] >= 10, 60)
                rounds = 0
                while rounds < 100 or (min(mongo.cuts, postgres.cuts) < 5 and run.running):
                    rounds += 1
                    await asyncio.sleep(0.05)
                    for proxy in (mongo, postgres):
                        proxy.drop_next_answer(after=dice.choice([0, 10, 60]))
                mongo.heal()
                postgres.heal()
                await asyncio.to_thread(site.faults, [])
                cuts.extend((mongo.cuts, postgres.cuts))
                assert await asyncio.to_thread(run.wait, 120) == 0, run.log
                logs.append(run.log)

    logs: list[str] = []
    cuts: list[int] = []
    asyncio.run(run_it())
    assert min(cuts) >= 5, logs[0]
    assert_same(databases, tmp_path)
    assert all(len(document["prices"]) <= 1 for document in databases.documents().values())


def test_a_slow_database_does_not_hold_up_the_others(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Two seconds for each batch, in three answers: JSON and PostgreSQL are done long before MongoDB is."""
    site = stand_in(600, latency=0.05)

    async def run_it() -> None:
        async with TcpProxy(databases.mongo.port) as proxy:
            env = {**databases.env, "MONGO_URI": databases.mongo.uri(databases.name, port=proxy.port)}
            settings = {**BATCHES, "CARS_BATCH_SIZE": 100}
            with crawl(site.url, tmp_path, settings=settings, env=env) as run:
                await asyncio.to_thread(wait_until, lambda: "Spider opened" in run.log, 60)
                proxy.delay = 0.7
                await asyncio.to_thread(wait_until, lambda: databases.counts()[1] == 600, 60)
                assert committed(tmp_path) >= 600
                assert databases.counts()[0] < 600
                assert await asyncio.to_thread(run.wait, 120) == 0, run.log

    asyncio.run(run_it())
    assert_same(databases, tmp_path)
