"""How long pages are kept, how much there may be of them, and what is shown of that."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.crawling import Crawl
from tests.reparse.conftest import SECONDS, House
from tests.standin import StandIn

LISTINGS = 100


def stat(run: Crawl, name: str) -> int:
    found = re.search(rf"'{name}': (\d+)", run.log)
    return int(found[1]) if found else 0


def test_the_crawls_are_listed_with_pages_listings_bytes_and_times(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(LISTINGS)
    house.crawled(site, settings={"CARS_PAGE_SIZE": 20})
    house.crawled(site, "-a", "limit=30", "-a", "make=Toyota", settings={"CARS_PAGE_SIZE": 10})
    run = house.reparse("--list")
    assert run.wait(SECONDS) == 0, run.log
    head, whole, limited, total = run.log.splitlines()
    assert " ".join(head.split()) == "crawl pages listings bytes first page last page asked for"
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
    pattern = rf"(\d{{8}}T\d{{6}}Z-[0-9a-f]{{6}}) +(\d+) +(\d+) +(\d+)  ({time}) ({time}) (.+)"
    first, second = re.fullmatch(pattern, whole), re.fullmatch(pattern, limited)
    assert first
    assert second
    assert first[1] < second[1]
    assert (int(first[2]), int(first[3])) == (5, LISTINGS)
    assert first[5] <= first[6] <= second[5] <= second[6]
    assert int(second[3]) <= 30
    assert int(first[4]) > int(second[4]) > 500
    assert (first[7], second[7]) == (f"{site.url} everything", f"{site.url} make=Toyota limit=30")
    assert re.fullmatch(
        r"2 crawls are kept; with specifications they take up [\d,.]+ MB of 1,073\.7 MB", total
    )


def test_the_end_of_a_crawl_says_what_the_store_takes_up(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    run = house.crawl(stand_in(LISTINGS), settings={"CARS_PAGE_SIZE": 20, "CARS_RESPONSES_MAX_BYTES": 10**9})
    assert run.wait(SECONDS) == 0, run.log
    assert stat(run, "responses/kept") == 5
    assert stat(run, "responses/bytes") > 10_000
    assert stat(run, "responses/removed") == 0
    assert re.search(
        r"The response store takes [\d.]+ MB of 1,000\.0 MB at most; 0 answers were removed from it", run.log
    )


def test_pages_are_not_kept_for_no_time_and_those_that_were_go(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(LISTINGS)
    house.crawled(site)
    assert len(house.kept()) == 1
    run = house.crawl(site, settings={"CARS_KEEP_PAGES": 0})
    assert run.wait(SECONDS) == 0, run.log
    assert stat(run, "responses/removed") == 1
    assert house.kept() == []
    refused = house.reparse(settings={"LOG_LEVEL": "ERROR"})
    assert refused.wait(SECONDS) == 2
    assert refused.log == (
        "error: no listing pages are kept of any crawl (CARS_KEEP_PAGES says for how long)\n"
    )


def test_when_there_is_no_room_the_oldest_crawl_goes_and_the_specifications_stay(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(LISTINGS)
    house.crawled(site)
    last = house.crawl(site)
    assert last.wait(SECONDS) == 0, last.log
    asked = site.counts()["specs"]
    older, newer = house.kept()
    listed = house.reparse("--list")
    assert listed.wait(SECONDS) == 0
    pages = int(listed.log.splitlines()[1].split()[3])
    # There is room for half a crawl more, so the next one's pages take the place of the oldest's.
    bound = stat(last, "responses/bytes") + pages // 2
    run = house.crawl(site, settings={"CARS_RESPONSES_MAX_BYTES": bound})
    assert run.wait(SECONDS) == 0, run.log
    kept = house.kept()
    assert older not in kept, run.log
    assert kept[0] == newer
    assert len(kept) == 2
    assert site.counts()["specs"] == asked
    records = house.records()
    assert house.reparsed() == records


def test_a_bound_that_nothing_fits_in_empties_the_store_and_costs_no_record(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(LISTINGS)
    records = house.crawled(site, settings={"CARS_RESPONSES_MAX_BYTES": 0})
    assert len(records) == LISTINGS
    assert house.kept() == []


@pytest.mark.parametrize("keep", [0, 1000])
def test_a_specification_that_is_too_old_is_asked_for_again_though_it_is_still_stored(
    house: House, stand_in: Callable[..., StandIn], keep: int
) -> None:
    """Pages that are kept may need it."""
    site = stand_in(LISTINGS)
    settings = {"CARS_SPEC_TTL": 0.001, "CARS_KEEP_PAGES": keep}
    house.crawled(site, settings=settings)
    once = site.counts()["specs"]
    records = house.crawled(site, settings=settings)
    assert len(records) == LISTINGS
    assert site.counts()["specs"] > once * 1.5
    if keep:
        assert house.reparsed() == records


def test_a_store_of_another_program_is_named_in_one_line(file_house: House, tmp_path: Path) -> None:
    file_house.output_dir.mkdir()
    with closing(sqlite3.connect(file_house.output_dir / "responses.sqlite")) as file:
        file.execute("CREATE TABLE something_else (id)")
    run = file_house.reparse(settings={"LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2
    assert run.log.startswith("error: ")
    assert "responses.sqlite is not a response store" in run.log
    assert run.log.count("\n") == 1


def test_a_store_that_is_broken_is_kept_aside_and_named(file_house: House, tmp_path: Path) -> None:
    file_house.output_dir.mkdir()
    broken = "something else, and quite long " * 10
    (file_house.output_dir / "responses.sqlite").write_text(broken)
    run = file_house.reparse()
    assert run.wait(SECONDS) == 2
    assert "responses.sqlite is broken" in run.log
    assert "error: no listing pages are kept of any crawl" in run.log
    [aside] = file_house.output_dir.glob("responses.sqlite.broken-*")
    assert aside.read_text() == broken


def test_a_redis_that_does_not_answer_is_named_in_one_line(redis_house: House) -> None:
    assert redis_house.server is not None
    redis_house.server.kill()
    run = redis_house.reparse("--list", settings={"LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2
    assert run.log == "error: REDIS_URL: the response store does not answer\n"


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (
            ["--crawl", "20261120T101500Z-abcdef"],
            {},
            "--crawl: no listing pages are kept of crawl '20261120T1",
        ),
        (["--crawl", ""], {}, "--crawl: no listing pages are kept of crawl ''"),
        ([], {"CARS_KEEP_PAGES": "long"}, "CARS_KEEP_PAGES: a number is needed, not 'long'"),
        ([], {"CARS_RESPONSES_MAX_BYTES": "-1"}, "CARS_RESPONSES_MAX_BYTES: must be from 0"),
        ([], {"REDIS_URL": "nonsense"}, "REDIS_URL: not a URL"),
    ],
)
def test_bad_input_is_refused_by_name_in_one_line(
    file_house: House,
    stand_in: Callable[..., StandIn],
    arguments: list[str],
    settings: dict[str, str],
    said: str,
) -> None:
    file_house.crawled(stand_in(20))
    before = (file_house.output_dir / "cars.json").read_bytes()
    run = file_house.reparse(*arguments, settings={"LOG_LEVEL": "ERROR", **settings})
    assert run.wait(SECONDS) == 2, run.log
    assert run.log.startswith(f"error: {said}")
    assert run.log.count("\n") == 1, run.log
    assert (file_house.output_dir / "cars.json").read_bytes() == before


def test_words_beside_the_options_are_refused(file_house: House) -> None:
    run = file_house.reparse("everything")
    assert run.wait(SECONDS) == 2
    assert "nothing but options is understood: everything" in run.log
