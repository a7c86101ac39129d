"""A specification that could not be had is filled in, by the same crawl or by a later one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from tests.crawl.conftest import SECONDS, Site, Start
from tests.crawl.test_broken_answers import ONE_RETRY, most_shared
from tests.crawling import _OURS, Crawl, records
from tests.standin import ROOT, SPEC_PATH


def retry_dead(jobdir: Path) -> str:
    """`scrapy queue retry-dead`; returns what it prints."""
    command = [sys.executable, "-m", "scrapy", "queue", "retry-dead", "-s", f"JOBDIR={jobdir}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_one(site: Site, start: Start, jobdir: Path | None) -> list[str]:
    """A crawl of a site on which one specification is broken; returns the targets of the requests given up."""
    code, year = most_shared(site)
    target = f"{SPEC_PATH}{quote(code, safe='')}/{year}"
    site.standin.faults([{"match": target.replace("+", r"\+"), "fault": "status", "status": 500}])
    run = start(settings=ONE_RETRY, jobdir=jobdir)
    assert run.wait(SECONDS) == 1, run.log
    waiting = set(site.listings_of(code, year))
    told = run.run_json()
    assert told["published"] == "cars.incomplete.json"
    assert not (run.output_dir / "cars.json").exists()
    assert sorted(run.cars()) == sorted(site.catalogue.ids)
    assert {record["id"] for record in records(run.output_dir) if record["car_specs"] is None} == waiting
    assert set(told["spec_missing"]) == waiting
    assert {listing for request in told["given_up"] for listing in request["listings"]} == waiting
    site.standin.faults([])
    site.standin.reset_journal()
    return [target] * told["given_up_count"]


def filled_in(site: Site, run: Crawl) -> None:
    """Everything is there, and is what the API says."""
    assert run.wait(SECONDS) == 0, run.log
    told = run.run_json()
    assert (told["status"], told["published"], told["spec_missing"]) == ("complete", "cars.json", [])
    assert not (run.output_dir / "cars.incomplete.json").exists()
    found = {record["id"]: record["car_specs"] for record in records(run.output_dir)}
    assert found == {listing: site.groups(listing) for listing in site.catalogue.ids}


def test_retry_dead_and_the_same_command_fill_it_in(site: Site, start: Start, tmp_path: Path) -> None:
    jobdir = tmp_path / "job"
    dead = without_one(site, start, jobdir)
    assert f"{len(dead)} requests are queued again" in retry_dead(jobdir)
    filled_in(site, start(settings=ONE_RETRY, jobdir=jobdir))
    assert set(site.standin.specs()) == set(dead)
    assert site.standin.pages() == []


def test_a_later_crawl_fills_it_in_too(site: Site, start: Start) -> None:
    dead = without_one(site, start, None)
    filled_in(site, start(settings=ONE_RETRY))
    assert set(site.standin.specs()) == set(dead)  # the others are in the response store
