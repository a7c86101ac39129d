"""`scrapy deliver`: what waits on disk for a database is delivered, without a crawl and without the site."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.crawling import _OURS, Crawl, crawl, wait_until
from tests.databases.looking import Databases, assert_same, waiting_bytes
from tests.databases.test_outages import BATCHES
from tests.standin import StandIn

SECONDS = 90
SOON = {"CARS_STORE_TIMEOUT": 1}


@contextmanager
def deliver(output_dir: Path, databases: Databases, **settings: object) -> Iterator[Crawl]:
    """A `scrapy deliver` that runs."""
    command = [sys.executable, "-m", "scrapy", "deliver", "-s", f"CARS_OUTPUT_DIR={output_dir}"]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    with Crawl(command, output_dir, {**env, **databases.env}) as run:
        yield run


def delivered(output_dir: Path, databases: Databases, *, status: int, **settings: object) -> list[str]:
    """What it has said, once it has ended."""
    with deliver(output_dir, databases, **settings) as run:
        assert run.wait(SECONDS) == status, run.log
        assert "Traceback" not in run.log
        return run.log.splitlines()


def records_in(text: str, of_which: str) -> int:
    """How many records a line speaks of; some listings are read twice, so there may be more than listings."""
    number, *_ = re.findall(rf"(\d+) {of_which}", text)
    return int(number)


@pytest.fixture
def left(mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path) -> StandIn:
    """A catalogue of which everything waits for a PostgreSQL that is down, once its crawl has ended."""
    site = stand_in(120)
    mortal.postgres.kill()
    with crawl(site.url, tmp_path, settings={**BATCHES, **SOON}, env=mortal.env) as run:
        assert run.wait(SECONDS) == 1, run.log
    assert records_in(run.log, "records wait on disk for PostgreSQL") >= 120
    return site


def test_what_waits_is_delivered_and_nothing_is_crawled(
    mortal: Databases, left: StandIn, tmp_path: Path
) -> None:
    lines = delivered(tmp_path, mortal, status=1, **SOON)
    assert records_in("\n".join(lines), "records still wait for PostgreSQL at ") >= 120
    left.stop()
    mortal.postgres.start()
    lines = delivered(tmp_path, mortal, status=0)
    assert records_in("\n".join(lines), "records were delivered to PostgreSQL") >= 120
    assert lines[-1] == "nothing waits for a database"
    assert_same(mortal, tmp_path)
    assert waiting_bytes(tmp_path) == 0
    assert delivered(tmp_path, mortal, status=0) == ["nothing waits for a database"]


def test_what_several_workers_have_left_is_delivered_at_once(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """A worker that was killed, and a search that ended: logs of two processes in one directory."""
    site = stand_in(120)
    mortal.mongo.kill()
    with crawl(site.url, tmp_path, settings=BATCHES, env=mortal.env) as run:
        site.faults([{"match": "offset%5D=1[0-9]0&", "fault": "hang"}])
        wait_until(lambda: waiting_bytes(tmp_path) > 0, 60, what="something waits on disk")
        run.kill()
    site.faults([])
    settings = {**BATCHES, **SOON}
    with crawl(site.url, tmp_path, "-a", "make=Toyota", settings=settings, env=mortal.env) as search:
        assert search.wait(SECONDS) == 1, search.log
    mortal.mongo.start()
    lines = delivered(tmp_path, mortal, status=0)
    assert lines[-1] == "nothing waits for a database"
    assert set(search.cars()) <= set(mortal.documents())
    assert waiting_bytes(tmp_path) == 0


def reported(jobdir: Path) -> int:
    """How many records wait for a database, as the crawl's queue has been told."""
    with closing(sqlite3.connect(f"file:{jobdir / 'frontier.sqlite'}?mode=ro", uri=True)) as file:
        reports = [json.loads(report) for (report,) in file.execute("SELECT report FROM worker") if report]
    return sum(
        number for report in reports for name, number in report.items() if name.startswith("undelivered:")
    )


def test_a_crawl_that_goes_on_knows_what_was_delivered_meanwhile(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Its queue has noted that records wait on the disk of a worker that was killed."""
    site = stand_in(120, rules=[{"match": "offset%5D=1[0-9]0&", "fault": "hang"}])
    out, jobdir = tmp_path / "out", tmp_path / "job"
    mortal.postgres.kill()
    with crawl(site.url, out, settings=BATCHES, env=mortal.env, jobdir=jobdir) as run:
        file = jobdir / "frontier.sqlite"
        wait_until(lambda: file.exists() and reported(jobdir) > 0, 60, what="records are noted to wait")
        run.kill()
    site.faults([])
    mortal.postgres.start()
    assert delivered(out, mortal, status=0)[-1] == "nothing waits for a database"
    assert reported(jobdir) > 0
    with crawl(site.url, out, settings=BATCHES, env=mortal.env, jobdir=jobdir) as run:
        assert run.wait(SECONDS) == 0, run.log
    assert_same(mortal, out)


def test_the_log_of_a_crawl_that_runs_is_left_to_it_and_named(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(120, rules=[{"match": "offset%5D=80&", "fault": "hang"}])
    mortal.postgres.kill()
    with crawl(site.url, tmp_path, settings=BATCHES, env=mortal.env) as run:
        wait_until(lambda: waiting_bytes(tmp_path) > 0, 60, what="something waits on disk")
        lines = delivered(tmp_path, mortal, status=1, **SOON)
        (line,) = [line for line in lines if "waits for PostgreSQL; a process that is at work has it" in line]
        assert f"-{run.pid}-" in line
        assert run.running
        mortal.postgres.start()
        site.faults([])
        run.kill()
    lines = delivered(tmp_path, mortal, status=0)
    assert lines[-1] == "nothing waits for a database"


def test_what_waits_for_a_database_that_is_not_named_is_named(
    mortal: Databases, left: StandIn, tmp_path: Path
) -> None:
    (line,) = delivered(tmp_path, mortal, status=1, POSTGRES_DSN="")
    assert line.startswith(str(tmp_path / "crawls"))
    assert "set POSTGRES_DSN" in line
    mortal.postgres.start()
    other = mortal.env["POSTGRES_DSN"].replace("127.0.0.1", "localhost")
    assert other != mortal.env["POSTGRES_DSN"]
    (line,) = delivered(tmp_path, mortal, status=1, POSTGRES_DSN=other)
    assert "waits for PostgreSQL at 127.0.0.1:" in line
    assert "not at localhost:" in line


def test_a_database_that_says_no_is_refused_in_one_line_and_what_waits_stays(
    mortal: Databases, left: StandIn, tmp_path: Path
) -> None:
    before = waiting_bytes(tmp_path)
    mortal.postgres.start()
    nobody = f"{mortal.env['POSTGRES_DSN']} user=nobody password=wrong"
    (line,) = delivered(tmp_path, mortal, status=2, POSTGRES_DSN=nobody)
    assert line.startswith("error: POSTGRES_DSN: ")
    assert waiting_bytes(tmp_path) == before


def test_without_anything_that_waits_no_database_is_asked(mortal: Databases, tmp_path: Path) -> None:
    mortal.postgres.kill()
    mortal.mongo.kill()
    assert delivered(tmp_path / "nothing", mortal, status=0) == ["nothing waits for a database"]
    assert not (tmp_path / "nothing").exists()


def test_an_argument_that_is_none_is_refused(mortal: Databases, tmp_path: Path) -> None:
    (line,) = delivered(tmp_path, mortal, status=2, CARS_BATCH_SIZE="many")
    assert "CARS_BATCH_SIZE" in line
