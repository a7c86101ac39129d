"""Feeds with `JOBDIR`: which records of a listing count, what an incomplete crawl leaves, and where it says so."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from carscraper.export.tables import columns
from tests.crawl.conftest import SECONDS, Site, Start
from tests.crawl.test_broken_answers import ONE_RETRY
from tests.crawl.test_dead_specification import retry_dead, without_one
from tests.crawl.test_feeds import read
from tests.crawling import Crawl, wait_until
from tests.standin import ROOT

RUNNER = (sys.executable, "-m", "tests.crash.failing_pages")
HEADER = ",".join(column.name for column in columns()) + "\r\n"


def ids(path: Path) -> list[str]:
    return sorted(str(row["id"]) for row in read(path))


def feeds_of(run: Crawl) -> dict[str, Any]:
    """What `run.json` says of each feed, by its name."""
    return {Path(feed["feed"]).name: feed for feed in run.run_json()["feeds"]}


def refresh(site: Site, start: Start, tmp_path: Path, **env: str) -> Crawl:
    """A crawl that finds all specifications stored, so that pages yield their cars; each is refused once."""
    first = start()
    assert first.wait(SECONDS) == 0, first.log
    run = start(
        *("-o", str(tmp_path / "cars.jsonl"), "-o", str(tmp_path / "cars.json")),
        settings={"CARS_PAGE_SIZE": 50, "DURABLE_RETRY_BASE_DELAY": 0.1},
        jobdir=tmp_path / "job",
        runner=RUNNER,
        env={**env, "PYTHONPATH": str(ROOT)},
    )
    assert run.wait(SECONDS) == 0, run.log
    return run


def test_a_listing_counts_where_its_page_was_read_to_the_end(
    site: Site, start: Start, tmp_path: Path
) -> None:
    run = refresh(site, start, tmp_path)
    everything = sorted(site.catalogue.ids)
    assert ids(tmp_path / "cars.jsonl") == everything
    assert ids(tmp_path / "cars.json") == everything
    scraped, kept = (
        int(re.findall(rf"'{stat}': (\d+)", run.log)[-1]) for stat in ("item_scraped_count", "catalogue/kept")
    )
    assert kept == len(everything) < scraped


def test_dropped_before_the_log_it_is_missing(site: Site, start: Start, tmp_path: Path) -> None:
    """The counterpart, and a verdict that knows nothing of it."""
    run = refresh(site, start, tmp_path, DROPS="before the log")
    assert len(ids(tmp_path / "cars.jsonl")) < len(site.catalogue.ids), run.log


def test_an_incomplete_crawl_replaces_no_feed_until_it_is_completed(
    site: Site, start: Start, tmp_path: Path
) -> None:
    names = ["cars.jsonl", "cars.csv", "cars.json", "cars.xml"]
    for name in names:
        (tmp_path / name).write_text("of an earlier crawl")
    asked = [part for name in names for part in ("-O", str(tmp_path / name))]

    def start_with_feeds(**options: Any) -> Crawl:
        return start(*asked, **options)

    without_one(site, start_with_feeds, tmp_path / "job")
    run = start_with_feeds(settings={**ONE_RETRY, "LOG_LEVEL": "INFO"}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    told = feeds_of(run)
    for name in names:
        path = tmp_path / name
        beside = path.with_name(f"{path.stem}.incomplete{path.suffix}")
        assert path.read_text() == "of an earlier crawl"
        assert told[name] == {"feed": str(path), "stored": False, "at": str(beside)}
        assert f"feed {path}: what there is of it is in {beside}" in run.log
        assert 0 < len(set(ids(beside))) == len(ids(beside)) < len(site.catalogue.ids), name

    retry_dead(tmp_path / "job")
    run = start_with_feeds(settings=ONE_RETRY, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log
    told = feeds_of(run)
    for name in names:
        assert ids(tmp_path / name) == sorted(site.catalogue.ids), name
        assert told[name] == {"feed": str(tmp_path / name), "stored": True, "at": str(tmp_path / name)}
    assert not list(tmp_path.glob("*incomplete*"))
    for row in read(tmp_path / "cars.jsonl"):
        assert row["car_specs"] == site.groups(str(row["id"])), "none is there without its specification"


def test_a_feed_that_cannot_be_stored_is_stored_by_the_same_command(
    site: Site, start: Start, tmp_path: Path
) -> None:
    path, beside = tmp_path / "cars.csv", tmp_path / "cars.incomplete.csv"
    settings = {"CARS_PAGE_SIZE": 50, "RETRY_TIMES": 100, "DOWNLOAD_TIMEOUT": 1, "DURABLE_RETRY_MAX_DELAY": 1}
    site.standin.faults([{"match": "offset%5D=100", "fault": "hang"}])
    run = start("-O", str(path), settings=settings, jobdir=tmp_path / "job")
    wait_until(beside.exists)
    path.mkdir()
    site.standin.faults([])
    assert run.wait(SECONDS) == 1, run.log
    told = run.run_json()
    assert (told["complete"], told["catalogue_complete"], told["published"]) == (False, True, "cars.json")
    assert "the feeds are not stored; the same command stores them" in told["reasons"]
    assert feeds_of(run)["cars.csv"] == {"feed": str(path), "stored": False, "at": str(beside)}
    assert "NOT COMPLETE: kept" in run.log
    assert f"feed {path}: what there is of it is in {beside}" in run.log
    path.rmdir()
    site.standin.reset_journal()
    again = start("-O", str(path), settings=settings, jobdir=tmp_path / "job")
    assert again.wait(SECONDS) == 0, again.log
    assert again.run_json()["complete"]
    assert ids(path) == sorted(site.catalogue.ids)
    assert site.standin.pages() == []


def test_a_search_that_finds_nothing_leaves_a_table_without_rows(
    site: Site, start: Start, tmp_path: Path
) -> None:
    names = ["cars.csv", "cars.jsonl"]
    asked = [part for name in names for part in ("-o", str(tmp_path / name))]
    run = start(*asked, "-a", "keyword=zeppelin", jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log
    assert (tmp_path / "cars.csv").read_bytes().decode() == HEADER
    assert (tmp_path / "cars.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("id,name\r\n", "it has other columns already; -O replaces it"),
        (f"{HEADER}1,2", "its last line is cut short; -O replaces it"),
    ],
)
def test_what_no_row_can_stand_behind_is_refused_and_left_alone(
    site: Site, start: Start, tmp_path: Path, before: str, problem: str
) -> None:
    path = tmp_path / "cars.csv"
    path.write_bytes(before.encode())
    run = start("-o", str(path), jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 2, run.log
    assert f"{path}: {problem}" in run.log
    assert "Traceback" not in run.log
    assert path.read_bytes() == before.encode()
    assert site.standin.pages() == []


def test_o_appends_to_a_table_without_a_second_header(site: Site, start: Start, tmp_path: Path) -> None:
    path = tmp_path / "cars.csv"
    for _ in range(2):
        run = start("-o", str(path), "-a", "limit=30", jobdir=tmp_path / "job")
        assert run.wait(SECONDS) == 0, run.log
    rows = ids(path)
    assert len(rows) == 60
    assert rows[::2] == rows[1::2] == sorted(run.cars())


def test_the_standard_output_has_each_listing_once_too(site: Site, start: Start, tmp_path: Path) -> None:
    run = start("-o", "-:jsonl", settings={"CARS_PAGE_SIZE": 20}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log
    lines = [json.loads(line) for line in run.log.splitlines() if line.startswith('{"id"')]
    assert sorted(line["id"] for line in lines) == sorted(site.catalogue.ids)
