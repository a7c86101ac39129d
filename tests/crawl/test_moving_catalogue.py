"""Listings that come and go while a crawl runs: all that lived through it are there, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.conftest import SECONDS
from tests.crawling import Crawl, crawl
from tests.standin import StandIn

LISTINGS, PAGE = 160, 20
ONE_BY_ONE = {"CARS_PAGE_SIZE": PAGE, "CONCURRENT_REQUESTS": 1}
"""Pages are asked for in order, so that changes by the number of pages fall where the tests want them."""


@pytest.fixture
def moving(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> Callable[..., tuple[Crawl, set[str], StandIn]]:
    """Crawls a catalogue that changes as `churn` says, page by page.

    Returns the crawl, ended complete, the ids of the listings that lived through it, and the stand-in.
    """

    def run_crawl(churn: list[dict[str, Any]]) -> tuple[Crawl, set[str], StandIn]:
        site = stand_in(LISTINGS)
        before = set(site.ids())
        site.faults([], churn=churn)
        with crawl(site.url, tmp_path / "data", settings=ONE_BY_ONE) as run:
            assert run.wait(SECONDS) == 0, run.log
        cars = run.cars()
        assert len(cars) == len(set(cars))
        return run, before & set(site.ids()), site

    return run_crawl


def test_a_catalogue_that_stands_still_is_read_once(moving: Callable[..., Any]) -> None:
    run, lived_through, site = moving([])
    assert set(run.cars()) == lived_through
    assert run.run_json()["passes"] == 1
    assert len(site.pages()) == LISTINGS // PAGE


def test_listings_that_are_removed_pull_others_past_the_pages_and_a_second_pass_finds_them(
    moving: Callable[..., Any],
) -> None:
    run, lived_through, site = moving([{"after_pages": 6, "remove": {"offset": 3, "count": 2}}])
    assert lived_through <= set(run.cars())
    assert run.run_json()["passes"] == 2
    # Without the second pass some would have slipped past, so the test can fail.
    assert len(site.pages()) > LISTINGS // PAGE


def test_one_pass_alone_would_have_missed_them_and_says_so(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS, churn=[{"after_pages": 6, "remove": {"offset": 3, "count": 2}}])
    with crawl(site.url, tmp_path / "data", settings={**ONE_BY_ONE, "CARS_MAX_PASSES": 1}) as run:
        assert run.wait(SECONDS) == 1, run.log
    assert not set(site.ids()) <= set(run.cars())
    assert run.run_json()["complete"] is False


def test_listings_that_are_added_shift_the_pages_and_the_last_ones_next_is_followed(
    moving: Callable[..., Any],
) -> None:
    run, lived_through, site = moving([{"after_pages": 4, "add": 25}])
    assert lived_through <= set(run.cars())
    first_pass = [page for page in site.pages() if f"offset%5D={LISTINGS}&" in page]
    assert first_pass, "the catalogue grew, so there was a page past the first total"


def test_listings_that_come_and_go_all_the_time(moving: Callable[..., Any]) -> None:
    churn = [
        {"after_pages": 2, "add": 3, "remove": {"offset": 30, "count": 1}},
        {"after_pages": 5, "add": 1, "remove": {"offset": 100, "count": 4}},
        {"after_pages": 9, "add": 7, "remove": 2},
        {"after_pages": 15, "remove": {"offset": 0, "count": 5}},
    ]
    run, lived_through, _ = moving(churn)
    assert lived_through <= set(run.cars())
    assert 1 < run.run_json()["passes"] <= 4


def test_a_price_that_changes_between_two_passes_is_kept_as_it_is_last(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS)
    known = site.ids()[10]
    site.faults(
        [],
        churn=[
            {"after_pages": 6, "remove": {"offset": 3, "count": 1}},
            {"after_pages": 8, "price": {known: 123_456}},
        ],
    )
    with crawl(site.url, tmp_path / "data", settings=ONE_BY_ONE) as run:
        assert run.wait(SECONDS) == 0, run.log
    assert prices(run, known) == [123_456]


def prices(run: Crawl, listing_id: str) -> list[int]:
    """The price in each record that `cars.json` has of a listing."""
    records = json.loads((run.output_dir / "cars.json").read_bytes())
    return [record["car_attrs"]["price"] for record in records if record["id"] == listing_id]
