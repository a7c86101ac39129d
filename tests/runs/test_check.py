"""A run that did not happen is noticed by the real command, and so is everything that hides it."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from carscraper.commands.runs import Command
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.runs.file import append_run
from scrapy_durable.runs.overdue import duration
from scrapy_durable.runs.processes import process_mark
from tests.runs.receiver import Receiver
from tests.runs.test_notifications import HISTORY
from tests.runs.titles import run_in


def utc(hours_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours_ago * 3600))


def run_of(name: str, hours_ago: float, verdict: str | None = "complete", **more: Any) -> dict[str, Any]:
    """A line of `runs.jsonl`: of a run that ended so long ago, or has begun then where it has no verdict."""
    run = {"run": name, "state": "begun", "crawl": "c", "spider": "titles", "begun": utc(hours_ago)}
    if verdict:
        run |= {"state": "ended", "ended": utc(hours_ago), "verdict": verdict}
    return run | {"host": os.uname().nodename, "pid": os.getpid(), **more}


def test_it_is_quiet_while_runs_are_complete_and_loud_when_there_is_none(
    project: Path, receiver: Receiver
) -> None:
    path = project / "runs.jsonl"
    env = {"DURABLE_NOTIFY": receiver.address}

    def check(*options: str) -> tuple[int, str]:
        done = run_in(project, "runs", "check", "--max-age", "26h", *options, *HISTORY, env=env)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    status, said = check()
    assert status == 1
    assert "no complete run has ended within 26 hours: there is none at all" in said
    assert f"{path}: there is no such file" in said

    append_run(path, run_of("old", 30))
    append_run(path, run_of("lost", 20, "incomplete", reasons=["3 requests are dead letters"]))
    append_run(path, run_of("last", 2, "stopped"))
    append_run(path, run_of("long", 29, None, process=process_mark(os.getpid())))
    append_run(path, run_of("away", 29, None, host="elsewhere"))
    status, said = check("--spider", "titles")
    assert status == 1
    assert "no complete run of titles has ended within 26 hours: the last one ended 30 hours ago" in said
    assert "the last 2 runs were not complete; last: stopped" in said
    assert f"long is running since 29 hours: process {os.getpid()} on {os.uname().nodename} is alive" in said
    assert "away has begun and not ended, since 29 hours" in said
    assert len(receiver.received) == 2
    assert "next: scrapy runs --spider titles, then start the crawl again" in receiver.texts[1]

    append_run(path, run_of("ahead", -48))
    assert "a run ends in the future" in check()[1]
    assert len(receiver.received) == 3
    append_run(path, run_of("new", 1))
    assert check() == (0, "")
    assert check("--spider", "titles") == (0, "")
    assert len(receiver.received) == 3, "nobody is told that all is well"

    with path.open("ab") as file:
        file.write(b"{damaged}\n")
    assert check() == (1, f"{path}, line 8: damaged, and left out\n")
    path.unlink()
    path.mkdir()
    status, said = check()
    assert status == 1
    assert said.startswith(f"nobody knows whether there was a run: {path}: ")
    assert len(receiver.received) == 5


def test_what_cannot_be_checked_is_refused_in_one_line(project: Path) -> None:
    append_run(project / "runs.jsonl", run_of("new", 0))
    for options, said in (
        (
            ("--max-age", "26"),
            "error: --max-age: a time such as 90m, 26h or 2d is needed, ten years at most, not '26'\n",
        ),
        ((), "error: --max-age: a time such as 26h is needed\n"),
        (("--max-age", "26h", "--spider", "tittles"), "error: --spider: there is no 'tittles', but titles\n"),
    ):
        refused = run_in(project, "runs", "check", *options, *HISTORY)
        assert (refused.returncode, refused.stderr) == (2, said)
    refused = run_in(project, "runs", "check", "--max-age", "1h")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "set DURABLE_RUNS_FILE or JOBDIR" in refused.stderr


@pytest.mark.parametrize("text", ["", "h", "-1h", "0h", "1e9h", "26 hours", "999999999w", "nan", "1h1"])
def test_a_time_that_is_none_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--max-age"):
        duration("--max-age", text)


def test_times_are_written_with_one_unit() -> None:
    assert [duration("", text) for text in ("90s", "1.5h", "2d", "1w")] == [
        timedelta(seconds=90),
        timedelta(minutes=90),
        timedelta(days=2),
        timedelta(weeks=1),
    ]


def test_a_search_is_no_crawl_of_the_whole_catalogue() -> None:
    command = Command()
    assert command.counts(run_of("whole", 0, arguments={"_job": "scrapyd's"}))
    assert not command.counts(run_of("search", 0, arguments={"make": "Toyota"}))
