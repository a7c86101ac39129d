"""Personal data: not kept when it shall not be, and nobody else's to read; and the site knows who asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.conftest import SECONDS, Start
from tests.server_process import hold_port
from tests.standin import ROOT, StandIn

MARK = "canary-8d1f"
NAMES = ("agent_name", "agent_coords_0_coord", "agent_coords_1_coord", "description")


def modes(*roots: Path) -> dict[str, set[int]]:
    """The modes of directories and files below the roots, themselves included."""
    found: dict[str, set[int]] = {"directories": set(), "files": set(), "databases": set()}
    for root in roots:
        for path in (root, *root.rglob("*")):
            kind = "directories" if path.is_dir() else "databases" if ".sqlite" in path.name else "files"
            found[kind].add(path.stat().st_mode & 0o777)
    return found


@pytest.mark.parametrize(
    ("share", "directories", "files", "databases"),
    [("False", 0o700, 0o600, 0o600), ("True", 0o770, 0o660, 0o640)],
)
def test_what_a_crawl_writes_is_private_or_its_groups(
    start: Start, tmp_path: Path, share: str, directories: int, files: int, databases: int
) -> None:
    """Records, feeds, log, the state of a crawl, and what waits for a database that is down."""
    with hold_port() as nobody:
        dsn = f"postgresql://me:{MARK}@127.0.0.1:{nobody.getsockname()[1]}/cars"
        run = start(
            *("-a", "limit=20", "-O", str(tmp_path / "feeds" / "cars.csv")),
            *("-s", f"LOG_FILE={tmp_path / 'log'}"),
            jobdir=tmp_path / "job",
            settings={"CARS_SHARE_WITH_GROUP": share, "CARS_STORE_TIMEOUT": 0},
            env={"POSTGRES_DSN": dsn},
        )
        assert run.wait(SECONDS) == 1, run.log
    roots = (run.output_dir, tmp_path / "job", tmp_path / "feeds")
    assert modes(*roots) == {"directories": {directories}, "files": {files}, "databases": {databases}}
    assert modes(tmp_path / "log")["files"] == {files}
    assert list(run.output_dir.rglob("*.position")), "nothing waits"


def test_what_shall_not_be_kept_is_nowhere(site: StandIn, start: Start, tmp_path: Path) -> None:
    """Neither in records nor in feeds, nor in the queue, the logs, and the pages that records are built from again."""
    edit = {"fault": "edit", "path": "data[*].attributes.agent_name", "do": "set", "to": MARK}
    site.faults(
        [
            {"match": "vehicle\\?", **edit},
            {"match": "/specs/", "fault": "status", "status": 500, "probability": 0.2, "per": "target"},
        ]
    )
    settings = {
        "CARS_LEAVE_OUT": "agent_name, agent_coords_*,description",
        "RETRY_TIMES": 0,
        "LOG_LEVEL": "DEBUG",
    }
    run = start("-O", str(tmp_path / "cars.jsonl"), settings=settings, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["given_up"]
    assert MARK not in run.log
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path
    again = [sys.executable, "-m", "scrapy", "reparse", "-s", f"CARS_OUTPUT_DIR={run.output_dir}"]
    for records in (tmp_path / "cars.incomplete.jsonl", run.output_dir / "cars.incomplete.json"):
        lines = [line for line in records.read_text().splitlines() if len(line) > 2]
        cars = [json.loads(line.rstrip(",")) for line in lines]
        assert cars
        for car in cars:
            assert not set(NAMES).intersection(car["car_attrs"])
            assert "make" in car["car_attrs"]
        subprocess.run(
            again, cwd=ROOT, capture_output=True, timeout=SECONDS, check=False
        )  # of the pages alone


def test_what_was_kept_before_is_not_read_again(site: StandIn, start: Start) -> None:
    run = start("-a", "limit=20")
    assert run.wait(SECONDS) == 0, run.log
    directory = next(path.parent for path in run.output_dir.rglob("cars.json"))
    assert "agent_name" in (directory / "cars.json").read_text()
    command = [sys.executable, "-m", "scrapy", "reparse", "-s", f"CARS_OUTPUT_DIR={run.output_dir}"]
    command += ["-s", "CARS_LEAVE_OUT=agent_*"]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
    assert "agent_name" not in (directory / "cars.json").read_text()


@pytest.mark.parametrize("names", ["code", "*", "agent_name,ye?r"])
def test_what_a_crawl_needs_cannot_be_left_out(site: StandIn, start: Start, names: str) -> None:
    run = start(settings={"CARS_LEAVE_OUT": names})
    assert run.wait(SECONDS) == 2, run.log
    assert run.log.startswith("error: CARS_LEAVE_OUT: ")
    assert run.log.count("\n") == 1
    assert site.journal() == []


@pytest.mark.parametrize(
    ("settings", "agent"),
    [
        ({"CARS_CONTACT": "me@example.com"}, "carscraper/0.1 (+me@example.com)"),
        ({"CARS_CONTACT": "https://example.com/bot?a=1"}, "carscraper/0.1 (+https://example.com/bot?a=1)"),
        ({"CARS_CONTACT": "me@example.com", "USER_AGENT": "mine"}, "mine"),
    ],
)
def test_the_site_is_told_who_asks(site: StandIn, start: Start, settings: dict[str, str], agent: str) -> None:
    run = start("-a", "limit=5", settings=settings)
    assert run.wait(SECONDS) == 0, run.log
    assert {entry["user_agent"] for entry in site.journal()} == {agent}
    assert "Nobody says who asks" not in run.log


@pytest.mark.parametrize("contact", ["me", "javascript:x", "me@example.com)\r\nX: y", "https://a b", "@"])
def test_a_contact_that_is_none_is_refused(site: StandIn, start: Start, contact: str) -> None:
    run = start(settings={"CARS_CONTACT": contact})
    assert run.wait(SECONDS) == 2, run.log
    assert run.log.startswith("error: CARS_CONTACT: ")
    assert run.log.count("\n") == 1
    assert site.journal() == []


@pytest.mark.parametrize(("contact", "said"), [("", 1), ("me@example.com", 0)])
def test_a_crawl_of_the_live_site_without_a_contact_says_so_once(
    start: Start, contact: str, said: int
) -> None:
    """Through a proxy that is not there, so that nobody is asked."""
    with hold_port() as nobody:
        proxy = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        settings = {"RETRY_TIMES": 0, "CARS_CONTACT": contact, "DURABLE_PROXY_COOLDOWN": 0.1}
        run = start(
            api_url="https://api.cars.co.za/fw/public", settings=settings, env={"DURABLE_PROXIES": proxy}
        )
        assert run.wait(SECONDS) == 1, run.log
    assert run.log.count("Nobody says who asks the live site: set CARS_CONTACT") == said
