"""`-a`: the API's own filters and a limit; whatever else is refused by name before anything is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.crawl.conftest import SECONDS, Site, Start


@pytest.mark.parametrize(
    ("arguments", "fits", "asked"),
    [
        (
            ["make=Toyota", "year=2012-2018"],
            lambda car: car["make"] == "Toyota" and 2012 <= car["year"] <= 2018,
            {"make_model_variant[Toyota][All][All]": [""], "year[0]": ["2012-2018"]},
        ),
        (
            ["province=western cape", "price=100000-400000"],
            lambda car: car["province"] == "Western Cape" and 100_000 <= (car["price"] or 0) <= 400_000,
            {"province[0]": ["Western Cape"], "price[0]": ["100000-400000"]},
        ),
    ],
)
def test_a_search_reads_what_fits_and_nothing_else(
    site: Site,
    start: Start,
    arguments: list[str],
    fits: Callable[[dict[str, Any]], bool],
    asked: dict[str, list[str]],
) -> None:
    run = start(*(word for argument in arguments for word in ("-a", argument)))
    assert run.wait(SECONDS) == 0, run.log
    wanted = [listing_id for listing_id in site.catalogue.ids if fits(known(site, listing_id))]
    assert wanted
    assert sorted(run.cars()) == sorted(wanted)
    for page in site.standin.pages():
        query = parse_qs(urlsplit(page).query, keep_blank_values=True)
        assert {name: query[name] for name in asked} == asked


def test_a_limit_reads_the_newest_and_no_page_more_than_needed(site: Site, start: Start) -> None:
    run = start("-a", "limit=45", settings={"CARS_PAGE_SIZE": 20})
    assert run.wait(SECONDS) == 0, run.log
    assert len(site.standin.pages()) == 3
    found = run.cars()
    assert len(found) == len(set(found))
    assert 40 <= len(found) <= 45  # featured listings count, and may come twice
    assert len(set(found) & set(site.catalogue.ids[:45])) >= 35


def test_a_limit_above_the_total_is_the_whole_catalogue(site: Site, start: Start) -> None:
    run = start("-a", "limit=100000")
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.catalogue.ids)


def test_a_search_that_finds_nothing_is_complete(site: Site, start: Start) -> None:
    run = start("-a", "keyword=zeppelin")
    assert run.wait(SECONDS) == 0, run.log
    assert run.cars() == []


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("colour=red", "unknown argument 'colour'"),
        ("limit=abc", "argument limit='abc'"),
        ("limit=0", "argument limit='0'"),
        ("year=soon", "argument year='soon'"),
        ("province=Atlantis", "argument province='Atlantis'"),
        ("model=Hilux", "argument model needs make"),
    ],
)
def test_a_bad_argument_is_refused_by_name_in_one_line(
    site: Site, start: Start, argument: str, named: str
) -> None:
    run = start("-a", argument, settings={"LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2
    assert run.log.startswith(f"error: {named}")
    assert run.log.count("\n") == 1
    assert site.standin.journal() == []


def known(site: Site, listing_id: str) -> dict[str, Any]:
    """A listing's attributes, None for each that the API leaves out."""
    return {"province": None, "price": None, **site.attributes(listing_id)}
