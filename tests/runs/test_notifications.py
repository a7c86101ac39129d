"""People are told of what is wrong with a run, once; and that they cannot be told changes nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from scrapy_durable.runs.file import append_run, note_killed, read_runs
from scrapy_durable.runs.processes import is_alive, process_mark
from tests.crawling import HANGS, wait_until
from tests.redis_server import RedisServer
from tests.runs.receiver import Receiver
from tests.runs.titles import make_project, run_in, start_in

HISTORY = ("-s", "DURABLE_RUNS_FILE=runs.jsonl")
SPIDER = """
import asyncio
from pathlib import Path
import scrapy
from scrapy_durable.exceptions import InvalidAnswer

class NumbersSpider(scrapy.Spider):
    name = "numbers"

    async def start(self):
        for number in range(20):
            yield scrapy.Request(f"data:,{number}", callback=self.parse_number)

    async def parse_number(self, response):
        Path("begun").touch()
        while Path("wait").exists():
            await asyncio.sleep(0.05)
        if response.text == "7" and not Path("works").exists():
            raise InvalidAnswer("no number")
        yield {"number": response.text}
"""
QUICK = "RETRY_TIMES = 0\nBOT_NAME = 'numbers'\nDURABLE_LEASE_SECONDS = 2"


def test_an_incomplete_run_is_told_of_once_by_all_workers_together(
    tmp_path: Path, receiver: Receiver
) -> None:
    with RedisServer() as redis:
        project = make_project(tmp_path, f"{QUICK}\nREDIS_URL = '{redis.url}'", SPIDER)
        (project / "wait").touch()
        env = {"DURABLE_NOTIFY": receiver.address}
        workers = [start_in(project, "crawl", "numbers", *HISTORY, env=env) for _ in range(2)]
        runs = project / "runs.jsonl"
        wait_until(lambda: runs.exists() and len(runs.read_bytes().splitlines()) == 2, what="both at work")
        wait_until((project / "begun").exists, what="a request that waits")
        (project / "wait").unlink()
        for worker in workers:
            _, log = worker.communicate(timeout=HANGS)
            assert worker.returncode == 1, log
            assert "a notification was not sent" not in log
    ended = [json.loads(line) for line in runs.read_bytes().splitlines()[2:]]
    assert [one["verdict"] for one in ended] == ["incomplete", "incomplete"]
    assert len([one for one in ended if "measured" in one]) == 1, "one of them has finished the crawl"
    [text] = receiver.texts
    assert text.startswith("numbers: numbers incomplete\n")
    assert "1 requests are dead letters" in text
    assert "next: scrapy queue dead, then scrapy queue retry-dead and the same command again" in text


def test_a_run_that_was_killed_is_told_of_once_by_the_next_or_by_a_check(
    tmp_path: Path, receiver: Receiver
) -> None:
    project = make_project(tmp_path, QUICK, SPIDER)
    (project / "works").touch()
    (project / "wait").touch()
    env = {"DURABLE_NOTIFY": receiver.address}
    place = ("-s", "JOBDIR=job", *HISTORY)
    killed = start_in(project, "crawl", "numbers", *place)
    wait_until((project / "begun").exists, what="a request that waits")
    killed.kill()
    killed.communicate(timeout=HANGS)
    (project / "wait").unlink()
    again = run_in(project, "crawl", "numbers", *place, env=env)
    assert again.returncode == 0, again.stderr
    assert "was killed: its process has left no last word" in again.stderr
    [text] = receiver.texts
    assert text.startswith("numbers: numbers killed\n")
    assert f"its process {killed.pid} is gone" in text
    checked = run_in(project, "runs", "check", "--max-age", "1h", *place, env=env)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert len(receiver.received) == 1
    states = [run["state"] for run in read_runs(project / "runs.jsonl", lambda _: None)]
    assert states == ["killed", "ended"]


def test_a_pid_that_another_process_has_now_is_no_sign_of_life(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    here = {"crawl": "c", "spider": "s", "begun": "b", "host": os.uname().nodename, "pid": os.getpid()}
    mark = process_mark(os.getpid())
    assert is_alive(os.getpid(), mark)
    append_run(path, {"run": "own", "state": "begun", **here, "process": mark})
    append_run(path, {"run": "another", "state": "begun", **here, "process": f"{mark}0"})
    append_run(path, {"run": "elsewhere", "state": "begun", **here, "host": "elsewhere"})
    for _ in range(2):
        found = [(run["run"], run["state"]) for run in read_runs(path, lambda _: None)]
        assert found == [("own", "running"), ("another", "killed"), ("elsewhere", "begun")]
        note_killed(path)
    assert note_killed(path) == [], "each is told of once"
    child = os.posix_spawn("/bin/true", ["true"], {})
    wait_until(lambda: process_mark(child) is None, what="the end of a process that nobody has waited for")
    os.waitpid(child, 0)


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """A project whose runs are incomplete."""
    return make_project(tmp_path, QUICK, SPIDER)


def test_a_notification_that_fails_is_one_warning_without_the_address(
    failing: Path, receiver: Receiver
) -> None:
    receiver.answers.clear()
    secret = "hunter2-0123456789"
    for addresses, timeout, said in (
        (f"json://127.0.0.1:1/{secret} nosuch://{secret}", 30, "address 2 of 2 is none that Apprise knows"),
        (f"{receiver.address} json://127.0.0.1:1/{secret}", 1, "not all have taken it within 1 seconds"),
    ):
        env = {"DURABLE_NOTIFY": addresses, "DURABLE_NOTIFY_TIMEOUT": str(timeout)}
        crawled = run_in(failing, "crawl", "numbers", *HISTORY, "-s", "LOG_LEVEL=DEBUG", env=env)
        assert crawled.returncode == 1, "that of the crawl"
        assert crawled.stderr.count("a notification was not sent: ") == 1
        assert said in crawled.stderr
        assert secret not in crawled.stderr
        tried = run_in(failing, "runs", "notify", "--test", env=env)
        assert tried.returncode == 1
        assert said in tried.stderr
        assert secret not in tried.stdout + tried.stderr


def test_whether_people_are_told_can_be_tried(failing: Path, receiver: Receiver) -> None:
    addresses = f"{receiver.address} {receiver.address}?a=1,2"
    tried = run_in(failing, "runs", "notify", "--test", env={"DURABLE_NOTIFY": addresses})
    assert (tried.returncode, tried.stdout) == (0, "sent: every address has taken it\n"), tried.stderr
    assert [one["title"] for one in receiver.received] == ["numbers: a test"] * 2
    for command, said in (
        (("notify", "--test"), "DURABLE_NOTIFY is not set"),
        (("notify",), "--test is needed"),
    ):
        refused = run_in(failing, "runs", *command)
        assert refused.returncode == 2
        assert refused.stderr.startswith("error: ")
        assert said in refused.stderr


def test_without_apprise_one_line_says_what_to_install(tmp_path: Path, receiver: Receiver) -> None:
    project = make_project(tmp_path, f"{QUICK}\nimport sys; sys.modules['apprise'] = None", SPIDER)
    env = {"DURABLE_NOTIFY": receiver.address}
    crawled = run_in(project, "crawl", "numbers", *HISTORY, env=env)
    assert crawled.returncode == 1
    assert crawled.stderr.count("pip install apprise") == 1
    tried = run_in(project, "runs", "notify", "--test", env=env)
    assert tried.returncode == 1
    assert "pip install apprise" in tried.stderr
    assert receiver.received == []


def test_a_stop_is_told_of(tmp_path: Path, receiver: Receiver) -> None:
    project = make_project(tmp_path, QUICK, SPIDER)
    (project / "wait").touch()
    env = {"DURABLE_NOTIFY": receiver.address}
    run = start_in(project, "crawl", "numbers", "-s", "JOBDIR=job", env=env)
    wait_until((project / "begun").exists, what="a request that waits")
    run.send_signal(signal.SIGTERM)
    (project / "wait").unlink()
    _, log = run.communicate(timeout=HANGS)
    assert run.returncode == 1, log
    [text] = receiver.texts
    assert text.startswith("numbers: numbers stopped\n")
    assert "the same command goes on with it" in text
