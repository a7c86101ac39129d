"""`scrapy queue status` beside a real crawl: how fast it is, how long answers take, what it is configured to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import HANGS, crawl, wait_until
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn

SLOW = {"CARS_PAGE_SIZE": 20, "CONCURRENT_REQUESTS": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}


def queue(*arguments: str, place: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The command, on the queue at this place."""
    settings = [word for name, value in place.items() for word in ("-s", f"{name}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "scrapy", "queue", *arguments, *settings],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in ("JOBDIR", "REDIS_URL")},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )


@pytest.fixture(params=["JOBDIR", "REDIS_URL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where the queue is."""
    if request.param == "JOBDIR":
        yield {"JOBDIR": str(tmp_path / "job")}
        return
    with RedisServer() as server:
        yield {"REDIS_URL": server.url}


def test_a_crawl_shows_its_rates_and_what_it_is_told_to_do(place: dict[str, str], tmp_path: Path) -> None:
    with StandIn(listings=2000, latency=0.1) as site:
        found: dict[str, Any] = {}

        def is_seen_at_work() -> bool:
            done = queue("status", "--json", place=place)
            assert done.returncode == 0, done.stderr
            found.update(json.loads(done.stdout))
            rates = found["rates"]
            is_told = found["expected"] == 2000 and 0 < found["kept"] < 2000
            return bool(
                is_told and rates and rates["answers"] and found["seconds_left"] and found["in_flight"]
            )

        def is_told() -> bool:
            lines = queue("status", place=place).stdout.splitlines()
            return (
                re.match("(running|slow)(: .*)?; [0-9]+ of 2000 items; [0-9.]+ (s|min) left$", lines[1])
                is not None
                and re.search("[0-9.]+ answers, 0[.][0-9]+ s each on average", lines[2]) is not None
                and any(line.startswith("slot ") and "in flight of 2" in line for line in lines)
            )

        with crawl(site.url, tmp_path / "out", settings={**SLOW, **place}) as run:
            wait_until(is_seen_at_work, what="a crawl at work", every=0.2)
            assert run.running, run.log
            wait_until(is_told, what="lines about a crawl at work", every=0.2)
    assert found["state"] in ("running", "slow")
    assert found["rates"]["latency"] > 0.05
    assert found["rates"]["bytes"] > 0
    [host] = found["in_flight"].values()
    assert (host["in_flight"], host["cap"]) in [(1, 2), (2, 2)]
    [worker] = found["workers"]
    assert (worker["has_left"], worker["log_bytes"]) == (False, 0)
    assert found["configured"]["each site"] == "4 requests in flight, no interval, AutoThrottle", (
        "as it is set here"
    )


def test_answers_that_fail_are_counted(tmp_path: Path) -> None:
    place = {"JOBDIR": str(tmp_path / "job")}
    fault = {"match": "/specs/", "fault": "status", "status": 503}
    with StandIn(listings=300, latency=0.05, rules=[fault]) as site:
        settings = {**SLOW, "RETRY_TIMES": 999, "DURABLE_MAX_ATTEMPTS": 999, "DURABLE_RETRY_MAX_DELAY": 0.2}

        def failures() -> float:
            rates = json.loads(queue("status", "--json", place=place).stdout)["rates"]
            return float(rates["failed"]) if rates else 0.0

        with crawl(site.url, tmp_path / "out", settings={**settings, **place}):
            wait_until(lambda: failures() > 0, what="answers that have failed", every=0.2)


def test_where_there_is_no_crawl_it_says_so(place: dict[str, str]) -> None:
    done = queue("status", place=place)
    assert done.returncode == 0, done.stderr
    assert "nothing here: no crawl has begun here, or the last one has ended" in done.stdout
    assert json.loads(queue("status", "--json", place=place).stdout)["state"] == "nothing here"


def test_a_worker_that_has_nothing_to_say_is_heard_of_all_the_same(tmp_path: Path) -> None:
    """It has leases waiting, the site never answers those in flight, and leases hold for a day: nothing else has it
    say anything.
    """
    hangs = [{"match": "/specs/", "fault": "hang"}]
    with RedisServer() as server, StandIn(listings=200, rules=hangs) as site:
        place = {"REDIS_URL": server.url}
        heard: set[float] = set()

        def is_heard_again() -> bool:
            [worker] = json.loads(queue("status", "--json", place=place).stdout)["workers"]
            heard.add(worker["last_seen"])
            return len(heard) > 2

        settings = {**SLOW, **place, "DURABLE_LEASE_SECONDS": 86_400}
        with crawl(site.url, tmp_path / "out", settings=settings) as run:
            wait_until(lambda: site.counts()["specs"] == 2, what="that all places are taken")
            wait_until(is_heard_again, what="that it is heard of again and again", every=0.5)
            assert run.running, run.log
