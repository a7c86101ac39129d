"""`cars.json` is the last complete catalogue: no run that has less replaces it, what that has lies beside it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import Crawl, crawl, wait_until
from tests.kept import kept_by_crawl, segments
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

LISTINGS = 60
SECONDS = 60
SETTINGS = {"CARS_PAGE_SIZE": 20, "CARS_BATCH_SIZE": 10, "CARS_BATCH_SECONDS": 0.05, "RETRY_TIMES": 0}


@pytest.fixture
def site(stand_in: Callable[..., StandIn]) -> StandIn:
    return stand_in(LISTINGS)


def run_to_end(site: StandIn, out: Path, *arguments: str, **options: Any) -> Crawl:
    """A crawl that has ended, whatever came of it."""
    settings = {**SETTINGS, **options.pop("settings", {})}
    with crawl(site.url, out, *arguments, settings=settings, **options) as run:
        run.wait(SECONDS)
    return run


@pytest.fixture
def before(site: StandIn, tmp_path: Path) -> bytes:
    """What a complete crawl has published in `tmp_path`."""
    run = run_to_end(site, tmp_path)
    assert run.process.returncode == 0, run.log
    assert run.run_json()["published"] == "cars.json"
    assert not (tmp_path / "cars.incomplete.json").exists()
    return (tmp_path / "cars.json").read_bytes()


def incomplete(out: Path) -> list[str]:
    """The ids beside the complete catalogue."""
    return sorted(record["id"] for record in json.loads((out / "cars.incomplete.json").read_bytes()))


def assert_kept_beside(run: Crawl, out: Path, before: bytes) -> None:
    """It has ended with exit status 1, and left `cars.json` alone."""
    assert run.process.returncode == 1, run.log
    assert (out / "cars.json").read_bytes() == before
    found = run.run_json()
    assert (found["complete"], found["published"]) == (False, "cars.incomplete.json")
    assert len(incomplete(out)) == found["kept"]


def assert_made_whole(run: Crawl, site: StandIn, out: Path) -> None:
    assert run.process.returncode == 0, run.log
    assert sorted(record["id"] for record in json.loads((out / "cars.json").read_bytes())) == sorted(
        site.ids()
    )
    assert not (out / "cars.incomplete.json").exists()


def test_what_the_complete_catalogue_was_made_of_stays_until_the_next_one(
    site: StandIn, before: bytes, tmp_path: Path
) -> None:
    kept = segments(tmp_path)
    site.faults([{"match": PAGE_PATH, "fault": "status", "status": 503}])
    for _ in range(2):
        assert_kept_beside(run_to_end(site, tmp_path), tmp_path, before)
        assert segments(tmp_path) == kept
        assert len(crawls(tmp_path)) == 2
    site.faults([])
    assert_made_whole(run_to_end(site, tmp_path), site, tmp_path)
    assert not segments(tmp_path).keys() & kept.keys()
    assert len(crawls(tmp_path)) == 1


def crawls(out: Path) -> list[Path]:
    return list((out / "crawls").glob("[!.]*"))


def test_a_site_that_is_down_leaves_the_complete_catalogue(
    site: StandIn, before: bytes, tmp_path: Path
) -> None:
    site.faults([{"match": PAGE_PATH, "fault": "status", "status": 503}])
    run = run_to_end(site, tmp_path)
    assert_kept_beside(run, tmp_path, before)
    assert incomplete(tmp_path) == []
    site.faults([])
    assert_made_whole(run_to_end(site, tmp_path), site, tmp_path)


def test_a_specification_that_cannot_be_had_leaves_the_complete_catalogue(
    site: StandIn, before: bytes, tmp_path: Path
) -> None:
    site.churn(add=3)
    (tmp_path / "responses.sqlite").unlink()
    site.faults([{"match": SPEC_PATH, "fault": "status", "status": 500, "times": 1}])
    assert_kept_beside(run_to_end(site, tmp_path), tmp_path, before)
    assert incomplete(tmp_path)
    site.faults([])
    assert_made_whole(run_to_end(site, tmp_path), site, tmp_path)


@pytest.mark.parametrize("resumable", [False, True], ids=["in memory", "JOBDIR"])
def test_a_crawl_that_is_interrupted_leaves_the_complete_catalogue(
    resumable: bool, site: StandIn, before: bytes, tmp_path: Path
) -> None:
    """The site answers ten specifications and no more, so the crawl has kept some and cannot come to its end."""
    options: dict[str, Any] = {"jobdir": tmp_path / "job"} if resumable else {}
    (tmp_path / "responses.sqlite").unlink()
    site.faults([{"match": SPEC_PATH, "fault": "hang", "after": 10}])
    with crawl(site.url, tmp_path, settings=SETTINGS, **options) as run:
        wait_until(lambda: len(kept_by_crawl(tmp_path)) > 1, SECONDS, what="something is kept")
        run.send(signal.SIGINT)
        run.wait(SECONDS)
    assert_kept_beside(run, tmp_path, before)
    assert 0 < len(incomplete(tmp_path)) < LISTINGS
    said = "the same command goes on" if resumable else "with JOBDIR, the same command would go on"
    assert said in run.run_json()["reasons"][0]
    site.faults([])
    run = run_to_end(site, tmp_path, **options)
    assert ("Going on with crawl" in run.log) == resumable
    assert_made_whole(run, site, tmp_path)


@pytest.mark.parametrize("left", [5, 0])
def test_a_catalogue_that_has_collapsed_is_not_believed_until_one_run_accepts_it(
    left: int, site: StandIn, before: bytes, tmp_path: Path
) -> None:
    site.churn(remove=site.ids()[left:])
    run = run_to_end(site, tmp_path)
    assert_kept_beside(run, tmp_path, before)
    assert f"only {left} listings are left of the {LISTINGS}" in run.run_json()["reasons"][0]
    assert "CARS_MIN_KEPT_SHARE=0" in run.log.rpartition("NOT COMPLETE")[2]
    run = run_to_end(site, tmp_path, settings={"CARS_MIN_KEPT_SHARE": 0})
    assert_made_whole(run, site, tmp_path)
    assert_made_whole(run_to_end(site, tmp_path), site, tmp_path)


def test_a_catalogue_that_has_become_smaller_within_the_share_is_believed(
    site: StandIn, before: bytes, tmp_path: Path
) -> None:
    """The counterpart; one more than that share is left, and one less."""
    site.churn(remove=site.ids()[31:])
    assert_made_whole(run_to_end(site, tmp_path), site, tmp_path)
    smaller = (tmp_path / "cars.json").read_bytes()
    site.churn(remove=site.ids()[15:])
    assert_kept_beside(run_to_end(site, tmp_path), tmp_path, smaller)


def test_a_share_that_is_none_is_refused_by_name(site: StandIn, tmp_path: Path) -> None:
    run = run_to_end(site, tmp_path, settings={"CARS_MIN_KEPT_SHARE": 50})
    assert run.process.returncode == 2
    assert "CARS_MIN_KEPT_SHARE" in run.log
