"""Each run leaves a line that the next does not overwrite, by the real command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrapy_durable.runs.file import append_run, read_runs
from tests.crawling import HANGS, crawl, wait_until
from tests.databases.test_erase import scrapy
from tests.runs.titles import run_in
from tests.standin import StandIn

PAGES = {"CARS_PAGE_SIZE": 10}


def history(out: Path, *options: str, status: int = 0) -> list[str]:
    return scrapy("runs", *options, output_dir=out, status=status, env={})


def as_json(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in history(out, "--json")]


def test_every_run_leaves_a_line_complete_or_not(stand_in: Callable[..., StandIn], tmp_path: Path) -> None:
    site = stand_in(30)
    with crawl(site.url, tmp_path, settings=PAGES) as run:
        assert run.wait(60) == 0, run.log
    cars = json.loads((tmp_path / "cars.json").read_bytes())
    priced = round(sum(car["car_attrs"].get("price") is not None for car in cars) / len(cars), 4)
    with crawl(site.url, tmp_path, "-a", "limit=10", settings=PAGES) as run:
        assert run.wait(60) == 0, run.log
    site.faults([{"match": "offset.{3,4}=10(&|$)", "fault": "status", "status": 404}])
    with crawl(site.url, tmp_path, settings=PAGES) as run:
        assert run.wait(60) == 1, run.log

    first, search, last = as_json(tmp_path)
    assert [one["verdict"] for one in (first, search, last)] == ["complete", "complete", "incomplete"]
    assert [one["exit_status"] for one in (first, search, last)] == [0, 0, 1]
    assert (first["kept"], first["expected"], first["missing"], first["items"]) == (30, 30, 0, 30)
    assert first["requests"] > 3
    assert first["statuses"]["200"] >= first["requests"], "robots.txt is no request of the spider's"
    assert first["bytes"] > 0
    assert first["spider"] == "cars"
    assert first["fill"]["make"] == 1.0
    assert first["fill"]["price"] == priced
    assert all(0 < share <= 1 for share in first["fill"].values())
    assert search["arguments"] == {"limit": "10"}
    assert last["statuses"]["404"] > 0
    assert last["reasons"]
    assert first["begun"] <= first["ended"] <= last["begun"]

    table = history(tmp_path)
    assert [line.split()[0] for line in table] == ["run", *(one["run"] for one in (first, search, last))]
    assert table[-1].endswith("incomplete !"), "it has kept 20 instead of 30"
    assert max(map(len, table)) <= 80
    assert json.loads("\n".join(history(tmp_path, "show", first["run"]))) == first
    assert [line.split()[0] for line in history(tmp_path, "--limit", "1")][1:] == [last["run"]]


def test_a_run_that_was_killed_or_stopped_leaves_something(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30, rules=[{"match": "/specs/", "fault": "hang"}])
    out, path = tmp_path / "out", tmp_path / "out" / "runs.jsonl"
    for number, end in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        with crawl(site.url, out, settings=PAGES, jobdir=tmp_path / "job") as run:
            wait_until(
                lambda: path.exists() and path.read_text().count('"begun",') == number,  # noqa: B023
                what="the line of its start",
            )
            wait_until(lambda: site.counts()["specs"] > 0, what="a request that hangs")
            assert as_json(out)[-1]["state"] == "running"
            run.send(end)
            run.wait(HANGS)
        site.reset_journal()
    site.faults([])
    with crawl(site.url, out, settings=PAGES, jobdir=tmp_path / "job") as run:
        assert run.wait(60) == 0, run.log

    killed, stopped, whole = as_json(out)
    assert [one["state"] for one in (killed, stopped, whole)] == ["killed", "ended", "ended"]
    assert (stopped["verdict"], whole["verdict"]) == ("stopped", "complete")
    assert killed["crawl"] == stopped["crawl"] == whole["crawl"]
    assert [line.split()[-1] for line in history(out)[1:]] == ["killed", "stopped", "complete"]


def test_any_project_has_a_history_with_the_share_of_items_that_have_each_field(project: Path) -> None:
    setting = ("-s", "DURABLE_RUNS_FILE=history/runs.jsonl")
    for arguments in ((), ("-a", "fails=1")):
        run_in(project, "crawl", "titles", *arguments, *setting)
    shown = run_in(project, "runs", "--json", *setting)
    assert shown.returncode == 0, shown.stderr
    first, failed = map(json.loads, shown.stdout.splitlines())
    assert first["fill"] == {"number": 1.0, "title": 0.5}
    assert (first["items"], first["verdict"], first["exit_status"]) == (4, "complete", 0)
    assert failed["spider"] == "titles"
    assert (project / "history" / "runs.jsonl").read_text().count("\n") == 4


def test_items_of_any_kind_and_values_that_cannot_be_compared_are_counted(project: Path) -> None:
    path = project / "titles" / "spider.py"
    kinds = """
