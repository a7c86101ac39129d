"""A crawl reads every listing once with its specs, asks for nothing twice, and leaves files that hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import Crawl, crawl, torn_files
from tests.kept import kept_records
from tests.measured import MEASURED, taken
from tests.standin import PAGE_PATH, SPEC_PATH


@pytest.fixture(scope="module")
def crawled(
    shared_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Crawl, list[dict[str, Any]]]]:
    """A crawl that has ended complete, in pages of 20 and batches of 50, and what it asked for: read at once, since
    other tests' crawls come after it.
    """
    directory = tmp_path_factory.mktemp("whole")
    sizes = {"CARS_PAGE_SIZE": 20, "CARS_BATCH_SIZE": 50}
    shared_site.standin.faults([])
    shared_site.standin.reset_journal()
    with crawl(shared_site.url, directory / "data", jobdir=directory / "job", settings=sizes) as run:
        assert run.wait(SECONDS) == 0, run.log
        yield run, shared_site.standin.journal()


@pytest.fixture
def run(crawled: tuple[Crawl, list[dict[str, Any]]]) -> Crawl:
    return crawled[0]


@pytest.fixture
def journal(crawled: tuple[Crawl, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return crawled[1]


@pytest.fixture
def records(run: Crawl) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run.output_dir / "cars.json").read_bytes())
    return found


def test_every_listing_is_there_once_with_what_the_api_said_of_it(
    shared_site: Site, records: list[dict[str, Any]]
) -> None:
    assert sorted(record["id"] for record in records) == sorted(shared_site.catalogue.ids)
    for record in records:
        assert list(record) == ["id", "url", "scraped_at", "car_attrs", "car_specs"]
        assert record["car_attrs"] == shared_site.attributes(record["id"])
        assert record["car_specs"] == shared_site.groups(record["id"])
        assert record["url"] == record["car_attrs"].get("website_url", "")
    assert sum(bool(record["car_specs"]) for record in records) > LISTINGS / 2


def test_each_page_and_each_specification_is_asked_for_once(
    shared_site: Site, journal: list[dict[str, Any]]
) -> None:
    targets = [entry["target"] for entry in journal]
    pages = [target for target in targets if target.startswith(PAGE_PATH)]
    assert len(pages) == len(set(pages)) == -(-LISTINGS // 20)
    assert pages[0] == (
        f"{PAGE_PATH}?page%5Boffset%5D=0&page%5Blimit%5D=20&include_featured=true&sort%5Bdate%5D=desc"
    )
    assert sorted(set(targets) - set(pages)) == sorted([*spec_targets(shared_site), "/robots.txt"])
    assert len(targets) == len(set(targets))


def test_codes_with_plus_slash_and_equals_reach_the_server_exactly(
    shared_site: Site, journal: list[dict[str, Any]]
) -> None:
    for sign, written in (("+", "%2B"), ("/", "%2F"), ("=", "%3D")):
        code, year = next((code, year) for code, year in shared_site.catalogue.keys if sign in code)
        target = f"{SPEC_PATH}{quote(code, safe='')}/{year}"
        assert written in target
        assert target in [entry["target"] for entry in journal]


def test_the_crawler_says_who_it_is(journal: list[dict[str, Any]]) -> None:
    assert {entry["user_agent"] for entry in journal} == {
        "carscraper/0.1 (a catalogue crawler; set CARS_CONTACT to say who runs it)"
    }


def test_the_log_holds_what_cars_json_is_made_from(shared_site: Site, run: Crawl) -> None:
    assert torn_files(run.output_dir) == []
    assert {record["id"] for record in kept_records(run.output_dir)} == set(shared_site.catalogue.ids)


def test_nothing_but_the_output_is_left_behind(run: Crawl) -> None:
    assert not [path for path in run.output_dir.rglob("*") if path.name.endswith(".tmp")]
    assert {path.name.partition("-")[0] for path in run.output_dir.iterdir()} == {
        ".changes.lock",
        "cars.json",
        "changes.jsonl",
        "crawls",
        "responses.sqlite",
        "run.json",
        "runs.jsonl",
    }
    assert {path.name for path in run.output_dir.parent.iterdir()} == {"data", "job"}


def test_run_json_and_the_last_lines_say_how_it_went(shared_site: Site, run: Crawl) -> None:
    told = run.run_json()
    bare = sum(not shared_site.groups(listing_id) for listing_id in shared_site.catalogue.ids)
    assert told["complete"] is True
    assert told["status"] == "complete"
    assert (told["kept"], told["expected"], told["without_specs"]) == (LISTINGS, LISTINGS, bare)
    assert told["missing"] == told["set_aside"] == told["given_up"] == told["reasons"] == []
    assert run.log.rstrip().endswith(
        f"complete: kept {LISTINGS} of {LISTINGS} listings\nwithout specs (the API has none): {bare}"
    )


def test_listings_whose_specification_the_api_does_not_have_are_kept_without(
    shared_site: Site, records: list[dict[str, Any]]
) -> None:
    specs = {record["id"]: record["car_specs"] for record in records}
    for wanted in (None, {"data": [[]]}):
        keys = [key for key in shared_site.catalogue.keys if shared_site.catalogue.spec(*key) == wanted]
        listings = [listing_id for key in keys for listing_id in shared_site.listings_of(*key)]
        assert listings
        assert all(specs[listing_id] == [] for listing_id in listings)


def test_a_second_crawl_asks_for_pages_only_and_a_third_for_all_that_is_too_old(
    site: Site, start: Start
) -> None:
    assert start().wait(SECONDS) == 0
    site.standin.reset_journal()

    second = start()
    assert second.wait(SECONDS) == 0, second.log
    assert len(site.standin.pages()) == 3
    assert site.standin.specs() == []
    assert sorted(second.cars()) == sorted(site.catalogue.ids)

    third = start(settings={"CARS_SPEC_TTL": 0.001})
    assert third.wait(SECONDS) == 0, third.log
    assert set(site.standin.specs()) == spec_targets(site)


@pytest.mark.parametrize("size", [1000, 7])
def test_the_size_of_the_answer_counts_whatever_was_asked_for(site: Site, start: Start, size: int) -> None:
    """The stand-in gives 120 listings at most."""
    run = start(settings={"CARS_PAGE_SIZE": size})
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.catalogue.ids)
    assert len(site.standin.pages()) == -(-LISTINGS // min(size, 120))


def spec_targets(site: Site) -> set[str]:
    """The raw path of every specification that the catalogue has listings for."""
    return {f"{SPEC_PATH}{quote(code, safe='')}/{year}" for code, year in site.catalogue.keys}


def test_a_last_batch_smaller_than_the_batch_size_is_kept_at_once(site: Site, start: Start) -> None:
    run = start("-a", "limit=20", settings={"CARS_BATCH_SIZE": 500, **MEASURED})
    assert run.wait(SECONDS) == 0, run.log
    assert 15 < len(run.cars()) == len(set(run.cars())) <= 20
    seconds, _ = taken(run.log)
    assert seconds <= 5, run.log
