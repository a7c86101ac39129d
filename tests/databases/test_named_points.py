"""A worker that dies between fetch and acknowledgement, with databases: nothing is missing there, nothing is twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.crash.stores import JobDir
from tests.crash.worker import KILLED
from tests.crawling import crawl, wait_until
from tests.databases.looking import Databases, assert_same
from tests.standin import ROOT, SPEC_PATH, StandIn

SMALL_STEPS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 25,
    "CARS_BATCH_SECONDS": 0.05,
    "CONCURRENT_REQUESTS": 8,
    "DURABLE_LEASE_SECONDS": 0.5,
}
IMPATIENT = {**SMALL_STEPS, "CARS_STORE_TIMEOUT": 1}
"""For crawls with a server that is down, and that no records have to reach."""
POINTS = [
    ("before flush", 2),
    ("after flush", 2),
    ("before upsert-mongo", 1),
    ("after upsert-mongo", 1),
    ("before upsert-mongo", 3),
    ("after upsert-mongo", 3),
    ("before upsert-postgres", 1),
    ("after upsert-postgres", 1),
    ("before upsert-postgres", 3),
    ("after upsert-postgres", 3),
    ("before acks", 2),
    ("after acks", 2),
    ("before position", 2),
    ("after position", 2),
    ("before mark-removed", 1),
    ("after mark-removed", 1),
    ("after archive-ended", 1),
    ("after verdict", 1),
]
WITHOUT_A_SERVER = [("before leave", 2), ("after leave", 2), ("after leave", 4), ("after position", 1)]


@pytest.fixture(scope="module")
def site() -> Iterator[StandIn]:
    with StandIn(160) as running:
        yield running


def crash(
    site: StandIn,
    tmp_path: Path,
    env: dict[str, str],
    point: str,
    passing: int,
    settings: Mapping[str, object] = SMALL_STEPS,
) -> None:
    crashing = {"CRASH_POINT": point, "CRASH_AT": str(passing), "PYTHONPATH": str(ROOT)}
    runner = (sys.executable, "-m", "tests.crash.worker")
    options = {"settings": settings, "jobdir": tmp_path / "job", "runner": runner}
    with crawl(site.url, tmp_path / "out", env={**env, **crashing}, **options) as run:
        assert run.wait(60) == KILLED, f"never came to {point}, passing {passing}:\n{run.log}"


def go_on(site: StandIn, tmp_path: Path, databases: Databases) -> None:
    options = {"settings": SMALL_STEPS, "jobdir": tmp_path / "job"}
    with crawl(site.url, tmp_path / "out", env=databases.env, **options) as run:
        assert run.wait(60) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert_same(databases, tmp_path / "out")
    assert all(len(document["prices"]) <= 1 for document in databases.documents().values())
    assert databases.removed() == (set(), set())


@pytest.mark.parametrize(("point", "passing"), POINTS)
def test_nothing_is_lost_by_dying(
    point: str, passing: int, databases: Databases, site: StandIn, tmp_path: Path
) -> None:
    crash(site, tmp_path, databases.env, point, passing)
    go_on(site, tmp_path, databases)


@pytest.mark.parametrize(("point", "passing"), WITHOUT_A_SERVER)
def test_nothing_is_lost_by_dying_while_records_go_to_disk(
    point: str, passing: int, databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """First nobody is at the address; then the server is there, so that what waits belongs to it."""
    site = stand_in(160, latency=0.1)  # so that there are several passings, a tenth of a second apart
    env = {**databases.env, "MONGO_URI": databases.mongo.uri(databases.name)}
    databases.mongo.kill()
    try:
        crash(site, tmp_path, env, point, passing, IMPATIENT)
    finally:
        databases.mongo.start()
    go_on(site, tmp_path, databases)


@pytest.mark.parametrize("point", ["before adopted-delivered", "after adopted-delivered"])
def test_nothing_is_lost_by_dying_while_records_come_back_from_disk(
    point: str, databases: Databases, site: StandIn, tmp_path: Path
) -> None:
    databases.mongo.kill()
    options = {"settings": IMPATIENT, "jobdir": tmp_path / "job"}
    try:
        with crawl(site.url, tmp_path / "out", env=databases.env, **options) as run:
            assert run.wait(60) == 1, run.log
    finally:
        databases.mongo.start()
    crash(site, tmp_path, databases.env, point, 2)
    go_on(site, tmp_path, databases)


def test_a_position_ahead_of_what_the_database_has_is_caught(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """One kill is enough: records are missing in the databases afterwards, so the tests above can fail.

    The databases are down, so that records are left to the log, behind a position that says that they are delivered.
    The site falls silent in the middle of the crawl, which is killed once all is acknowledged that it had until then.
    """
    site = stand_in(500, rules=[{"match": SPEC_PATH, "fault": "hang", "after": 50}])
    options = {"settings": {**SMALL_STEPS, "CARS_BATCH_SIZE": 500}, "jobdir": tmp_path / "job"}
    env = {**mortal.env, "MUTANT": "position_ahead", "PYTHONPATH": str(ROOT)}
    runner = (sys.executable, "-m", "tests.crash.mutants")
    mortal.mongo.kill()
    mortal.postgres.kill()
    with crawl(
        site.url,
        tmp_path / "out",
        env=env,
        runner=runner,
        **options,
    ) as run:
        wait_until(lambda: site.counts()["specs"] > 50 or not run.running, 60, what="its middle")
        wait_until(lambda: all_acknowledged(site, tmp_path / "job"), 60, what="the acknowledgement")
        assert run.running, run.log
    site.faults([])
    mortal.mongo.start()
    mortal.postgres.start()
    with crawl(site.url, tmp_path / "out", env=mortal.env, **options) as run:
        assert run.wait(60) == 0, run.log
    assert "Going on with crawl" in run.log
    assert set(mortal.documents()) < set(site.ids())
    assert set(mortal.rows()) < set(site.ids())


def all_acknowledged(site: StandIn, jobdir: Path) -> bool:
    """Whether that holds for every page that was asked for, and as many specifications as were answered."""
    done = {name: counts.done for name, counts in JobDir(jobdir).status().callbacks.items()}
    return done["parse_page"] == site.counts()["pages"] and done["parse_spec"] >= 50
