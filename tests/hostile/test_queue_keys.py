"""Somebody deletes or replaces a key of the queue while a crawl waits: it ends, and says why."""

from __future__ import annotations

import pytest
import redis

from tests.crawling import wait_until
from tests.hostile.conftest import SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import SPEC_PATH, StandIn


@pytest.mark.parametrize(
    ("key", "put", "reason", "said"),
    [
        ("ready", None, "frontier_failed", "the keys of the crawl do not agree"),
        ("leases", None, "frontier_failed", "the keys of the crawl do not agree"),
        ("elements", None, "frontier_failed", "the keys of the crawl do not agree"),
        ("names", None, "frontier_failed", "the names of slots and callbacks are gone"),
        ("crawl", None, "frontier_lost", "is gone from"),
        ("ready", "a string", "frontier_failed", "the key {cars}:ready is a string, not a zset"),
    ],
)
def test_a_crawl_that_lost_a_key_ends_and_says_so(
    site: StandIn,
    start: Start,
    server: RedisServer,
    client: redis.Redis,
    key: str,
    put: str | None,
    reason: str,
    said: str,
) -> None:
    site.faults([{"match": SPEC_PATH, "fault": "delay", "seconds": 0.5}])
    slowly = {"CARS_PAGE_SIZE": 50, "CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
    run = start(redis_url=server.url, settings={**slowly, "DOWNLOAD_DELAY": 0})
    wait_until(lambda: len(site.specs()) > 4 or not run.running, SECONDS, what="a specification asked for")
    client.delete(f"{{cars}}:{key}")
    if put is not None:
        client.set(f"{{cars}}:{key}", put)
    assert run.wait(SECONDS) == 1, run.log
    assert f"({reason})" in run.log
    assert said in run.log
    assert run.run_json()["status"] == f"stopped: {reason}"
    assert not (run.output_dir / "cars.json").exists()
    assert "Traceback" not in run.log


@pytest.mark.parametrize("end", ["9007199254740991", "9e300", "x"])
def test_a_pause_that_never_ends_is_not_waited_for(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, end: str
) -> None:
    site.faults([{"match": SPEC_PATH, "fault": "delay", "seconds": 0.5}])
    slowly = {"CARS_PAGE_SIZE": 50, "CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
    run = start(redis_url=server.url, settings=slowly)
    wait_until(lambda: len(site.specs()) > 4 or not run.running, SECONDS, what="a specification asked for")
    client.hset("{cars}:paused", "1", end)
    assert run.wait(SECONDS) == 1, run.log
    assert "(frontier_failed)" in run.log
    assert "Traceback" not in run.log


def test_the_crawl_after_one_whose_name_was_deleted_begins_afresh(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    site.faults([{"match": SPEC_PATH, "fault": "delay", "seconds": 0.5}])
    run = start(redis_url=server.url, settings={"CARS_PAGE_SIZE": 50, "CONCURRENT_REQUESTS": 4})
    wait_until(lambda: len(site.specs()) > 4 or not run.running, SECONDS, what="a specification asked for")
    client.delete("{cars}:crawl")
    assert run.wait(SECONDS) == 1, run.log
    site.faults([])
    run = start(redis_url=server.url)
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())


def test_a_crawl_is_not_begun_on_keys_of_others(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    client.set("{cars}:tally", "mine")
    run = start(redis_url=server.url)
    assert run.wait(SECONDS) == 2, run.log
    assert "the key {cars}:tally is a string, not a hash" in run.log
    assert client.get("{cars}:tally") == b"mine"
    assert site.counts()["requests"] == 0