class Array:
    def __eq__(self, other):
        return self
    def __bool__(self):
        raise ValueError("ambiguous")
    __hash__ = None

class Foreign:
    pass

class OwnSpider(scrapy.Spider):
    name = "own"

    async def start(self):
        for item in (Foreign(), {"values": Array(), "none": None, "zero": 0, "empty": ()}):
            yield item
"""
    path.write_text(f"{path.read_text()}\n{kinds}")
    crawled = run_in(project, "crawl", "own", "-s", "DURABLE_RUNS_FILE=own.jsonl")
    assert crawled.returncode == 0, crawled.stderr
    assert "Traceback" not in crawled.stderr, crawled.stderr
    last = json.loads((project / "own.jsonl").read_bytes().splitlines()[-1])
    assert (last["items"], last["fill"]) == (2, {"values": 0.5, "zero": 0.5})


def test_its_place_is_jobdir_unless_a_setting_names_one(project: Path) -> None:
    run_in(project, "crawl", "titles")
    assert not list(project.rglob("*.jsonl"))
    assert "set DURABLE_RUNS_FILE or JOBDIR" in run_in(project, "runs").stderr
    assert run_in(project, "crawl", "titles", "-s", "JOBDIR=job").returncode == 0
    shown = run_in(project, "runs", "-s", "JOBDIR=job")
    assert shown.stdout.splitlines()[-1].split()[-1] == "complete"


def test_what_an_operator_can_get_wrong_is_said_in_one_line(project: Path) -> None:
    path = project / "runs.jsonl"
    setting = ("-s", f"DURABLE_RUNS_FILE={path}")
    missing = run_in(project, "runs", *setting)
    assert (missing.returncode, missing.stderr) == (
        2,
        f"error: {path}: there is no such file; a run makes it\n",
    )
    path.write_bytes(b'{"state": "\x1b[2J"}\n')
    damaged = run_in(project, "runs", *setting)
    assert damaged.returncode == 1
    assert damaged.stderr == f"error: {path}, line 1: damaged, and left out\n"
    assert run_in(project, "runs", "show", "none", *setting).returncode == 2
    path.unlink()
    path.mkdir()
    crawled = run_in(project, "crawl", "titles", *setting)
    assert crawled.returncode == 0, "a history that cannot be written fails nothing"
    assert "The history of runs cannot be written" in crawled.stderr


def test_a_foreign_file_without_a_last_newline_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for text in (b"my notes", b'{"run":"whole","state":"ended"}\nand mine', b"\0\0"):
        path.write_bytes(text)
        with pytest.raises(OSError, match="none of ours"):
            append_run(path, {"run": "next"})
        assert path.read_bytes() == text
    path.write_bytes(b'{"r')
    append_run(path, {"run": "next"})
    assert path.read_bytes() == b'{"run":"next"}\n'


def test_a_torn_last_line_is_mended_and_processes_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    base = {"state": "ended", "crawl": "c", "spider": "s", "begun": "b"}
    append_run(path, {"run": "first", **base})
    with path.open("ab") as file:
        file.write(b'{"run":"torn' + b"x" * 10_000)
    program = (
        "import sys; from pathlib import Path; from scrapy_durable.runs.file import append_run\n"
        "for n in range(50): append_run(Path(sys.argv[1]), {'run': sys.argv[2] + str(n), 'state': 'ended',"
        " 'crawl': 'c', 'spider': 's', 'begun': 'b' * 5000})"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, path, name]) for name in ("a", "b")]
    assert [one.wait(HANGS) for one in both] == [0, 0]
    broken: list[int] = []
    found = [run["run"] for run in read_runs(path, broken.append)]
    assert broken == []
    assert found[0] == "first"
    assert sorted(found[1:]) == sorted(f"{name}{number}" for name in "ab" for number in range(50))
