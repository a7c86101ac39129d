"""What happens to Redis in the middle of a crawl costs time, but no listing."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.crash.stores import SharedRedis
from tests.crawling import Crawl, crawl, torn_files, wait_until
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.tcp_proxy import TcpProxy

SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 25,
    "CONCURRENT_REQUESTS": 8,
    "DURABLE_LEASE_SECONDS": 5,
    "ADDONS": '{"tests.crash.lag.LagAddon": 0}',
}

SLOWLY = {"match": "/specs/", "fault": "delay", "after": 20}
"""So that no crawl comes to its end before it has met the fault that is meant for its middle."""

NO_ANSWER = "The frontier does not answer"


@pytest.fixture
def site() -> Iterator[StandIn]:
    with StandIn(600, latency=0.1, rules=[SLOWLY]) as running:
        yield running


def wait_for_the_middle(site: StandIn) -> None:
    wait_until(lambda: site.counts()["specs"] >= 20, 30, what="the crawl is in the middle")


def assert_complete(run: Crawl, site: StandIn) -> None:
    """In the end, the site being quick again."""
    site.faults([])
    assert run.wait(90) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert run.run_json()["complete"]
    assert torn_files(run.output_dir) == []


BLOCKED = 2.0
"""Seconds: a call that blocks lasts for the client's time-out of five. A machine with more to do than it has cores
makes the event loop wait for some tenths of one, and the clock's thread less.
"""


def longest_lag(run: Crawl) -> float:
    """In seconds."""
    return max(int(lag) for lag in re.findall(r"lag (\d+) ms", run.log)) / 1000


def test_answers_lost_after_execution_do_nothing_twice(
    shared: SharedRedis, site: StandIn, tmp_path: Path
) -> None:
    chance = random.Random(1)

    async def crawl_through_a_bad_line() -> int:
        cuts = 0
        async with TcpProxy(shared.server.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0"
            with crawl(site.url, tmp_path, settings=SETTINGS, redis_url=url) as run:
                await asyncio.to_thread(wait_until, lambda: site.counts()["requests"] >= 2, 30)
                while run.running and cuts < 40:
                    proxy.drop_next_answer(chance.choice((0, 1, 100)))
                    cuts += 1
                    await asyncio.sleep(0.1)
                proxy.heal()
                await asyncio.to_thread(assert_complete, run, site)
        return cuts

    assert asyncio.run(crawl_through_a_bad_line()) > 10
    assert shared.status().total.leased == 0


def test_a_redis_with_an_append_only_file_may_be_killed(site: StandIn, tmp_path: Path) -> None:
    with (
        RedisServer(appendonly=True) as server,
        crawl(site.url, tmp_path, settings=SETTINGS, redis_url=server.url) as run,
    ):
        for _ in range(2):
            asked, said = site.counts()["requests"], run.log.count(NO_ANSWER)
            wait_until(lambda asked=asked: site.counts()["requests"] >= asked + 20, 30)
            server.kill()
            wait_until(lambda said=said: run.log.count(NO_ANSWER) > said, what="the crawl has noticed")
            server.start()
        assert_complete(run, site)


@pytest.mark.slow
def test_a_frozen_redis_is_waited_for_without_blocking(
    shared: SharedRedis, site: StandIn, tmp_path: Path
) -> None:
    with crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as run:
        wait_for_the_middle(site)
        os.kill(shared.server.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: NO_ANSWER in run.log, 20)
        finally:
            os.kill(shared.server.pid, signal.SIGCONT)
        assert_complete(run, site)
    assert longest_lag(run) < BLOCKED


@pytest.mark.slow
def test_a_worker_of_a_redis_that_is_paused_ends_when_told_to_and_does_not_wait_for_it(
    site: StandIn, tmp_path: Path
) -> None:
    """It answers again only once the worker has ended."""
    with RedisServer() as server:
        with crawl(site.url, tmp_path, settings=SETTINGS, redis_url=server.url) as run:
            wait_for_the_middle(site)
            os.kill(server.pid, signal.SIGSTOP)
            try:
                wait_until(lambda: NO_ANSWER in run.log, 60)
                run.send(signal.SIGTERM)
                assert run.wait(120) != 0
            finally:
                os.kill(server.pid, signal.SIGCONT)
        wait_until(lambda: answers(server), 30, what="Redis is back")
        with crawl(site.url, tmp_path, settings=SETTINGS, redis_url=server.url) as again:
            assert_complete(again, site)


def answers(server: RedisServer) -> bool:
    try:
        with server.client() as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def test_a_full_redis_is_waited_for(shared: SharedRedis, site: StandIn, tmp_path: Path) -> None:
    with (
        shared.server.client() as client,
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as run,
    ):
        wait_until(lambda: site.counts()["pages"] >= 5, 30, what="the crawl is in the middle")
        try:
            client.config_set("maxmemory", "1mb")
            wait_until(lambda: "is full" in run.log, 20, what="the worker has noticed")
            time.sleep(0.5)
        finally:
            client.config_set("maxmemory", "0")
        assert_complete(run, site)


def test_scripts_may_be_flushed_at_any_time(shared: SharedRedis, site: StandIn, tmp_path: Path) -> None:
    flushes = 0
    with (
        shared.server.client() as client,
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as run,
    ):
        wait_until(lambda: site.counts()["requests"] >= 2, 30)
        while run.running:
            client.script_flush()
            flushes += 1
            if flushes == 25:
                site.faults([])
            time.sleep(0.02)
        assert_complete(run, site)
    assert flushes > 20


def test_a_crawl_whose_redis_lost_its_data_fails_and_the_next_completes(
    shared: SharedRedis, site: StandIn, tmp_path: Path
) -> None:
    with (
        shared.server.client() as client,
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as run,
    ):
        wait_for_the_middle(site)
        client.flushall()
        assert run.wait(30) != 0, run.log
    assert "frontier_lost" in run.log
    assert not (tmp_path / "cars.json").exists()
    with crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as again:
        assert_complete(again, site)
    assert shared.status().total.leased == 0
