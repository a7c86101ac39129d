"""A worker that is told to stop ends soon, gives its leases back, and the next one goes on at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.stores import Store
from tests.crawling import Crawl, crawl, wait_until
from tests.standin import StandIn

SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CONCURRENT_REQUESTS": 12,
    "DURABLE_LEASE_SECONDS": 60,  # whoever has to wait for a lease to expire fails the test
}


SLOWLY = {"match": "/specs/", "fault": "delay", "after": 12}
"""So that whoever is told to stop in the middle cannot have come to its end before."""


def terminate(run: Crawl) -> None:
    run.send(signal.SIGTERM)


def interrupt_twice(run: Crawl) -> None:
    run.send(signal.SIGINT)
    wait_until(lambda: "Received SIGINT" in run.log or not run.running, 5)
    run.send(signal.SIGINT)


@pytest.mark.parametrize("stop", [terminate, interrupt_twice])
@pytest.mark.parametrize("answers", ["soon", "never"])
def test_a_stopped_crawl_gives_its_leases_back_and_the_next_goes_on_at_once(
    stop: Callable[[Crawl], None],
    answers: str,
    store: Store,
    stand_in: Callable[..., StandIn],
    tmp_path: Path,
) -> None:
    rule = SLOWLY if answers == "soon" else {"match": "/specs/", "fault": "hang"}
    site = stand_in(400, latency=0.1, rules=[rule])
    with crawl(site.url, tmp_path / "out", settings=SETTINGS, **store.options) as run:
        wait_until(lambda: site.counts()["specs"] >= 12)
        stop(run)
        assert run.wait(30) != 0, "a crawl that was stopped is not complete"
    status = store.status()
    assert status.total.leased == 0, run.log
    assert status.total.queued > 0
    site.faults([])
    with crawl(site.url, tmp_path / "out", settings=SETTINGS, **store.options) as run:
        assert run.wait(20) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())


def test_one_that_is_told_to_before_it_has_begun_says_so_and_loses_nothing(
    store: Store, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(40)
    early = {"ADDONS": '{"tests.crash.early_stop.EarlyStopAddon": 0}'}
    with crawl(site.url, tmp_path / "out", settings=early, **store.options) as run:
        assert run.wait(30) == 1, run.log
    assert "run the same command again" in run.log
    with crawl(site.url, tmp_path / "out", **store.options) as run:
        assert run.wait(45) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
