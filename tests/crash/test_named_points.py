"""A worker that dies at a named point of its way loses nothing and repeats nothing, on either kind of store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.stores import Store
from tests.crash.worker import KILLED
from tests.crawling import crawl, torn_files
from tests.standin import ROOT, StandIn

RUNNER = (sys.executable, "-m", "tests.crash.worker")
SMALL_STEPS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 25,
    "CARS_BATCH_SECONDS": 0.05,
    "CONCURRENT_REQUESTS": 8,
    "DURABLE_LEASE_SECONDS": 0.5,
    "LOG_LEVEL": "DEBUG",
}

# The point, and at which passing. Fsyncs and renames come in a fixed order: of `crawl.json` first, then of item logs.
POINTS = [
    ("before begin", 1),
    ("after begin", 1),
    ("before lease", 3),
    ("after lease", 3),
    ("before entries", 1),
    ("after entries", 1),
    ("before entries", 2),
    ("after entries", 2),
    ("after downloaded", 2),
    ("before acks", 1),
    ("after acks", 1),
    ("before acks", 2),
    ("after acks", 2),
    ("before response", 5),
    ("after response", 5),
    ("before fsync", 3),
    ("after fsync", 3),
    ("after fsync", 4),
    ("before rename", 3),
    ("after rename", 3),
    ("before flush", 1),
    ("after flush", 1),
    ("after flush", 4),
    ("before fdatasync", 1),
    ("after fdatasync", 1),
    ("after fdatasync", 2),
]
END = [
    "before claim",
    "after claim",
    "after ledger-read",
    "before changes-prepared",
    "after changes-prepared",
    "before cars.json",
    "after cars.json",
    "before changes-appended",
    "after changes-appended",
    "after run.json",
    "after archive-ended",
    "before verdict",
    "after verdict",
    "before forget",
    "after forget",
]
"""The steps of the end, in their order; a crawl that died at one passes it again when it goes on."""
WHILE_FORGETTING = [
    ("before forget-keys", 1),
    ("amid forget-keys", 1),
    ("amid forget-keys", 2),
    ("amid forget-keys", -1),
    ("after forget-keys", 1),
]
"""Amid: after the mark, after some of the keys, before the end."""


@pytest.fixture(scope="module")
def site() -> Iterator[StandIn]:
    with StandIn(160) as running:
        yield running


def crash(store: Store, site: StandIn, out: Path, point: str, passing: int) -> None:
    env = {"CRASH_POINT": point, "CRASH_AT": str(passing), "PYTHONPATH": str(ROOT)}
    with crawl(site.url, out, settings=SMALL_STEPS, env=env, runner=RUNNER, **store.options) as run:
        assert run.wait(30) == KILLED, f"never came to {point}, passing {passing}:\n{run.log}"
    assert torn_files(out) == []


def go_on(store: Store, site: StandIn, out: Path) -> None:
    with crawl(site.url, out, settings=SMALL_STEPS, **store.options) as run:
        assert run.wait(30) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids()), run.log
    assert torn_files(out) == []
    assert store.status().total.leased == 0


@pytest.mark.parametrize(("point", "passing"), POINTS)
def test_nothing_is_lost_by_dying(
    point: str, passing: int, store: Store, site: StandIn, tmp_path: Path
) -> None:
    crash(store, site, tmp_path / "out", point, passing)
    go_on(store, site, tmp_path / "out")


@pytest.mark.slow
def test_nothing_is_lost_by_dying_at_every_step_of_the_end_in_turn(
    store: Store, site: StandIn, tmp_path: Path
) -> None:
    for point in END:
        crash(store, site, tmp_path / "out", point, 1)
    go_on(store, site, tmp_path / "out")


@pytest.mark.parametrize(("point", "passing"), WHILE_FORGETTING)
def test_a_crawl_half_forgotten_by_redis_does_not_spoil_the_next(
    point: str, passing: int, shared: Store, site: StandIn, tmp_path: Path
) -> None:
    crash(shared, site, tmp_path / "out", point, passing)
    go_on(shared, site, tmp_path / "out")
