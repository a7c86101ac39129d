"""Whatever shape a site's answers have, each listing that has what the crawl needs is there, as it came."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from carscraper.api.deviations import MAY_BE_ABSENT, MISSING
from carscraper.api.search_page import ATTRIBUTE_TYPES, parse_search_page
from carscraper.demo.catalogue import Catalogue
from carscraper.demo.faults import shape
from tests.crawling import crawl, records
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

LISTINGS, SEED, SECONDS = 150, 2, 240
DROP = {"drop": True}
OPTIONAL = sorted(ATTRIBUTE_TYPES.keys() - {"code", "year"})
VALUES: dict[str, Any] = {
    "number": 12.5,
    "text": "POA",
    "null": None,
    "list": [1, "two", None],
    "object": {"a": [1]},
    "missing": DROP,
}


@dataclass
class Case:
    """What is odd, and what comes of it."""

    sets: list[tuple[str, Any]]
    share: int = 100
    match: str = PAGE_PATH
    whole: bool = False
    status: int = 0
    paths: list[str] = field(default_factory=list)
    """Deviations that `run.json` has to name."""
    said: str = ""
    """Status in `run.json`, where it is told."""

    @property
    def rule(self) -> dict[str, Any]:
        return {
            "match": self.match,
            "fault": "shape",
            "sets": self.sets,
            "share": self.share,
            "whole": self.whole,
        }

    def hits(self, listing_id: str) -> bool:
        return self.share >= 100 or int(listing_id) % 100 < self.share


def attribute(name: str, value: Any) -> tuple[str, Any]:
    return f"attributes.{name}", value


def page(path: str, value: Any, *paths: str) -> Case:
    return Case([(path, value)], whole=True, paths=list(paths or [path]))


def spec(path: str, value: Any, *paths: str, status: int = 0, said: str = "") -> Case:
    return Case(
        [(path, value)], match=SPEC_PATH, whole=True, status=status, said=said, paths=list(paths or ["specs"])
    )


def odd(name: str, value: Any) -> bool:
    known = ATTRIBUTE_TYPES[name]
    return value == DROP or type(value) not in known


GROUP = {"title": "Engine", "attrs": [{"label": "Cylinders", "value": "4"}]}
CASES: dict[str, Case] = {}
for kind, value in VALUES.items():
    for share in (100, 4):
        names = [name for name in OPTIONAL if odd(name, value)]
        CASES[f"every optional attribute is {kind}, in {share} %"] = Case(
            [attribute(name, value) for name in OPTIONAL],
            share,
            paths=[f"data[].attributes.{name}" for name in names],
        )
for name, kind in (
    ("price", "text"),
    ("mileage", "list"),
    ("image", "missing"),
    ("website_url", "number"),
    ("seller_types", "object"),
    ("title", "list"),
    ("monthly_price", "missing"),
    ("seats", "number"),
):
    assert odd(name, VALUES[kind])
    CASES[f"{name} alone is {kind}"] = Case(
        [attribute(name, VALUES[kind])], paths=[f"data[].attributes.{name}"]
    )
CASES |= {
    "a new attribute": Case([attribute("sunroof", [1])], paths=["data[].attributes.sunroof"]),
    "an id that is a number": Case([("type", 5)], paths=["data[].type"]),
    "a year that is text": Case([attribute("year", "2017")], paths=["data[].attributes.year"]),
    "a year with a point": Case([attribute("year", 2017.0)], 4, paths=["data[].attributes.year"]),
    "a code that is a number": Case([attribute("code", 123)], paths=["data[].attributes.code"]),
    "totalPages as text": page("meta.totalPages", "3"),
    "no currentPage": page("meta.currentPage", DROP),
    "featured listings as text": page("meta.featured_listings", "none"),
    "a total as text": page("meta.total", str(LISTINGS)),
    "no total": page("meta.total", DROP),
    "a total that is none": page("meta.total", "many"),
    "no meta": page("meta", DROP),
    "no links.self": page("links.self", DROP),
    "links.self to the first page": page("links.self", "http://h/?page%5Boffset%5D=0"),
    "links.last as a number": page("links.last", 7),
    "a link of another kind": page("links.related", {"href": "x"}),
    "a new part": page("jsonapi", {"version": "1"}),
    "a flat list of groups": spec("data", [GROUP, GROUP], "specs.data[]"),
    "several lists of groups": spec("data", [[GROUP], [GROUP]], "specs.data"),
    "values that are numbers": spec("data[*][*].attrs[*].value", 4.5, "specs.data[][].attrs[].value"),
    "groups without title": spec("data[*][*].title", DROP, "specs.data[][].title"),
    "labels that are null": spec("data[*][*].attrs[*].label", None, "specs.data[][].attrs[].label"),
    "attrs as text": spec("data[*][*].attrs", "none", "specs.data[][].attrs"),
    "an empty specification": Case([("data", [[]])], match=SPEC_PATH, whole=True),
    "no groups at all": Case([("data", [])], match=SPEC_PATH, whole=True),
    "specifications that are null": Case(
        [("data", None)], match=SPEC_PATH, whole=True, status=1, said="stopped: api_changed"
    ),
    "specifications without data": Case(
        [("data", DROP)], match=SPEC_PATH, whole=True, status=1, said="stopped: api_changed"
    ),
}
for name, value in (("code", DROP), ("code", "a b"), ("year", None), ("year", "last")):
    word = "missing" if value == DROP else repr(value)
    CASES[f"{name} is {word} in 4 %"] = Case([attribute(name, value)], 4, status=1, said="incomplete")
    CASES[f"{name} is {word} in all"] = Case([attribute(name, value)], status=1, said="stopped: api_changed")
AT_EITHER_SPEED = [
    "every optional attribute is text, in 4 %",
    "no total",
    "specifications that are null",
    "code is missing in 4 %",
    "code is missing in all",
]


@pytest.fixture(scope="module")
def site() -> Iterator[StandIn]:
    with StandIn(LISTINGS, seed=SEED) as standin:
        yield standin


def run_case(
    site: StandIn, case: Case, output_dir: Path, concurrency: int
) -> tuple[int, dict[str, Any], str]:
    site.faults([case.rule])
    settings = {
        "CARS_PAGE_SIZE": 50,
        "RETRY_TIMES": 1,
        "DURABLE_RETRY_BASE_DELAY": 0.05,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
    }
    with crawl(site.url, output_dir, settings=settings) as run:
        return run.wait(SECONDS), run.run_json(), run.log


def sent(case: Case) -> dict[str, dict[str, Any]]:
    """What the site says of each listing."""
    catalogue = Catalogue(LISTINGS, SEED)
    found = {}
    for listing_id in catalogue.ids:
        listing = copy.deepcopy(catalogue.listing(listing_id))
        if case.match == PAGE_PATH and not case.whole:
            shape({"data": [listing]}, case.sets, case.share, whole=False)
        found[listing_id] = listing["attributes"]
    return found


def is_usable(attributes: dict[str, Any]) -> bool:
    code = attributes.get("code")
    year = attributes.get("year")
    return code not in (None, "a b") and year not in (None, "last")


@pytest.mark.parametrize("name", CASES)
def test_each_listing_that_has_what_is_needed_is_there_as_it_came(
    name: str, site: StandIn, tmp_path: Path
) -> None:
    case = CASES[name]
    status, told, log = run_case(site, case, tmp_path, 32)
    assert status == case.status, log
    if case.said:
        assert told["status"] == case.said, log
    if case.said != "stopped: api_changed" or case.match == SPEC_PATH:
        usable = {one: attributes for one, attributes in sent(case).items() if is_usable(attributes)}
        there = {one["id"]: one["car_attrs"] for one in records(tmp_path)}
        assert there == usable
    for path in case.paths:
        assert path in told["deviations"], json.dumps(told["deviations"])
        assert told["deviations"][path]["count"] == sum(told["deviations"][path]["types"].values())
    for path in case.paths[:1]:
        types = set(told["deviations"][path]["types"])
        is_usual = types == {MISSING} and path.rpartition(".")[2] in MAY_BE_ABSENT
        assert (f"departs from its known shape: {path}:" in log) is not is_usual, log


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("kind", VALUES)
def test_one_attribute_that_is_odd_alone_is_read_as_it_came_and_counted(kind: str, name: str) -> None:
    """Without a crawl, which would show the same for each of them."""
    sets = [attribute(name, VALUES[kind])]
    catalogue = Catalogue(LISTINGS, SEED)
    page = {"data": [copy.deepcopy(catalogue.listing(one)) for one in catalogue.ids[:50]]}
    shape(page, sets, 100, whole=False)
    read = parse_search_page(orjson.dumps(page))
    assert [one.attributes for one in read.listings] == [one["attributes"] for one in page["data"]]
    path = f"data[].attributes.{name}"
    assert (read.deviations[path]["count"] if path in read.deviations else 0) == 50 * odd(name, VALUES[kind])


@pytest.mark.parametrize("name", AT_EITHER_SPEED)
def test_the_verdict_does_not_depend_on_how_many_are_asked_for_at_once(
    name: str, site: StandIn, tmp_path: Path
) -> None:
    case = CASES[name]
    slow, fast = (run_case(site, case, tmp_path / str(concurrency), concurrency) for concurrency in (1, 32))
    assert (slow[0], slow[1]["status"]) == (fast[0], fast[1]["status"]), fast[2]
    if slow[1]["status"] != "stopped: api_changed":
        for member in ("kept", "set_aside_count", "deviations", "spec_missing"):
            assert slow[1][member] == fast[1][member]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 55
