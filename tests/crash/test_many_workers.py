"""Several workers on one Redis share one crawl: nothing is done twice, and one that dies is taken over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.stores import SharedRedis
from tests.crawling import crawl, torn_files, wait_until
from tests.standin import StandIn

LEASE = 2
SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 25,
    "DURABLE_LEASE_SECONDS": LEASE,
    "CONCURRENT_REQUESTS": 4,
}
SLOWLY = [{"fault": "delay", "seconds": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4, 8])
def test_workers_share_a_crawl_and_take_over_from_the_one_that_is_killed(
    number: int, shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    def holding() -> set[str]:
        return {worker.worker for worker in shared.status().workers if worker.leased}

    site = stand_in(2000, latency=0.02, rules=SLOWLY)
    with ExitStack() as running:
        start = [
            running.enter_context(crawl(site.url, tmp_path, settings=SETTINGS, **shared.options))
            for _ in range(number)
        ]
        wait_until(lambda: len(holding()) == number, 60, what="every worker holds a lease")
        killed, *others = start
        killed.kill()
        site.faults([])
        wait_until(
            lambda: not any(f"-{killed.pid}-" in worker for worker in holding()),
            LEASE + 3,
            what="the leases of the killed worker are taken over",
        )
        for run in others:
            assert run.wait(60) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert run.run_json()["complete"]
    assert torn_files(tmp_path) == []
    assert shared.status().total.leased == 0


@pytest.mark.slow
def test_workers_ask_for_each_spec_once_but_for_one_in_a_hundred(
    shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Whoever asks claims the key, so that the others wait; 64 requests want to be under way at once."""
    site = stand_in(4000, latency=0.01, rules=SLOWLY)
    settings = {**SETTINGS, "CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 64}
    with ExitStack() as running:
        workers = [
            running.enter_context(crawl(site.url, tmp_path, settings=settings, **shared.options))
            for _ in range(4)
        ]
        wait_until(lambda: site.counts()["under_way"] >= 4, 60, what="the site is asked from all sides")
        site.faults([])
        for run in workers:
            assert run.wait(60) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert len(site.keys()) <= len(site.specs()) <= len(site.keys()) * 1.01
