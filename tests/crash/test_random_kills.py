"""Whatever moment a worker is killed at, the next one loses nothing: counted from outside, by listing id.

`CRASH_SEEDS` says with how many seeds (3 unless it is set); `make test-crash` runs twenty.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.stores import Store
from tests.crawling import Crawl, crawl, torn_files, wait_until
from tests.standin import StandIn

SEEDS = int(os.environ.get("CRASH_SEEDS", "3"))
KILLS = 5
SMALL_STEPS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 25,
    "CONCURRENT_REQUESTS": 12,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DURABLE_LEASE_SECONDS": 1,
}
"""So that a kill finds requests queued, in flight, in the parser, in a batch, and finished but not acknowledged."""

SURE_HITS = 3
"""Kills of crawls that cannot have ended before; those after them may come too late."""


def kill_at_random(run: Crawl, site: StandIn, chance: random.Random) -> bool:
    """Kill a crawl at any time of its life; False when it had ended before."""
    if chance.random() < 0.15:
        time.sleep(chance.uniform(0.0, 0.4))  # while it starts
    else:
        asked_before = site.counts()["requests"]
        wait_until(lambda: site.counts()["requests"] > asked_before or not run.running)
        time.sleep(chance.uniform(0.0, 0.8))
    ended = not run.running
    run.kill()
    return not ended


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_five_kills_at_random_moments_lose_nothing_and_repeat_nothing(
    seed: int, store: Store, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    chance = random.Random(seed)
    site = stand_in(500, seed=seed + 1, latency=0.1)
    out = tmp_path / "out"
    hit = 0
    for kill in range(KILLS):
        share = {"match": "/specs/", "fault": "hang", "after": chance.randint(5, 25)}
        site.faults([share] if kill < SURE_HITS else [])
        with crawl(site.url, out, settings=SMALL_STEPS, **store.options) as run:
            hit += kill_at_random(run, site, chance)
        assert torn_files(out) == []
    with crawl(site.url, out, settings=SMALL_STEPS, **store.options) as run:
        assert run.wait(60) == 0, run.log
    assert hit >= SURE_HITS, "the kills came too late to test anything"
    assert sorted(run.cars()) == sorted(site.ids()), run.log
    assert run.run_json()["complete"]
    assert torn_files(out) == []
    assert store.status().total.leased == 0
