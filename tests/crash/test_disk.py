"""A disk that is full or fails stops the crawl; when it is well again, the next run completes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.stores import JobDir, Store
from tests.crawling import crawl, torn_files
from tests.standin import StandIn

SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 100,
    "CARS_BATCH_SECONDS": 0.2,
    "CONCURRENT_REQUESTS": 8,
    "DURABLE_LEASE_SECONDS": 1,
}
FOR_EVER = 1_000_000


@pytest.fixture(scope="module")
def site() -> Iterator[StandIn]:
    with StandIn(400) as running:
        yield running


def complete(store: Store, site: StandIn, out: Path) -> None:
    with crawl(site.url, out, settings=SETTINGS, **store.options) as run:
        assert run.wait(60) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert torn_files(out) == []
    assert store.status().total.leased == 0


@pytest.mark.parametrize("kilobytes", [1, 40, 200, 800])
def test_a_full_disk_stops_the_crawl_and_loses_nothing(kilobytes: int, site: StandIn, tmp_path: Path) -> None:
    """No file may grow beyond that; from the first file on, the frontier's, to the last, `cars.json`."""
    store = JobDir(tmp_path / "job")
    full = ("bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "bash", sys.executable, "-m", "scrapy")
    with crawl(site.url, tmp_path / "out", settings=SETTINGS, runner=full, **store.options) as run:
        assert run.wait(30) != 0, run.log
    assert torn_files(tmp_path / "out") == []
    assert not (tmp_path / "out" / "cars.json").exists()
    complete(store, site, tmp_path / "out")


@pytest.mark.parametrize(
    ("call", "at", "times"),
    [
        ("fdatasync", 1, FOR_EVER),  # the first flush
        ("fdatasync", 2, 1),
        ("fdatasync", 3, FOR_EVER),
        ("fdatasync", 6, 1),
    ],
)
def test_a_flush_that_fails_is_not_acknowledged(
    call: str, at: int, times: int, store: Store, site: StandIn, tmp_path: Path
) -> None:
    env = {**os.environ, "FAILS": call, "FAILS_AT": str(at), "FAILS_TIMES": str(times)}
    runner = (sys.executable, "-m", "tests.crash.failing_disk")
    out = tmp_path / "out"
    with crawl(site.url, out, settings=SETTINGS, env=env, runner=runner, **store.options) as run:
        assert run.wait(30) != 0, run.log
    assert "Cannot write to" in run.log
    assert torn_files(out) == []
    assert not (out / "cars.json").exists()
    complete(store, site, out)
