"""A crawl of several workers is complete when each of them has delivered, also those that have left before its end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.crash.stores import SharedRedis
from tests.crawling import Crawl, crawl, wait_until
from tests.databases.looking import Databases, waiting_bytes
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.standin import SPEC_PATH, StandIn

LISTINGS = 150
SECONDS = 120
SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 5,
    "CARS_BATCH_SECONDS": 0.05,
    "DURABLE_LEASE_SECONDS": 3,
    "DOWNLOAD_TIMEOUT": 3,
    "DURABLE_RETRY_BASE_DELAY": 0.05,
    "DURABLE_RETRY_MAX_DELAY": 1,
    "RETRY_TIMES": 500,  # nothing is given up, however long the site is held
    "DURABLE_MAX_ATTEMPTS": 1000,
}
ANSWERED = 15
"""Specifications that the site answers before it is held; each brings at least one record."""


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A server of its own, which may be killed."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def shared() -> Iterator[SharedRedis]:
    with RedisServer() as server:
        yield SharedRedis(server)


class Crew:
    """Workers of one crawl, with a database that is down at first."""

    def __init__(self, site: StandIn, shared: SharedRedis, dsn: str, running: ExitStack) -> None:
        self.site = site
        self.shared = shared
        self._dsn = dsn
        self._running = running

    def start(self, out: Path) -> Crawl:
        """One more."""
        env = {"POSTGRES_DSN": self._dsn}
        options: dict[str, Any] = {**self.shared.options, "settings": SETTINGS, "env": env}
        return self._running.enter_context(crawl(self.site.url, out, **options))

    def waiting(self, run: Crawl) -> int | None:
        """How many records of a worker wait on its disk, as the frontier knows; None before it can take any."""
        numbers = [
            number
            for worker in self.shared.status().workers
            if f"-{run.pid}-" in worker.worker
            for name, number in worker.report.items()
            if name.startswith("undelivered:PostgreSQL:")
        ]
        return sum(numbers) if numbers else None

    def rows(self) -> dict[str, Any]:
        """Listing id to when it was removed, as the database has it."""
        with psycopg.connect(self._dsn) as connection:
            return dict(connection.execute("SELECT id, removed_at FROM cars").fetchall())


@pytest.fixture
def crew(postgres: PostgresServer, shared: SharedRedis, stand_in: Callable[..., StandIn]) -> Iterator[Crew]:
    site = stand_in(LISTINGS, rules=[{"match": SPEC_PATH, "fault": "hang", "after": ANSWERED}])
    dsn = postgres.dsn(postgres.create_database())
    with ExitStack() as running:
        yield Crew(site, shared, dsn, running)


def one_has_left(
    crew: Crew, postgres: PostgresServer, leaver: Path, stayers: list[Path], how: signal.Signals
) -> list[Crawl]:
    """A worker acknowledges what is on its disk only, others join, it leaves, the database comes back, and the site
    answers.
    """
    postgres.kill()
    leaving = crew.start(leaver)
    wait_until(lambda: (crew.waiting(leaving) or 0) >= ANSWERED, SECONDS, what="what it has waits on disk")
    staying = [crew.start(out) for out in stayers]
    wait_until(lambda: None not in map(crew.waiting, staying), SECONDS, what="all have joined")
    leaving.send(how)
    leaving.wait(SECONDS)
    postgres.start()
    crew.site.faults([])
    for run in staying:
        run.wait(SECONDS)
    return staying


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_worker_leaves_within_reach_is_delivered_by_those_who_stay(
    how: signal.Signals, crew: Crew, postgres: PostgresServer, tmp_path: Path
) -> None:
    (run,) = one_has_left(crew, postgres, tmp_path, [tmp_path], how)
    assert run.process.returncode == 0, run.log
    assert "of a worker that has left wait for PostgreSQL" in run.log
    assert sorted(crew.rows()) == sorted(crew.site.ids())
    assert waiting_bytes(tmp_path) == 0


@pytest.mark.slow
def test_what_a_worker_leaves_on_another_machine_is_named_by_all_who_stay(
    crew: Crew, postgres: PostgresServer, tmp_path: Path
) -> None:
    """The machines share nothing but the queue."""
    here, there = tmp_path / "here", tmp_path / "there"
    runs = one_has_left(crew, postgres, there, [here, here], signal.SIGKILL)
    for run in runs:
        assert run.process.returncode == 1, run.log
        said = run.log.rpartition("NOT COMPLETE")[2]
        assert "records wait on disk for PostgreSQL where worker" in said, run.log
        assert "`scrapy deliver`" in said
    found = runs[0].run_json()
    waiting = found["undelivered"]["PostgreSQL"]
    assert len(crew.rows()) >= LISTINGS - waiting
    assert not set(crew.site.ids()) <= set(crew.rows()), "the counterpart: it does lack some"


@pytest.mark.slow
def test_what_a_worker_leaves_in_a_directory_that_is_shared_is_delivered_from_any_machine(
    crew: Crew, postgres: PostgresServer, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "crawls").mkdir(parents=True)
    there.mkdir()
    (there / "crawls").symlink_to(here / "crawls")
    (run,) = one_has_left(crew, postgres, there, [here], signal.SIGKILL)
    assert run.process.returncode == 0, run.log
    assert sorted(crew.rows()) == sorted(run.cars()) == sorted(crew.site.ids())


def test_a_catalogue_that_has_collapsed_marks_nothing_as_removed(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """In no database."""
    site = stand_in(LISTINGS)

    def removed(settings: dict[str, object], status: int) -> tuple[set[str], set[str]]:
        with crawl(site.url, tmp_path, settings={**SETTINGS, **settings}, env=databases.env) as run:
            assert run.wait(SECONDS) == status, run.log
        return databases.removed()

    assert removed({}, 0) == (set(), set())
    gone = site.ids()[5:]
    site.churn(remove=gone)
    assert removed({}, 1) == (set(), set())
    assert removed({"CARS_MIN_KEPT_SHARE": 0}, 0) == (set(gone), set(gone)), "the counterpart"
