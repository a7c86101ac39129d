"""Whose crawl is it: a run that asks for something else never joins one, and never ends it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from tests.crawl.conftest import SECONDS, Site, Start
from tests.crawling import Crawl, wait_until
from tests.redis_server import RedisServer
from tests.standin import ROOT

HELD = {"match": "/specs/", "fault": "hang"}
PACE = {"CONCURRENT_REQUESTS": 8, "DURABLE_LEASE_SECONDS": 5}


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url


def under_way(site: Site, crawl: Crawl) -> Crawl:
    """The crawl, once it has read a listing page; the site holds the answers that come after."""
    wait_until(lambda: site.standin.counts()["under_way"] >= 1, SECONDS, what="something is under way")
    return crawl


def refusal(run: Crawl) -> str:
    """The one line that a refused run says."""
    assert run.wait(SECONDS) == 2, run.log
    (line,) = run.log.splitlines()
    assert "Traceback" not in line
    return line


def assert_names_both(line: str, *words: str) -> None:
    at = [line.index(word) for word in words]
    assert at == sorted(at), line
    assert "scrapy queue forget" in line


@pytest.mark.parametrize(
    ("first", "second"),
    [([], ["limit=1"]), (["make=Toyota"], []), (["make=Toyota"], ["make=Toyota", "limit=30"])],
    ids=["a limit on everything", "everything on a search", "a limit on a search"],
)
def test_another_search_is_refused_on_an_unfinished_jobdir_and_the_first_goes_on_to_its_end(
    site: Site, start: Start, tmp_path: Path, first: list[str], second: list[str]
) -> None:
    def run(arguments: list[str], **options: object) -> Crawl:
        words = [word for argument in arguments for word in ("-a", argument)]
        return start(*words, jobdir=tmp_path / "job", **options)

    site.standin.faults([HELD])
    assert under_way(site, run(first, settings=PACE)).kill() == -9
    asked = site.standin.counts()["requests"]
    line = refusal(run(second, settings={"LOG_LEVEL": "ERROR"}))
    assert_names_both(
        line, str(tmp_path / "job"), " ".join([site.url, *first]), " ".join([site.url, *second])
    )
    assert "JOBDIR of its own" in line
    assert site.standin.counts()["requests"] == asked
    site.standin.faults([])
    resumed = run(first)
    assert resumed.wait(SECONDS) == 0, resumed.log
    assert "Going on with crawl" in resumed.log
    wanted = site.catalogue.ids if not first else toyotas(site)
    assert sorted(resumed.cars()) == sorted(wanted)
    other = run(second)
    assert other.wait(SECONDS) == 0, other.log


def toyotas(site: Site) -> list[str]:
    return [listing for listing in site.catalogue.ids if site.attributes(listing)["make"] == "Toyota"]


@pytest.mark.parametrize(("first", "second"), [([], ["limit=1"]), (["make=Toyota"], [])])
def test_another_search_is_refused_on_the_redis_of_a_crawl_that_runs(
    site: Site, start: Start, tmp_path: Path, redis_url: str, first: list[str], second: list[str]
) -> None:
    def run(arguments: list[str], **options: object) -> Crawl:
        words = [word for argument in arguments for word in ("-a", argument)]
        return start(*words, redis_url=redis_url, **options)

    site.standin.faults([HELD])
    crawl = under_way(site, run(first, settings=PACE))
    line = refusal(run(second, settings={"LOG_LEVEL": "ERROR"}))
    assert_names_both(line, "Redis at", " ".join([site.url, *first]), " ".join([site.url, *second]))
    assert "SCHEDULER_QUEUE_KEY of its own" in line
    assert redis_url not in line
    beside = run(second, settings={"SCHEDULER_QUEUE_KEY": "beside"}, output_dir=tmp_path / "beside")
    wait_until(lambda: "Beginning crawl" in beside.log, SECONDS, what="it begins under a key of its own")
    assert crawl.running
    site.standin.faults([])
    assert crawl.wait(SECONDS) == 0, crawl.log
    wanted = site.catalogue.ids if not first else toyotas(site)
    assert sorted(crawl.cars()) == sorted(wanted)
    assert beside.wait(SECONDS) == 0, beside.log


def test_another_site_is_refused_on_an_unfinished_jobdir(site: Site, start: Start, tmp_path: Path) -> None:
    site.standin.faults([HELD])
    assert under_way(site, start(jobdir=tmp_path / "job", settings=PACE)).kill() == -9
    line = refusal(
        start(
            jobdir=tmp_path / "job",
            api_url="http://127.0.0.1:9/fw/public",
            settings={"LOG_LEVEL": "ERROR"},
        )
    )
    assert_names_both(line, site.url, "http://127.0.0.1:9/fw/public")


def test_the_same_search_said_otherwise_and_read_otherwise_goes_on(
    site: Site, start: Start, tmp_path: Path
) -> None:
    """Order, spelling and page size are no part of what a crawl is of."""
    site.standin.faults([HELD])
    first = start(
        "-a", "province=western cape", "-a", "year=2010-2024", jobdir=tmp_path / "job", settings=PACE
    )
    assert under_way(site, first).kill() == -9
    site.standin.faults([])
    second = start(
        *("-a", "year=2010-2024", "-a", "province=Western Cape"),
        jobdir=tmp_path / "job",
        settings={"CARS_PAGE_SIZE": 7},
        api_url=site.url + "/",
    )
    assert second.wait(SECONDS) == 0, second.log
    assert "Going on with crawl" in second.log
    assert second.cars()


def test_a_crawl_that_is_forgotten_makes_room_for_another(site: Site, start: Start, tmp_path: Path) -> None:
    site.standin.faults([HELD])
    assert under_way(site, start(jobdir=tmp_path / "job", settings=PACE)).kill() == -9
    site.standin.faults([])
    status = scrapy_queue("status", tmp_path / "job")
    assert f" of {site.url}\n" in status
    assert "0 past due (their time has come, and nobody has fetched them yet)" in status
    assert "forgotten" in scrapy_queue("forget", tmp_path / "job", "--yes")
    run = start("-a", "limit=20", jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log


def scrapy_queue(action: str, jobdir: Path, *options: str) -> str:
    command = [sys.executable, "-m", "scrapy", "queue", action, *options, "-s", f"JOBDIR={jobdir}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("by", "release"), [(-1, "an older release"), (1, "a newer release")])
@pytest.mark.parametrize("where", ["jobdir", "redis"])
def test_what_another_release_has_left_is_refused_before_anything_is_asked(
    where: str, by: int, release: str, site: Site, start: Start, tmp_path: Path, redis_url: str
) -> None:
    place = {"redis_url": redis_url} if where == "redis" else {"jobdir": tmp_path / "job"}
    site.standin.faults([HELD])
    assert under_way(site, start(**place, settings=PACE)).kill() == -9
    if where == "redis":
        with Redis.from_url(redis_url) as client:
            client.hincrby("{cars}:crawl", "version", by)
    else:
        with closing(sqlite3.connect(tmp_path / "job" / "frontier.sqlite")) as file:
            (version,) = file.execute("PRAGMA user_version").fetchone()
            file.execute(f"PRAGMA user_version = {version + by}")
    asked = site.standin.counts()["requests"]
    line = refusal(start(**place, settings={"LOG_LEVEL": "ERROR"}))
    assert f"a crawl of {release}" in line
    assert site.standin.counts()["requests"] == asked
