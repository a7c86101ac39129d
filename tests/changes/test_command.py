"""What has changed from one crawl to the next, by the real command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from carscraper.changes.lines import replay
from tests.changes.test_replay import content, there
from tests.crash.worker import KILLED
from tests.crawling import crawl
from tests.databases.test_erase import scrapy
from tests.standin import ROOT, StandIn

PAGES = {"CARS_PAGE_SIZE": 10}
RUNNER = (sys.executable, "-m", "tests.crash.worker")


def whole_crawl(site: StandIn, out: Path, *arguments: str, status: int = 0, **options: Any) -> str:
    """Its log."""
    with crawl(site.url, out, *arguments, settings=PAGES, **options) as run:
        assert run.wait(60) == status, run.log
        return run.log


def changes(out: Path, *options: str, status: int = 0) -> list[str]:
    return scrapy("changes", *options, output_dir=out, status=status, env={})


def as_json(out: Path, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in changes(out, "--json", *options)]


def move(site: StandIn) -> dict[str, Any]:
    """Three come, two go, one is cheaper."""
    cheaper = site.ids()[5]
    done = site.churn(add=3, remove=site.ids()[:2], price={cheaper: 1000})
    return done | {"cheaper": cheaper}


def test_each_complete_crawl_says_what_has_come_gone_and_changed_its_price(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(40)
    whole_crawl(site, tmp_path)
    (first,) = as_json(tmp_path)
    assert (first["kind"], first["listings"], first["previous"], first["added"]) == ("run", 40, None, 0)
    before = there(tmp_path)
    done = move(site)
    whole_crawl(site, tmp_path)

    lines = as_json(tmp_path, "--since", first["run"])
    found = {
        kind: {line["listing"] for line in lines if line["kind"] == kind} for kind in ("added", "removed")
    }
    assert found == {"added": set(done["added"]), "removed": set(done["removed"])}
    (price,) = (line for line in lines if line["kind"] == "price")
    was = before[done["cheaper"]]["car_attrs"]["price"]
    assert price["listing"] == done["cheaper"]
    assert price["fields"] == {"car_attrs.price": {"before": was, "after": 1000}}
    assert lines[-1]["kind"] == "run"
    assert lines[-1]["previous"] == first["run"]
    replay(before, lines)
    assert content(before) == content(there(tmp_path))

    table = changes(tmp_path)
    assert table[-1] == "3 added, 2 removed, 1 price"
    assert len(table) == 7
    assert max(map(len, table)) <= 80
    make = price["car"]["make"]
    assert any(line["listing"] == done["cheaper"] for line in as_json(tmp_path, "--make", make.upper()))
    assert as_json(tmp_path, "--kind", "price", "--make", make) == [price]
    assert changes(tmp_path, "--make", "Nobody's") == ["nothing has changed"]
    assert as_json(tmp_path, "--since", "2999-01-01") == []
    assert len(as_json(tmp_path, "--since", "2020-01-01T00:00:00+02:00")) == 8
    assert [line.split()[0] for line in changes(tmp_path, "--kind", "run")] == [first["run"], price["run"]]


def test_searches_limits_and_incomplete_crawls_say_nothing(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30)
    whole_crawl(site, tmp_path)
    before = (tmp_path / "changes.jsonl").read_bytes()
    move(site)
    whole_crawl(site, tmp_path, "-a", "limit=10")
    whole_crawl(site, tmp_path, "-a", "make=Toyota")
    site.faults([{"match": "offset.{3,4}=10(&|$)", "fault": "status", "status": 404}])
    whole_crawl(site, tmp_path, status=1)
    assert (tmp_path / "changes.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.rglob("*changes*jsonl")] == ["changes.jsonl"]


@pytest.mark.parametrize(
    "point",
    ["after changes-prepared", "before changes-appended", "after changes-appended", "after run.json"],
)
def test_a_crawl_killed_while_it_publishes_makes_neither_gap_nor_double(
    point: str, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site, out, jobdir = stand_in(30), tmp_path / "out", tmp_path / "job"
    whole_crawl(site, out)
    before = there(out)
    move(site)
    env = {"CRASH_POINT": point, "PYTHONPATH": str(ROOT)}
    whole_crawl(site, out, status=KILLED, env=env, runner=RUNNER, jobdir=jobdir)
    seen = as_json(out)
    replayed = dict(before)
    replay(replayed, seen)
    assert content(replayed) == content(there(out)), "whoever reads now"
    whole_crawl(site, out, jobdir=jobdir)

    lines = as_json(out)
    assert len({line["id"] for line in lines}) == len(lines) == 8, "each line once"
    assert lines[: len(seen)] == seen
    replay(before, lines)
    assert content(before) == content(there(out))


def test_a_listing_that_was_erased_leaves_a_tombstone_without_its_data(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30)
    whole_crawl(site, tmp_path)
    added = site.churn(add=2)["added"]
    whole_crawl(site, tmp_path)
    there_before = there(tmp_path)
    text = there_before[added[0]]["car_attrs"]["website_url"]
    assert text in (tmp_path / "changes.jsonl").read_text()

    said = scrapy("erase", added[0], site.ids()[9], output_dir=tmp_path, status=0, env={})

    assert f"{tmp_path / 'changes.jsonl'}: removed: {added[0]}" in said
    assert text not in (tmp_path / "changes.jsonl").read_text()
    erased = [line for line in as_json(tmp_path) if line["kind"] == "erased"]
    assert sorted(line["listing"] for line in erased) == sorted([added[0], site.ids()[9]])
    assert all(line.keys() == {"id", "kind", "listing", "run", "at"} for line in erased)
    log = whole_crawl(site, tmp_path)  # the site shows both again
    assert "does not follow" not in log
    replay(there_before, as_json(tmp_path))
    assert content(there_before) == content(there(tmp_path))


def test_what_an_operator_can_get_wrong_is_said_in_one_line(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    path = tmp_path / "changes.jsonl"
    assert "there is no such file" in changes(tmp_path, status=2)[0]
    assert "there is no such file" in changes(tmp_path, "--drop-before", "2026-01-01", status=2)[0]
    whole_crawl(stand_in(10), tmp_path)
    assert "neither the id of a run nor a date" in changes(tmp_path, "--since", "yesterday", status=2)[0]
    assert "has no run 2" in changes(tmp_path, "--since", "20200101T000000Z-000000", status=2)[0]
    whole = path.read_bytes()
    path.write_bytes(b"{\x1b[2J}\n" + whole + b'{"id":"torn')
    (damaged,) = (line for line in changes(tmp_path, status=1) if line.startswith("error"))
    assert damaged == f"error: {path}, line 1: damaged, and left out"


def test_older_lines_are_cut_on_request(stand_in: Callable[..., StandIn], tmp_path: Path) -> None:
    site = stand_in(10)
    for _ in range(2):
        whole_crawl(site, tmp_path)
        site.churn(add=1)
    assert changes(tmp_path, "--drop-before", "2999-01-01") == ["2 lines are cut from changes.jsonl"]
    log = whole_crawl(site, tmp_path)
    assert "does not follow" not in log
    assert [line["kind"] for line in as_json(tmp_path)] == ["run", "added", "run"]
