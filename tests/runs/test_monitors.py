"""What is unusual about a run is found, and said wherever a run is told of; nothing else hangs on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_durable.config import Config
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.runs.monitors import ERROR, WARNING, comparable, core_monitor
from scrapy_durable.settings import DURABLE_MONITOR_BOUNDS
from tests.crawling import crawl
from tests.runs.receiver import Receiver
from tests.runs.test_history import as_json, history
from tests.runs.titles import make_project, run_in
from tests.standin import StandIn

HOSTILE = "\x1b[2J@everyone"
SPIDER = """
import json
import scrapy
from pathlib import Path

class SiteSpider(scrapy.Spider):
    name = "site"

    async def start(self):
        yield scrapy.Request("data:,start")

    def parse(self, response):
        yield from json.loads(Path("site.json").read_text())
"""
OWN = """
from scrapy_durable.runs.monitors import Finding

def titles(run, before):
    if before and run["items"] < before[-1]["items"]:
        yield Finding("titles", "warning", "no fewer", str(run["items"]), "there are fewer titles")

def broken(run, before):
    raise ValueError("on purpose")

def wrong(run, before):
    yield "a text"
"""
HISTORY = ("-s", "DURABLE_RUNS_FILE=runs.jsonl")


def run_of(number: int, **numbers: Any) -> dict[str, Any]:
    """A complete run as `runs.jsonl` has it."""
    measured = {"kept": 100, "requests": 1000, "seconds": 60.0, "failed": 0, "dead": 0}
    return {
        "run": f"run-{number}",
        "spider": "site",
        "command": "same",
        "verdict": "complete",
        "items": 100,
        "fill": {"title": 1.0, "price": 0.9, "rare": 0.02},
        "measured": {**measured, **numbers},
    }


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ({}, []),
        ({"kept": 70, "requests": 333, "seconds": 20}, []),  # the second run of a project that stores answers
        ({"kept": 69}, [("kept", ERROR)]),
        ({"kept": 301}, [("kept", WARNING)]),
        ({"requests": 5001}, [("requests", WARNING)]),
        ({"seconds": 600}, []),  # a busy machine
        ({"seconds": 700}, [("seconds", WARNING)]),
        ({"failed": 9, "requests": 9}, []),
        ({"failed": 101}, [("failed", WARNING)]),
        ({"dead": 11}, [("dead", WARNING)]),
    ],
)
def test_what_is_far_from_the_median_is_found(numbers: dict[str, int], found: list[tuple[str, str]]) -> None:
    before = [run_of(1, kept=1), run_of(2), run_of(3)]
    monitor = core_monitor(DURABLE_MONITOR_BOUNDS)
    assert [(one.monitor, one.severity) for one in monitor(run_of(4, **numbers), before)] == found
    assert not list(core_monitor({})(run_of(4, **numbers), before)), "every bound can be switched off"
    assert not list(monitor(run_of(4, **numbers), [])), "the first run is compared with none"


def test_a_field_that_most_had_is_missed_and_a_rare_one_is_not() -> None:
    run = {**run_of(4), "fill": {"price": 0.5}}
    found = list(core_monitor(DURABLE_MONITOR_BOUNDS)(run, [run_of(1)]))
    assert [one.monitor for one in found] == ["fill:price", "fill:title"]
    assert found[0].sentence == "50.0% of the items have 'price', usually 90.0%"
    assert not list(core_monitor(DURABLE_MONITOR_BOUNDS)({**run, "items": 19}, [run_of(1)])), "too few to say"


def test_a_run_is_compared_with_the_last_complete_ones_that_were_asked_for_the_same() -> None:
    runs = [run_of(number) for number in range(5)]
    runs[1]["verdict"] = "incomplete"
    runs[2]["command"] = "other"
    del runs[3]["measured"]
    assert [one["run"] for one in comparable(run_of(9), runs, 10)] == ["run-0", "run-4"]
    assert [one["run"] for one in comparable(run_of(9), runs, 1)] == ["run-4"]
    assert comparable(run_of(9), runs, 0) == []


def test_findings_stand_in_history_log_and_message_and_change_no_exit_status(
    tmp_path: Path, receiver: Receiver
) -> None:
    own = ",".join(f"titles.own.{name}" for name in ("broken", "titles", "wrong", "nowhere"))
    project = make_project(tmp_path, f"BOT_NAME = 'titles'\nDURABLE_MONITORS = '{own}'", SPIDER)
    (project / "titles" / "own.py").write_text(OWN)
    env = {"DURABLE_NOTIFY": receiver.address}
    items = [{"number": number, "title": "a title", HOSTILE: 1} for number in range(40)]

    def crawled(items: list[dict[str, Any]], *options: str) -> Any:
        (project / "site.json").write_text(json.dumps(items))
        done = run_in(project, "crawl", "site", *HISTORY, *options, env=env)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        run = json.loads((project / "runs.jsonl").read_bytes().splitlines()[-1])
        return run, done.stderr

    for _ in range(2):
        run, _ = crawled(items)
        assert (run["findings"], run["measured"]["kept"], run["measured"]["requests"]) == ([], 40, 1)
    assert receiver.received == [], "an ordinary second run is nothing to tell of"
    other, _ = crawled(items[:1], "-a", "asked=other")
    assert other["findings"] == [], "a run that was asked for something else is none to compare with"

    run, log = crawled([{"number": number} for number in range(25)])
    assert [(one["monitor"], one["severity"]) for one in run["findings"]] == [
        ("kept", "error"),
        (f"fill:{HOSTILE}", "error"),
        ("fill:title", "error"),
        ("titles", "warning"),
    ]
    kept = run["findings"][0]
    assert (kept["expected"], kept["found"]) == ("at least 28", "25")
    assert "Unusual about this run (kept): 25 kept, usually 40: at least 28 expected" in log
    assert "The monitor titles.own.broken is broken, and left out: ValueError: on purpose" in log
    assert "The monitor titles.own.wrong is broken" in log
    assert "The monitor titles.own.nowhere is broken" in log
    assert receiver.address not in log
    [text] = receiver.texts
    assert text.startswith("titles: site complete, 4 unusual\nproject titles, spider site, run ")
    assert run["run"] in text
    assert "error: 25 kept, usually 40" in text
    assert f"next: scrapy runs show {run['run']}" in text
    shown = run_in(project, "runs", "show", run["run"], *HISTORY).stdout
    assert json.loads(shown)["findings"] == run["findings"]
    assert run_in(project, "runs", *HISTORY).stdout.splitlines()[-1].endswith("complete !")
    for said in (log, text, shown):
        assert "\x1b" not in said
    assert "@" not in text


@pytest.mark.parametrize("bounds", ['{"keptmin": 1}', '{"kept_min": "x"}', "[1", '{"kept_min": -1}', "7"])
def test_bounds_that_nobody_reads_are_refused_by_name(bounds: str) -> None:
    with pytest.raises(ConfigurationError, match="DURABLE_MONITOR_BOUNDS: "):
        Config.from_settings(Settings({"DURABLE_MONITOR_BOUNDS": bounds}))


def test_bounds_that_are_not_named_stay() -> None:
    config = Config.from_settings(Settings({"DURABLE_MONITOR_BOUNDS": '{"kept_min": 0.9, "kept_max": null}'}))
    assert config.monitor_bounds == {
        **{name: bound for name, bound in DURABLE_MONITOR_BOUNDS.items() if name != "kept_max"},
        "kept_min": 0.9,
    }


def test_a_catalogue_that_has_lost_many_listings_is_published_and_told_of(
    stand_in: Callable[..., StandIn], tmp_path: Path, receiver: Receiver
) -> None:
    site = stand_in(100)
    for number in range(3):
        if number == 2:
            site.faults([], churn=[{"remove": {"offset": 0, "count": 40}}])
        with crawl(site.url, tmp_path, env={"DURABLE_NOTIFY": receiver.address}) as run:
            assert run.wait(60) == 0, run.log
    first, second, last = as_json(tmp_path)
    assert (first["findings"], second["findings"]) == ([], [])
    assert second["measured"]["requests"] < first["measured"]["requests"], "specifications were stored"
    assert last["measured"]["removed"] == 40
    found = {one["monitor"]: one for one in last["findings"]}
    assert set(found) == {"kept", "removals"}
    assert (
        found["removals"]["sentence"] == "40 of 100 listings were removed since the last complete catalogue"
    )
    assert run.run_json()["findings"] == last["findings"]
    assert run.run_json()["published"] == "cars.json"
    assert len(run.cars()) == 60
    assert len(receiver.texts) == 1
    assert "cars complete, 2 unusual" in receiver.texts[0]
    assert history(tmp_path)[-1].endswith("complete !")
