"""A worker that stands still past its lease, while another goes on, does no harm when it wakes up."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.stores import SharedRedis
from tests.crawling import crawl, torn_files, wait_until
from tests.standin import StandIn

SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 25,
    "DURABLE_LEASE_SECONDS": 6,  # so that the leases of a worker that is only slow do not expire
    "CONCURRENT_REQUESTS": 8,
}
SLOWLY = [{"match": "/specs/", "fault": "delay", "seconds": 1}]


@pytest.mark.slow
def test_what_a_worker_says_after_its_lease_is_refused_and_counted(
    shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """The other one has taken its requests over by then, so that each listing is there once."""

    def leased(pid: int) -> int:
        return sum(worker.leased for worker in shared.status().workers if f"-{pid}-" in worker.worker)

    site = stand_in(1000, latency=0.02, rules=SLOWLY)
    with (
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as sleeper,
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as other,
    ):
        wait_until(lambda: leased(sleeper.pid) and leased(other.pid), 60, what="both hold leases")
        sleeper.send(signal.SIGSTOP)
        wait_until(lambda: leased(sleeper.pid) == 0, 10, what="its leases have expired")
        sleeper.send(signal.SIGCONT)
        wait_until(lambda: shared.status().stale_messages > 0, 10, what="its messages are refused")
        site.faults([])
        assert sleeper.wait(60) == 0, sleeper.log
        assert other.wait(60) == 0, other.log
    assert re.search(r"'frontier/stale': [1-9]", sleeper.log)
    assert "'frontier/stale'" not in other.log
    assert sorted(other.cars()) == sorted(site.ids())
    assert other.run_json()["complete"]
    assert torn_files(tmp_path) == []


@pytest.mark.slow
def test_a_worker_that_sleeps_through_the_end_of_the_crawl_ends_well_when_it_wakes_up(
    shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(400, latency=0.02, rules=SLOWLY)
    with (
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as sleeper,
        crawl(site.url, tmp_path, settings=SETTINGS, **shared.options) as other,
    ):
        wait_until(
            lambda: len([w for w in shared.status().workers if w.leased]) == 2, 60, what="both hold leases"
        )
        sleeper.send(signal.SIGSTOP)
        site.faults([])
        assert other.wait(60) == 0, other.log
        cars = (tmp_path / "cars.json").read_bytes()
        sleeper.send(signal.SIGCONT)
        assert sleeper.wait(60) == 0, sleeper.log
    assert (tmp_path / "cars.json").read_bytes() == cars
    assert sorted(other.cars()) == sorted(site.ids())
    assert torn_files(tmp_path) == []
