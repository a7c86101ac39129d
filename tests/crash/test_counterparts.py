"""The same kills on others: what loses listings is caught losing them, so the other tests here mean something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.stores import SharedRedis, Store
from tests.crawling import Crawl, crawl, wait_until
from tests.standin import ROOT, SPEC_PATH, StandIn

KILLS = 3
ON_THE_WIRE = 8
"""Requests that wait for an answer at the moment of a kill, at least."""
MORE_SPECS = 20
PAGES = 500 // 20
AT_ONCE = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}


def kill_with_requests_on_the_wire(
    start: Callable[[], Crawl | subprocess.Popen[bytes]], site: StandIn
) -> None:
    """Start one that is answered some more specs, and no other; then wait until the site has noticed."""
    specs = site.counts()["specs"]
    site.faults([{"match": SPEC_PATH, "fault": "hang", "after": MORE_SPECS}])
    run = start()
    asked = specs + MORE_SPECS + ON_THE_WIRE
    wait_until(lambda: site.counts()["specs"] >= asked, 30, what="requests are in flight")
    run.kill()
    run.wait(10)
    wait_until(lambda: site.counts()["under_way"] == 0)
    site.faults([])


def stock(site: StandIn, redis_url: str, directory: Path) -> subprocess.Popen[bytes]:
    """Stock Scrapy with stock scrapy-redis, set to persist, that hands each record to Redis at once."""
    settings = {
        **AT_ONCE,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
        "REDIS_URL": redis_url,
        "ITEM_PIPELINES": '{"scrapy_redis.pipelines.RedisPipeline": 1}',
    }
    command = [sys.executable, "-m", "scrapy", "runspider", ROOT / "benchmarks" / "stock" / "listings.py"]
    command += ["-a", f"base_url={site.url}", "-a", "page_size=20"]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    with (directory / "stock.log").open("ab") as log:
        return subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)


def kept_by_stock(shared: SharedRedis) -> set[str]:
    """The ids of its records."""
    with shared.server.client() as client:
        return {json.loads(item)["id"] for item in client.lrange("listings:items", 0, -1)}


@pytest.mark.slow
def test_scrapy_redis_loses_what_was_on_the_wire_and_calls_it_a_success(
    shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(500, latency=0.2)
    for _ in range(KILLS):
        kill_with_requests_on_the_wire(lambda: stock(site, shared.server.url, tmp_path), site)
    run = stock(site, shared.server.url, tmp_path)
    assert run.wait(60) == 0
    missing = set(site.ids()) - kept_by_stock(shared)
    assert KILLS * ON_THE_WIRE / 2 <= len(missing) < 500, (tmp_path / "stock.log").read_text()


def test_scrapy_redis_keeps_everything_when_it_is_left_alone(
    shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """So what is missing after the kills is missing because of them."""
    site = stand_in(500)
    assert stock(site, shared.server.url, tmp_path).wait(60) == 0
    assert kept_by_stock(shared) == set(site.ids()), (tmp_path / "stock.log").read_text()


@pytest.mark.slow
def test_the_same_kills_cost_this_crawl_nothing(
    shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(1500, latency=0.2)
    settings = {**AT_ONCE, "CARS_PAGE_SIZE": 20, "DURABLE_LEASE_SECONDS": 1}
    for _ in range(KILLS):
        kill_with_requests_on_the_wire(
            lambda: crawl(site.url, tmp_path, settings=settings, **shared.options), site
        )
    with crawl(site.url, tmp_path, settings=settings, **shared.options) as run:
        assert run.wait(60) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())


@pytest.mark.parametrize("mutant", ["acknowledge_when_leased", "acknowledge_before_durable"])
def test_a_scheduler_that_acknowledges_too_soon_is_caught(
    mutant: str, store: Store, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """One kill is enough: listings are missing afterwards, and the exit status says so.

    The disk takes nothing, so that what has been acknowledged by then has been so too soon.
    """
    site = stand_in(500, latency=0.1, rules=[{"match": SPEC_PATH, "fault": "hang", "after": 50}])
    settings = {**AT_ONCE, "CARS_PAGE_SIZE": 20, "DURABLE_LEASE_SECONDS": 1}
    env = {**os.environ, "MUTANT": mutant, "DISK": "stuck"}
    runner = (sys.executable, "-m", "tests.crash.mutants")
    out = tmp_path / "out"
    with crawl(site.url, out, settings=settings, env=env, runner=runner, **store.options):
        wait_until(lambda: site.counts()["specs"] >= 50, 30, what="the crawl is in the middle")
        wait_until(lambda: store.status().total.done > PAGES, 30, what="specs are acknowledged")
    site.faults([])
    with crawl(site.url, out, settings=settings, **store.options) as run:
        assert run.wait(60) != 0, run.log
    assert set(run.cars()) < set(site.ids())
    assert not run.run_json()["complete"]
