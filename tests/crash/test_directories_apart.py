"""Workers of one crawl whose output directories lie apart: two machines that share nothing but the queue."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.crash.stores import SharedRedis
from tests.crash.worker import KILLED
from tests.crawling import HANGS, Crawl, crawl, wait_until
from tests.postgres_server import PostgresServer
from tests.standin import SPEC_PATH, StandIn

LISTINGS = 600
SECONDS = 120
SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 5,
    "CARS_BATCH_SECONDS": 0.05,
    "CONCURRENT_REQUESTS": 8,
    "DOWNLOAD_TIMEOUT": 3,
    "DURABLE_RETRY_BASE_DELAY": 0.05,
    "DURABLE_RETRY_MAX_DELAY": 1,
    "RETRY_TIMES": 500,  # nothing is given up, however long the site is held
    "DURABLE_MAX_ATTEMPTS": 1000,
}
HELD = [{"match": SPEC_PATH, "fault": "hang", "after": 15}]
"""So many more specifications are answered; each brings at least one record."""
ENOUGH = 10
"""Records that a worker has kept, and specifications that it has read, before the other starts."""


class Machines:
    """Workers of one crawl, each started in a directory that is told."""

    def __init__(self, site: StandIn, shared: SharedRedis, running: ExitStack) -> None:
        self.site = site
        self.shared = shared
        self._running = running
        self.lease = 60
        """Seconds; as long as here, nobody who stands still is taken for gone."""
        self.env: dict[str, str] = {}
        self.knows_specs = False
        """Whether a crawl before has stored them, so that none is asked for."""

    def start(self, out: Path, dies: str = "") -> Crawl:
        """One more, which may die at a named point."""
        settings = {**SETTINGS, "DURABLE_LEASE_SECONDS": self.lease}
        options: dict[str, Any] = {**self.shared.options, "settings": settings, "env": self.env}
        if dies:
            options |= {"runner": (sys.executable, "-m", "tests.crash.worker"), "env": {"CRASH_POINT": dies}}
        return self._running.enter_context(crawl(self.site.url, out, **options))

    def kept(self, run: Crawl) -> int:
        """How many records it has kept, as the frontier knows. Not all have to be acknowledged."""
        workers = self.shared.status().workers
        return sum(one.report.get("kept", 0) for one in workers if f"-{run.pid}-" in one.worker)

    def specs_done(self) -> int:
        """How many specifications are acknowledged: nobody keeps the records that they brought again."""
        callbacks = self.shared.status().callbacks
        return callbacks["parse_spec"].done if "parse_spec" in callbacks else 0

    def both_have_kept(self, first: Path, second: Path, second_dies: str = "") -> tuple[Crawl, Crawl]:
        """Two workers, each of which has kept records, while the site holds the rest back. The first stands still."""
        runs = self.keeps(first)
        runs.send(signal.SIGSTOP)
        return runs, self.keeps(second, second_dies)

    def keeps(self, out: Path, dies: str = "") -> Crawl:
        """One more, once it has kept records and acknowledged what they rest on, while the site holds the rest back.
        Answers that came too late for it are made up for.
        """
        self.site.faults(HELD)
        done = self.specs_done() + (0 if self.knows_specs else ENOUGH)
        run = self.start(out, dies)
        for look in range(50 * int(HANGS)):
            if self.kept(run) >= ENOUGH and self.specs_done() >= done:
                return run
            assert run.running, run.log
            if look % 500 == 499:
                self.site.faults(HELD)
            time.sleep(0.02)
        raise AssertionError(run.log)

    def joins(self, out: Path) -> Crawl:
        """One more, which is given nothing, and stands still once it has told that it has kept nothing."""
        self.shared.pause()
        run = self.start(out)
        for _ in range(50 * int(HANGS)):
            known = [one for one in self.shared.status().workers if f"-{run.pid}-" in one.worker]
            if known and "entries" in known[0].report:
                run.send(signal.SIGSTOP)
                assert not self.kept(run)
                self.shared.resume()
                return run
            assert run.running, run.log
            time.sleep(0.02)
        raise AssertionError(run.log)

    def have_published(self, runs: tuple[Crawl, Crawl]) -> None:
        """Together they have each listing once, and each says so."""
        found = [run.run_json() for run in runs]
        shares = [run.cars() for run in runs]
        assert all(shares), "each has a share"
        assert sorted([*shares[0], *shares[1]]) == sorted(self.site.ids())
        for run, said, share in zip(runs, found, shares, strict=True):
            assert said["complete"] == (run.process.returncode == 0)
            assert said["published"] == "cars.json"
            assert not (run.output_dir / "cars.incomplete.json").exists()
            assert (said["kept_here"], said["kept"]) == (len(share), LISTINGS)
            assert len(said["spread"]) >= 2
        assert found[0]["spread"] == found[1]["spread"]


@pytest.fixture
def machines(shared: SharedRedis, stand_in: Callable[..., StandIn]) -> Iterator[Machines]:
    with ExitStack() as running:
        yield Machines(stand_in(LISTINGS), shared, running)


def worker_of(run: Crawl, named: list[str]) -> str:
    """The worker of that process among these."""
    (worker,) = (name for name in named if f"-{run.pid}-" in name)
    return worker


@pytest.mark.slow
def test_workers_that_do_not_see_each_others_directories_publish_one_catalogue_in_shares(
    machines: Machines, tmp_path: Path
) -> None:
    runs = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
    runs[0].send(signal.SIGCONT)
    machines.site.faults([])
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    machines.have_published(runs)


@pytest.mark.slow
def test_a_worker_that_has_kept_nothing_in_a_directory_of_its_own_agrees_with_the_verdict(
    machines: Machines, tmp_path: Path
) -> None:
    machines.lease = 600
    works = machines.keeps(tmp_path / "a")
    idles = machines.joins(tmp_path / "b")
    machines.site.faults([])
    wait_until((works.output_dir / "cars.json").exists, SECONDS)
    idles.send(signal.SIGCONT)
    for run in (works, idles):
        assert run.wait(SECONDS) == 0, run.log
        assert run.run_json()["kept"] == LISTINGS
    assert sorted(works.cars()) == sorted(machines.site.ids())
    assert not idles.cars()


@pytest.mark.slow
def test_a_worker_that_is_killed_and_never_comes_back_is_named(machines: Machines, tmp_path: Path) -> None:
    machines.lease = 2
    killed, stays = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
    killed.kill()
    machines.site.faults([])
    assert stays.wait(SECONDS) == 1, stays.log
    found = stays.run_json()
    assert found["published"] == "cars.incomplete.json"
    assert not (stays.output_dir / "cars.json").exists()
    assert worker_of(killed, found["unseen"]) in found["reasons"][0]
    assert "start it again in that directory" in found["reasons"][0]


@pytest.mark.slow
def test_a_worker_that_is_killed_and_started_again_in_its_directory_completes_the_catalogue(
    machines: Machines, tmp_path: Path
) -> None:
    machines.lease = 2
    killed, stays = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
    killed.kill()
    machines.site.faults([])
    assert stays.wait(SECONDS) == 1, stays.log
    again = machines.start(tmp_path / "a")
    assert again.wait(SECONDS) == 1, again.log
    assert "is not published: start it again in its directory" in again.log
    last = machines.start(tmp_path / "b")
    assert last.wait(SECONDS) == 0, last.log
    machines.have_published((again, last))


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_named_and_completes_the_catalogue_when_it_is_started_again(
    machines: Machines, tmp_path: Path
) -> None:
    stops, stays = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
    stops.send(signal.SIGTERM)
    stops.send(signal.SIGCONT)
    assert stops.wait(SECONDS) != 0, stops.log
    machines.site.faults([])
    assert stays.wait(SECONDS) == 1, stays.log
    found = stays.run_json()
    assert found["published"] == "cars.incomplete.json"
    assert worker_of(stops, found["unseen"]) in found["reasons"][0]
    again = machines.start(tmp_path / "a")
    assert again.wait(SECONDS) == 1, again.log
    last = machines.start(tmp_path / "b")
    assert last.wait(SECONDS) == 0, last.log
    machines.have_published((again, last))


@pytest.mark.slow
def test_what_somebody_else_has_left_for_a_worker_is_named(
    machines: Machines, shared: SharedRedis, tmp_path: Path
) -> None:
    machines.lease = 2
    killed, stays = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
    worker = worker_of(killed, [one.worker for one in shared.status().workers])
    killed.kill()
    with shared.server.client() as client:
        client.hset("{cars}:parts", f"kept:{worker}", b'{"entries":9,"pieces":1000000,"before":0}')
    machines.site.faults([])
    assert stays.wait(SECONDS) == 1, stays.log
    assert f"the part kept:{worker} that somebody has left cannot be read" in stays.log
    assert not (stays.output_dir / "cars.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after part", "before share"])
def test_a_worker_that_dies_at_the_end_publishes_its_share_when_it_is_started_again(
    point: str, machines: Machines, tmp_path: Path
) -> None:
    machines.lease = 20  # until the others take it for gone
    stays, dies = machines.both_have_kept(tmp_path / "a", tmp_path / "b", point)
    stays.send(signal.SIGCONT)
    machines.site.faults([])
    assert dies.wait(SECONDS) == KILLED, dies.log
    assert stays.wait(SECONDS) == 1, stays.log
    assert stays.run_json()["published"] == "cars.json"
    assert "is not published: start it again in its directory" in stays.run_json()["reasons"][0]
    again = machines.start(tmp_path / "b")
    assert again.wait(SECONDS) == 0, again.log
    assert sorted([*stays.cars(), *again.cars()]) == sorted(machines.site.ids())


@pytest.mark.slow
def test_a_catalogue_in_shares_that_has_collapsed_is_not_believed(machines: Machines, tmp_path: Path) -> None:
    """Its size is that of all shares, for a worker that sees one of them only."""
    runs = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
    runs[0].send(signal.SIGCONT)
    machines.site.faults([])
    assert [run.wait(SECONDS) for run in runs] == [0, 0], runs[0].log + runs[1].log
    before = runs[0].cars()
    machines.site.churn(remove=machines.site.ids()[LISTINGS // 3 :])
    alone = machines.start(tmp_path / "a")
    assert alone.wait(SECONDS) == 1, alone.log
    assert f"listings are left of the {LISTINGS} in the last complete" in alone.log
    assert [car["id"] for car in json.loads((tmp_path / "a" / "cars.json").read_bytes())] == before


@pytest.mark.slow
def test_only_what_no_worker_has_seen_is_marked_as_removed(machines: Machines, tmp_path: Path) -> None:
    gone = machines.site.ids()[100:103]
    with PostgresServer() as server:
        database = server.create_database()
        machines.env = {"POSTGRES_DSN": server.dsn(database)}
        alone = machines.start(tmp_path / "a")
        assert alone.wait(SECONDS) == 0, alone.log
        machines.site.churn(remove=gone)
        machines.knows_specs = True
        runs = machines.both_have_kept(tmp_path / "a", tmp_path / "b")
        runs[0].send(signal.SIGCONT)
        machines.site.faults([])
        assert [run.wait(SECONDS) for run in runs] == [0, 0], runs[0].log + runs[1].log
        with server.connect(database) as connection:
            rows = connection.execute("SELECT id, removed_at FROM cars").fetchall()
    assert len(rows) == LISTINGS
    assert {listing for listing, removed_at in rows if removed_at} == set(gone)


@pytest.mark.slow
def test_what_a_worker_that_was_killed_has_kept_in_a_shared_directory_counts(
    machines: Machines, tmp_path: Path
) -> None:
    """The counterpart."""
    machines.lease = 2
    killed, stays = machines.both_have_kept(tmp_path, tmp_path)
    killed.kill()
    machines.site.faults([])
    assert stays.wait(SECONDS) == 0, stays.log
    assert stays.run_json()["spread"] == {}
    assert sorted(stays.cars()) == sorted(machines.site.ids())
