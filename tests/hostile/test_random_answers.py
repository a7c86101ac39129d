"""Whatever a site answers, the crawl ends, and its exit status and `run.json` agree with what was lost.

Each example is a crawl by the real command line. `FUZZ_EXAMPLES=100` makes as many that differ from run to run.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.samples import listing, specs
from tests.api.test_hostile_answers import VALUES, mutations
from tests.crawling import Crawl, crawl
from tests.hostile.conftest import QUICK
from tests.raw_site import USUAL_SPEC, Answer, Last, RawCatalogue, RawSite
from tests.standin import PAGE_PATH, SPEC_PATH

LISTINGS, PAGE_SIZE = 24, 8
SECONDS = 300
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
FIXED = settings(
    max_examples=EXAMPLES or 3,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
IMPATIENT = {
    **QUICK,
    "RETRY_TIMES": 2,
    "DURABLE_MAX_RETRY_AFTER": 0.1,
    "CARS_PAGE_SIZE": PAGE_SIZE,
}

STATUSES = (
    200,
    200,
    200,
    200,
    100,
    101,
    103,
    201,
    204,
    206,
    301,
    304,
    400,
    403,
    404,
    410,
    418,
    429,
    500,
    503,
    999,
)
NAMES = (
    b"Content-Type",
    b"Content-Encoding",
    b"Content-Length",
    b"Transfer-Encoding",
    b"Retry-After",
    b"Location",
    b"Set-Cookie",
    b"X-Odd",
)
VALUES_OF_HEADERS = st.one_of(
    st.sampled_from(
        [b"gzip", b"br, zstd", b"gzip,gzip,gzip,gzip", b"chunked", b"-1", b"99999999", b"utf-16"]
    ),
    st.binary(max_size=20).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b"")),
)
BODIES = st.one_of(
    st.binary(max_size=100),
    st.sampled_from(
        [
            USUAL_SPEC[:-1],
            b"\xef\xbb\xbf" + USUAL_SPEC,
            b"<html>down for maintenance</html>",
            b" " * 300_000,
            b"[" * 2000,
            b'{"data": ' + b"[" * 300 + b"]" * 300 + b"}",
            b'{"data": [[{"title": "\\ud800", "attrs": []}]]}',
        ]
    ),
    mutations(specs()).map(lambda value: json.dumps(value).encode()),
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Bytes that may be an answer, or look like one."""
    body = draw(BODIES)
    if draw(st.integers(0, 9)) == 0:
        return body
    fields = draw(st.lists(st.tuples(st.sampled_from(NAMES), VALUES_OF_HEADERS), max_size=3))
    if draw(st.booleans()):
        body = gzip.compress(body)
        fields.append((b"Content-Encoding", b"gzip"))
    if draw(st.booleans()):
        fields.append((b"Content-Length", b"%d" % max(0, len(body) + draw(st.integers(-1, 1)))))
    head = [b"HTTP/1.1 %d Fine" % draw(st.sampled_from(STATUSES)), b"Connection: close"]
    return b"\r\n".join([*head, *(b"%b: %b" % one for one in fields), b"", body])


@dataclass
class Script:
    """What is answered first to one target, and whether for good."""

    answers: list[bytes]
    for_good: bool


@dataclass
class Plan:
    """What goes wrong on a site."""

    specs: dict[int, Script]
    """By the position of the listing."""
    pages: dict[int, Script]
    """By number."""
    entries: dict[int, Any] = field(default_factory=dict)
    """Instead of the listing of that position."""


