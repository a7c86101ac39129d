"""Answers that are no answers are asked for again; what stays broken becomes a dead letter with its reason."""

from __future__ import annotations

import re
import sys
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.crawling import records
from tests.hostile.conftest import SECONDS, Start
from tests.measured import MEASURED, downloads, taken
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

WRONG_ANSWERS: dict[str, dict[str, Any]] = {
    "html": {"fault": "html"},
    "empty": {"fault": "empty"},
    "bad_json": {"fault": "bad_json"},
    "bom": {"fault": "bom"},
    "utf-16": {"fault": "charset"},
    "latin-1": {"fault": "charset", "encoding": "utf-16", "declared": "iso-8859-1"},
    "reset": {"fault": "reset"},
    "cut by length": {"fault": "truncate", "way": "length"},
    "cut in chunks": {"fault": "truncate", "way": "chunked"},
    "cut by closing": {"fault": "truncate", "way": "close"},
    "cut in gzip": {"fault": "truncate", "way": "gzip"},
    "too large, told": {"fault": "huge", "sized": True},
    "too large, not told": {"fault": "huge", "sized": False},
    "gzip bomb": {"fault": "bomb", "encoding": "gzip", "bytes": 1 << 24},
    "br bomb": {"fault": "bomb", "encoding": "br", "bytes": 1 << 24},
    "zstd bomb": {"fault": "bomb", "encoding": "zstd", "bytes": 1 << 24},
    "500": {"fault": "status", "status": 500},
    "429": {"fault": "status", "status": 429, "body": "slower"},
}
REASONS = {
    "html": "status 200, but no answer: the body is not JSON",
    "empty": "status 200, but no answer: the body is not JSON",
    "bad_json": 'body begins b\'{"data"',
    "bom": "body begins b'\\xef\\xbb\\xbf{",
    "utf-16": "body begins b'\\xff\\xfe{",
    "latin-1": "body begins b'\\xff\\xfe{",
    "reset": "DownloadFailedError",
    "cut by length": "ResponseDataLossError",
    "cut in chunks": "ResponseDataLossError",
    "cut by closing": "status 200, but no answer: the body is not JSON",
    "cut in gzip": "status 200, but no answer: the body is not JSON",
    "too large, told": "DownloadCancelledError",
    "too large, not told": "DownloadCancelledError",
    "gzip bomb": "status 200, but the body is too_large",
    "br bomb": "status 200, but the body is too_large",
    "zstd bomb": "status 200, but the body is too_large",
    "500": "status 500",
    "429": "status 429, 3 tries; body begins b'slower'",
}
KINDS = (PAGE_PATH, SPEC_PATH)


def test_an_answer_that_is_none_is_asked_for_again(site: StandIn, start: Start) -> None:
    site.faults([{"match": kind, "times": 1, **fault} for fault in WRONG_ANSWERS.values() for kind in KINDS])
    run = start(settings={"RETRY_TIMES": len(WRONG_ANSWERS)})
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert "Traceback" not in run.log
    assert sum(entry["fault"] is not None for entry in site.journal()) == 2 * len(WRONG_ANSWERS)


def test_what_stays_broken_is_a_dead_letter_with_its_reason_and_the_rest_is_complete(
    site: StandIn, start: Start
) -> None:
    targets = sorted(f"{SPEC_PATH}{quote(code, safe='')}/{year}" for code, year in site.keys())  # noqa: SIM118
    broken = dict(zip(targets, WRONG_ANSWERS, strict=False))
    site.faults([{"match": f"^{re.escape(t)}$", **WRONG_ANSWERS[name]} for t, name in broken.items()])
    run = start(settings={"RETRY_TIMES": 2})
    assert run.wait(SECONDS) == 1, run.log
    assert "Traceback" not in run.log
    given_up = run.run_json()["given_up"]
    dead = {urlsplit(letter["url"]).path: letter["reason"] for letter in given_up}
    assert dead.keys() == broken.keys()
    waiting = [listing for letter in given_up for listing in letter["listings"]]
    assert len(waiting) >= len(broken)
    assert sorted(run.cars()) == sorted(site.ids())
    assert {one["id"] for one in records(run.output_dir) if one["car_specs"] is None} == set(waiting)
    for target, name in broken.items():
        assert "3 tries" in dead[target]
        assert REASONS[name] in dead[target], name
    # aiohttp asks once more by itself when a connection that was used before is reset, so that one is left out.
    exact = [target for target, name in broken.items() if name != "reset"]
    tries = sum(site.specs().count(target) for target in exact)
    assert tries == 3 * sum(urlsplit(letter["url"]).path in exact for letter in given_up)


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_no_worker_is_stuck_for_longer_than_its_time_out(site: StandIn, start: Start, fault: str) -> None:
    site.faults([{"match": SPEC_PATH, "times": 2, "fault": fault}])
    run = start(settings={"DOWNLOAD_TIMEOUT": 2, **MEASURED})
    assert run.wait(SECONDS) == 0, run.log
    assert taken(run.log)[0] < 12
    hit = [entry["target"] for entry in site.journal() if entry["fault"]]
    assert len(hit) == 2
    made = downloads(run.log)
    assert all(max(one.seconds for one in made if one.url.endswith(target)) > 1.5 for target in hit)
    assert all(one.own_seconds < 4 for one in made)


def test_a_bug_in_a_callback_stays_loud_and_makes_a_dead_letter(site: StandIn, start: Start) -> None:
    """The counterpart: only an `ApiError` is taken for no answer."""
    buggy = (
        "from carscraper.spiders.cars import CarsSpider\n"
        "CarsSpider.parse_spec = lambda self, response, listings: {}['a bug']\n"
        "CarsSpider.parse_spec.__name__ = 'parse_spec'\n"
        "from scrapy.cmdline import execute\n"
        "execute()\n"
    )
    run = start("-a", "limit=20", runner=(sys.executable, "-c", buggy))
    assert run.wait(SECONDS) == 1, run.log
    assert "Traceback" in run.log
    assert "KeyError" in run.run_json()["given_up"][0]["reason"]
    assert len(site.specs()) == len(set(site.specs())) > 0
