"""`-a`: the API's own filters and a limit; whatever else is refused by name before anything is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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


def test_a_search_that_finds_nothing_is_complete_and_says_so_aloud(
    site: Site, start: Start, tmp_path: Path
) -> None:
    run = start("-a", "keyword=zeppelin", "-a", "limit=5")
    assert run.wait(SECONDS) == 0, run.log
    assert run.cars() == []
    assert "\nno listing matches keyword=zeppelin limit=5\n" in run.log
    assert run.place == tmp_path / "data" / "searches" / "keyword=zeppelin,limit=5"


@pytest.mark.parametrize("argument", ["make=Toyota", "limit=20", "keyword=zeppelin"])
def test_a_search_leaves_the_whole_catalogue_as_it_was_and_says_where_it_is_itself(
    site: Site, start: Start, tmp_path: Path, argument: str
) -> None:
    whole = start()
    assert whole.wait(SECONDS) == 0, whole.log
    assert "this search is in" not in whole.log
    data = tmp_path / "data"
    before = files_of(data, but_for="searches")
    site.standin.reset_journal()
    search = start("-a", argument)
    assert search.wait(SECONDS) == 0, search.log
    assert search.place == data / "searches" / argument
    assert f"\nthis search is in {search.place}; the whole catalogue is left as it was\n" in search.log
    assert search.run_json()["kept"] == len(search.cars()) < len(whole.cars())
    assert files_of(data, but_for="searches") == before
    assert site.standin.specs() == []  # what the catalogue's crawl has stored is shared


def test_a_search_that_is_stopped_or_fails_leaves_the_whole_catalogue_as_it_was(
    site: Site, start: Start, tmp_path: Path
) -> None:
    assert start().wait(SECONDS) == 0
    data = tmp_path / "data"
    before = files_of(data, but_for="searches")
    site.standin.faults([{"match": "/v3/vehicle", "fault": "status", "status": 404}])
    failed = start("-a", "make=Toyota")
    assert failed.wait(SECONDS) == 1, failed.log
    assert files_of(data, but_for="searches") == before
    assert "no listing matches" not in failed.log


def test_a_whole_catalogue_that_has_no_search_in_it_leaves_searches_alone(
    site: Site, start: Start, tmp_path: Path
) -> None:
    search = start("-a", "make=Toyota")
    assert search.wait(SECONDS) == 0, search.log
    before = files_of(search.place)
    assert start().wait(SECONDS) == 0
    assert files_of(search.place) == before


def files_of(directory: Path, *, but_for: str = "") -> dict[str, bytes]:
    """The files below a directory, with what they hold; without the response store and the history, which all share."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
        and not path.name.startswith(("responses.sqlite", "runs.jsonl"))
        and path.relative_to(directory).parts[0] != but_for
    }


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