SCRIPTS = st.builds(Script, st.lists(answers(), min_size=1, max_size=2), st.booleans())
PLANS = st.builds(
    Plan,
    st.dictionaries(st.integers(0, LISTINGS - 1), SCRIPTS, min_size=6, max_size=16),
    st.dictionaries(st.integers(0, LISTINGS // PAGE_SIZE - 1), SCRIPTS, max_size=2),
)
ODD_ENTRIES = st.dictionaries(
    st.integers(0, LISTINGS - 1), mutations(listing(1)) | VALUES, min_size=4, max_size=12
)


class FuzzedCatalogue(RawCatalogue):
    """A catalogue that goes by a plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(LISTINGS)
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.scripts = {self.spec_path(number): script for number, script in plan.specs.items()}
        self.scripts |= {f"page {number}": script for number, script in plan.pages.items()}
        self.usual = {one["id"]: self.spec_path(number) for number, one in enumerate(self.listings)}
        self.listings = [plan.entries.get(number, one) for number, one in enumerate(self.listings)]

    def __call__(self, target: str) -> Answer:
        path, query = urlsplit(target)[2:4]
        if path == PAGE_PATH:
            path = f"page {int(parse_qs(query)['page[offset]'][0]) // PAGE_SIZE}"
        script = self.scripts.get(path)
        with self._lock:
            number = self._asked[path]
            self._asked[path] += 1
        if script and (script.for_good or number < len(script.answers)):
            return Last(script.answers[min(number, len(script.answers) - 1)])
        return super().__call__(target)


def crawl_of(catalogue: RawCatalogue, output_dir: Path) -> tuple[int, Crawl]:
    with RawSite(catalogue) as site, crawl(site.url, output_dir, settings=IMPATIENT) as run:
        return run.wait(SECONDS), run


def records_of(run: Crawl) -> list[dict[str, Any]]:
    """What was published, be it complete or not."""
    found = [run.output_dir / name for name in ("cars.incomplete.json", "cars.json")]
    path = next((path for path in found if path.exists()), None)
    records: list[dict[str, Any]] = json.loads(path.read_bytes()) if path else []
    return records


def agree(status: int, run: Crawl) -> tuple[list[dict[str, Any]], set[str]]:
    """Hold the exit status, `run.json` and what was published to each other; the records, and the listings that are
    named as lost.
    """
    told = run.run_json()
    assert status in (0, 1), run.log
    assert told["complete"] is (status == 0), run.log
    assert bool(told["reasons"]) is (status == 1)
    assert "Traceback" not in run.log, run.log
    records = records_of(run)
    assert len({record["id"] for record in records}) == len(records) == told["kept"]
    named = {listing for letter in told["given_up"] for listing in letter["listings"]}
    named |= {aside["id"] for aside in told["set_aside"]} | set(told["missing"])
    if status == 0:
        assert not named
        assert not told["given_up"]
        assert all(record["car_specs"] is not None for record in records)
    return records, named


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@FIXED
@given(plan=PLANS)
def test_any_answers_cost_what_the_verdict_names(plan: Plan) -> None:
    catalogue = FuzzedCatalogue(plan)
    with tempfile.TemporaryDirectory() as directory:
        status, run = crawl_of(catalogue, Path(directory))
        records, named = agree(status, run)
        for letter in run.run_json()["given_up"]:
            path, query = urlsplit(letter["url"])[2:4]
            if path == PAGE_PATH:
                offset = int(parse_qs(query)["page[offset]"][0])
                named |= set(catalogue.ids[offset : offset + PAGE_SIZE] if offset else catalogue.ids)
    whole = {record["id"]: record["car_specs"] for record in records if record["car_specs"] is not None}
    assert set(catalogue.ids) - set(whole) <= named, run.log
    for listing_id, groups in whole.items():
        if catalogue.usual[listing_id] not in catalogue.scripts:
            assert groups == json.loads(USUAL_SPEC)["data"][0]


@FIXED
@given(odd=ODD_ENTRIES)
def test_any_listings_cost_what_the_verdict_names(odd: dict[int, Any]) -> None:
    catalogue = FuzzedCatalogue(Plan({}, {}, odd))
    with tempfile.TemporaryDirectory() as directory:
        status, run = crawl_of(catalogue, Path(directory))
        records, named = agree(status, run)
        pages_lost = any(PAGE_PATH in letter["url"] for letter in run.run_json()["given_up"])
    usual = {one["id"] for number, one in enumerate(catalogue.listings) if number not in odd}
    assert pages_lost or usual <= {record["id"] for record in records} | named, run.log


def test_a_site_that_answers_as_it_should_is_complete() -> None:
    """The counterpart: what is lost above is lost by what the site says."""
    catalogue = FuzzedCatalogue(Plan({}, {}))
    with tempfile.TemporaryDirectory() as directory:
        status, run = crawl_of(catalogue, Path(directory))
        records, named = agree(status, run)
    assert status == 0
    assert {record["id"] for record in records} == set(catalogue.ids)
    assert not named
    assert sum(SPEC_PATH in path for path in catalogue.usual.values()) == LISTINGS
