"""`CARS_SCHEMA_CONTRACT=freeze`: the first departure from the known shape ends the crawl; complete files stay."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import _OURS, Crawl, crawl, records
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

LISTINGS, SECONDS = 60, 120
FREEZE = {"CARS_PAGE_SIZE": 20, "CARS_SCHEMA_CONTRACT": "freeze"}
EVOLVE = {**FREEZE, "CARS_SCHEMA_CONTRACT": "evolve"}
PRICE = "data[].attributes.price"


def odd(
    path: str, value: Any, match: str = PAGE_PATH, *, whole: bool = False, share: int = 100
) -> dict[str, Any]:
    return {"match": match, "fault": "shape", "sets": [(path, value)], "whole": whole, "share": share}


ODD_PRICE = odd("attributes.price", "POA")
DEPARTURES = {
    "an optional attribute": (ODD_PRICE, PRICE),
    "a new attribute": (odd("attributes.sunroof", [1]), "data[].attributes.sunroof"),
    "the envelope": (odd("meta.totalPages", "3", whole=True), "meta.totalPages"),
    "a specification": (
        odd("data[*][*].attrs[*].value", 4.5, SPEC_PATH, whole=True),
        "specs.data[][].attrs[].value",
    ),
    "a listing that cannot be used": (odd("attributes.code", {"drop": True}), "attributes.code: is missing"),
}


@pytest.fixture
def site() -> Iterator[StandIn]:
    with StandIn(LISTINGS) as standin:
        yield standin


def crawled(site: StandIn, out: Path, settings: dict[str, object], status: int) -> Crawl:
    """A crawl to its end, which has that exit status."""
    with crawl(site.url, out, settings=settings) as run:
        assert run.wait(SECONDS) == status, run.log
    return run


def reparse(out: Path, settings: dict[str, object]) -> Crawl:
    """`scrapy reparse`, with an API that nobody serves."""
    command = [sys.executable, "-m", "scrapy", "reparse"]
    for name, value in {
        "CARS_OUTPUT_DIR": out,
        "CARS_API_URL": "http://127.0.0.1:9/fw/public",
        **settings,
    }.items():
        command += ["-s", f"{name}={value}"]
    return Crawl(
        command, out, {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    )


def test_a_site_of_the_known_shape_is_read_to_its_end(site: StandIn, tmp_path: Path) -> None:
    run = crawled(site, tmp_path, FREEZE, 0)
    assert sorted(run.cars()) == sorted(site.ids())
    assert run.run_json()["deviations"] == {}
    with reparse(tmp_path, FREEZE) as again:
        assert again.wait(SECONDS) == 0, again.log


@pytest.mark.parametrize("name", DEPARTURES)
def test_the_first_departure_stops_the_crawl_and_names_its_path(
    name: str, site: StandIn, tmp_path: Path
) -> None:
    rule, path = DEPARTURES[name]
    site.faults([rule])
    run = crawled(site, tmp_path, FREEZE, 1)
    assert "Stopping the crawl (schema_changed): CARS_SCHEMA_CONTRACT=freeze, and " in run.log
    told = run.run_json()
    assert (told["status"], told["complete"]) == ("stopped: schema_changed", False)
    assert path in told["reasons"][0]
    assert f"why: {told['reasons'][0]}" in run.log
    assert not (tmp_path / "cars.json").exists()


def test_it_leaves_the_complete_catalogue_of_another_day(site: StandIn, tmp_path: Path) -> None:
    crawled(site, tmp_path, FREEZE, 0)
    before = (tmp_path / "cars.json").read_bytes()
    site.faults([ODD_PRICE])
    run = crawled(site, tmp_path, FREEZE, 1)
    assert PRICE in run.run_json()["reasons"][0]
    assert (tmp_path / "cars.json").read_bytes() == before
    assert run.run_json()["published"] == "cars.incomplete.json"

    evolved = crawled(site, tmp_path, EVOLVE, 0)
    assert {record["car_attrs"]["price"] for record in records(tmp_path)} == {"POA"}
    assert PRICE in evolved.run_json()["deviations"]


def test_a_crawl_that_was_kept_otherwise_is_not_built_again_under_freeze(
    site: StandIn, tmp_path: Path
) -> None:
    site.faults([ODD_PRICE])
    crawled(site, tmp_path, EVOLVE, 0)
    before = {name: (tmp_path / name).read_bytes() for name in ("cars.json", "run.json")}
    with reparse(tmp_path, FREEZE) as run:
        assert run.wait(SECONDS) == 1, run.log
    assert "Stopping the crawl (schema_changed)" in run.log
    assert PRICE in run.log
    assert "cars.json is as it was" in run.log
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    with reparse(tmp_path, EVOLVE) as run:
        assert run.wait(SECONDS) == 0, run.log


def test_another_word_is_refused_by_name(site: StandIn, tmp_path: Path) -> None:
    run = crawled(site, tmp_path, {"CARS_SCHEMA_CONTRACT": "frozen"}, 2)
    assert run.log.count("\n") == 1, run.log
    assert "CARS_SCHEMA_CONTRACT" in run.log
    assert site.journal() == []
