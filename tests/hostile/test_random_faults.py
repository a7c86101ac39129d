"""One answer in twenty goes wrong, in every way at random: the catalogue is complete all the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.crawling import records
from tests.hostile.conftest import SECONDS, Start
from tests.measured import MEASURED, downloads, peak_memory, taken
from tests.standin import SPEC_PATH, StandIn

EVERY_FAULT: list[dict[str, Any]] = [
    {"fault": "status", "status": 429, "retry_after": "1"},
    {"fault": "status", "status": 500},
    {"fault": "status", "status": 503, "retry_after": "soon"},
    {"fault": "status", "status": 503, "retry_after": "-5"},
    {"fault": "hang"},
    {"fault": "drip"},
    {"fault": "delay"},
    {"fault": "reset"},
    *({"fault": "truncate", "way": way} for way in ("length", "chunked", "close", "gzip")),
    {"fault": "html"},
    {"fault": "html", "status": 503},
    {"fault": "empty"},
    {"fault": "bad_json"},
    {"fault": "bom"},
    {"fault": "charset"},
    *({"fault": "huge", "sized": sized, "bytes": 1 << 30} for sized in (True, False)),
    *({"fault": "bomb", "encoding": encoding, "bytes": 1 << 30} for encoding in ("gzip", "br", "zstd")),
]
IMPATIENT = {"DOWNLOAD_TIMEOUT": 2}


def test_a_catalogue_with_one_fault_in_twenty_is_complete(
    stand_in: Callable[..., StandIn], start: Start
) -> None:
    site = stand_in(1500)
    # A rule is asked only when those before it have let the request pass, so their shares are near enough even.
    share = 0.05 / len(EVERY_FAULT)
    site.faults([{"match": "/fw/public", "probability": share, **fault} for fault in EVERY_FAULT], seed=4)
    run = start(api_url=site.url, settings={**IMPATIENT, "CARS_PAGE_SIZE": 10})
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert "Traceback" not in run.log
    assert sum(entry["fault"] is not None for entry in site.journal()) > 15


def test_each_fault_once_and_some_for_good_leaves_exactly_those_dead(
    site: StandIn, start: Start, tmp_path: Path
) -> None:
    targets = sorted(f"{SPEC_PATH}{quote(code, safe='')}/{year}" for code, year in site.keys())  # noqa: SIM118
    broken = targets[:5]
    once = [{"match": SPEC_PATH, "times": 1, **fault} for fault in EVERY_FAULT]
    for_good = [{"match": f"^{re.escape(target)}$", "fault": "status", "status": 500} for target in broken]
    site.faults([*for_good, *once])
    run = start(settings={**IMPATIENT, "RETRY_TIMES": 4}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    given_up = run.run_json()["given_up"]
    assert {urlsplit(letter["url"]).path for letter in given_up} == set(broken)
    assert sorted(run.cars()) == sorted(site.ids())
    assert {listing for letter in given_up for listing in letter["listings"]} == {
        one["id"] for one in records(run.output_dir) if one["car_specs"] is None
    }
    assert {entry["fault"] for entry in site.journal()} > {fault["fault"] for fault in EVERY_FAULT}


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "huge", "sized": True, "bytes": 1 << 30},
        {"fault": "huge", "sized": False, "bytes": 1 << 30},
        {"fault": "bomb", "encoding": "gzip", "bytes": 1 << 30},
        {"fault": "bomb", "encoding": "br", "bytes": 1 << 30},
        {"fault": "bomb", "encoding": "zstd", "bytes": 1 << 30},
    ],
    ids=["told", "not told", "gzip", "br", "zstd"],
)
def test_a_gigabyte_takes_little_memory_and_holds_up_nobody(
    site: StandIn, start: Start, fault: dict[str, Any]
) -> None:
    """As it is, or what a small body unpacks to."""
    polite = {"CONCURRENT_REQUESTS_PER_DOMAIN": 4, "RETRY_TIMES": 2, "DOWNLOAD_TIMEOUT": 5, **MEASURED}
    run = start(settings=polite)
    assert run.wait(SECONDS) == 0, run.log
    _, usual = taken(run.log)
    site.faults([{"match": SPEC_PATH, "times": 12, **fault}])
    run = start(settings={**polite, "CARS_SPEC_TTL": 0.01})
    run.wait(SECONDS)
    _, peak = taken(run.log)
    assert sum(entry["fault"] is not None for entry in site.journal()) == 12
    assert all(one.own_seconds < 7 for one in downloads(run.log))
    assert peak - usual < 100 * 2**20


def test_the_memory_that_a_process_has_held_is_seen() -> None:
    """The counterpart."""
    holds = "held = bytearray(50 * 2**20); held[:] = b'x' * len(held); del held; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", holds], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = peak_memory(process.pid)
        process.kill()
    assert held > 40 * 2**20
