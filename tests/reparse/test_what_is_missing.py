"""What the store does not have any more, or this release does not read, is named; nothing is guessed."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

from scrapy_durable.responses.packing import Packer
from tests.reparse.conftest import SECONDS, House
from tests.standin import StandIn

STRICTER = (sys.executable, "-m", "tests.reparse.stricter")


def without(records: list[bytes], lost: set[str]) -> list[bytes]:
    return [record for record in records if json.loads(record)["id"] not in lost]


def texts_by_id(records: list[bytes]) -> dict[str, dict[str, Any]]:
    """The records but for when they were read: a featured listing was read on several pages."""
    parsed = map(json.loads, records)
    return {record["id"]: {**record, "scraped_at": None} for record in parsed}


def test_a_specification_that_is_gone_costs_the_specification_only(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(120)
    records = house.crawled(site)
    first = json.loads(records[0])["car_attrs"]
    assert house.drop(f"{first['code']}/{first['year']}") == 1
    lost = {
        record["id"]
        for record in map(json.loads, records)
        if (record["car_attrs"]["code"], record["car_attrs"]["year"]) == (first["code"], first["year"])
    }
    complete = (house.output_dir / "cars.json").read_bytes()
    run = house.reparse()
    assert run.wait(SECONDS) == 1, run.log
    assert without(house.records(), lost) == without(records, lost)
    assert texts_by_id(house.records()) == {
        listing: {**record, "car_specs": None} if listing in lost else record
        for listing, record in texts_by_id(records).items()
    }
    assert (house.output_dir / "cars.json").read_bytes() == complete, "it was the better one"
    found = run.run_json()
    assert set(found["spec_missing"]) == lost
    [absent] = found["given_up"]
    assert absent["reason"] == "its specification is not in the response store"
    assert set(absent["listings"]) == lost
    assert f"{len(lost)} listings were kept without their specification" in found["reasons"]
    assert "NOT COMPLETE" in run.log


def page_ids(site: StandIn) -> dict[int, set[str]]:
    """The ids on the pages that were asked for, by offset; those of featured listings are on several."""
    origin = f"http://127.0.0.1:{site.port}"
    pages = {}
    for target in site.pages():
        with urlopen(origin + target, timeout=30) as answer:
            page = json.load(answer)
        offset = int(dict(parse_qsl(urlsplit(target).query))["page[offset]"])
        featured = page["meta"]["featured_listings"]["data"]
        pages[offset] = {listing["id"] for listing in [*page["data"], *featured]}
    return pages


def test_a_page_that_is_gone_is_named(house: House, stand_in: Callable[..., StandIn]) -> None:
    """It is read last, so that its featured listings are built from older readings on other pages."""
    site = stand_in(120, rules=[{"match": "offset%5D=40&", "fault": "delay", "times": 1}])
    records = house.crawled(site, settings={"CARS_PAGE_SIZE": 20})
    pages = page_ids(site)
    gone = pages.pop(40)
    elsewhere = set().union(*pages.values())
    assert house.drop("/001/000000040/") == 1
    run = house.reparse()
    assert run.wait(SECONDS) == 1, run.log
    reparsed = house.records()
    assert gone - elsewhere
    assert without(reparsed, gone) == without(records, gone)
    assert texts_by_id(reparsed) == texts_by_id(without(records, gone - elsewhere))
    [reason] = [text for text in run.run_json()["reasons"] if "response store" in text]
    assert reason == "1 pages of the crawl cannot be had from the response store: pass 1, offset 40"


def test_a_page_of_a_limited_crawl_that_is_gone_is_named(
    file_house: House, stand_in: Callable[..., StandIn]
) -> None:
    """Where the API's total says nothing."""
    file_house.crawled(stand_in(120), "-a", "limit=60", settings={"CARS_PAGE_SIZE": 20})
    assert file_house.drop("/001/000000020/") == 1
    run = file_house.reparse()
    assert run.wait(SECONDS) == 1, run.log
    assert "1 pages of the crawl cannot be had from the response store: pass 1, offset 20" in run.log


def test_a_page_that_is_damaged_is_named(file_house: House, stand_in: Callable[..., StandIn]) -> None:
    file_house.crawled(stand_in(120), settings={"CARS_PAGE_SIZE": 20})
    with closing(sqlite3.connect(file_house.output_dir / "responses.sqlite")) as connection, connection:
        connection.execute(
            "UPDATE response SET body = substr(body, 1, 100) WHERE instr(key, '/001/000000100/')"
        )
    run = file_house.reparse()
    assert run.wait(SECONDS) == 1, run.log
    assert "1 pages of the crawl cannot be had from the response store: pass 1, offset 100" in run.log


def test_listings_that_a_wrong_release_set_aside_are_there_once_it_is_mended(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    """What this is for: the crawl was read wrongly, and need not be repeated."""
    site = stand_in(250)
    run = house.crawl(site, runner=STRICTER, settings={"CARS_MAX_DRIFT": 1})
    assert run.wait(SECONDS) == 1, run.log
    aside = run.run_json()["set_aside_count"]
    asked = site.counts()
    reparsed = house.reparse()
    assert reparsed.wait(SECONDS) in (0, 1), reparsed.log
    kept = reparsed.run_json()
    assert aside > 0
    # Specifications of listings that were rejected were not asked for.
    assert (kept["kept"], kept["set_aside_count"]) == (250, 0)
    assert kept["spec_missing_count"] == aside
    assert site.counts() == asked

    house.crawled(site)
    sound = house.records()
    assert len(sound) == 250
    assert len(house.reparsed(runner=STRICTER, status=1)) == 250 - aside
    assert house.reparsed() == sound


def test_a_page_that_this_release_does_not_read_is_named(
    file_house: House, stand_in: Callable[..., StandIn]
) -> None:
    file_house.crawled(stand_in(120), settings={"CARS_PAGE_SIZE": 20})
    body = Packer().pack(b'{"errors": [{"detail": "not found"}]}')
    with closing(sqlite3.connect(file_house.output_dir / "responses.sqlite")) as connection, connection:
        damage = "UPDATE response SET body = ? WHERE instr(key, '/001/000000060/')"
        assert connection.execute(damage, (body,)).rowcount == 1
    run = file_house.reparse()
    assert run.wait(SECONDS) == 1, run.log
    found: dict[str, Any] = run.run_json()
    [refused] = found["given_up"]
    assert "offset%5D=60&" in refused["url"]
    assert refused["reason"].startswith("no answer: data: is missing")
    assert "1 pages of the crawl are no answers to this release" in found["reasons"]
    assert not any("response store" in reason for reason in found["reasons"])


def test_a_catalogue_that_had_collapsed_is_no_more_believed_when_it_is_built_again(
    file_house: House, stand_in: Callable[..., StandIn]
) -> None:
    """Unless one run accepts it: the site is not asked again for that."""
    site = stand_in(60)
    file_house.crawled(site)
    complete = (file_house.output_dir / "cars.json").read_bytes()
    site.churn(remove=site.ids()[5:])
    assert file_house.crawl(site).wait(SECONDS) == 1
    site.stop()
    run = file_house.reparse()
    assert run.wait(SECONDS) == 1, run.log
    assert "only 5 listings are left of the 60" in run.run_json()["reasons"][0]
    assert (file_house.output_dir / "cars.json").read_bytes() == complete
    run = file_house.reparse(settings={"CARS_MIN_KEPT_SHARE": 0})
    assert run.wait(SECONDS) == 0, run.log
    assert len(json.loads((file_house.output_dir / "cars.json").read_bytes())) == 5


def test_a_walk_that_was_ended_is_built_again_as_it_was(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(60, rules=[{"match": "/v3/vehicle", "fault": "endless", "listings": 60, "total": 10**9}])
    records = house.crawled(site, status=1, settings={"CARS_PAGE_SIZE": 20})
    crawled = json.loads((house.output_dir / "run.json").read_bytes())
    assert house.reparsed(status=1) == records
    [reason] = json.loads((house.output_dir / "run.json").read_bytes())["reasons"]
    assert [reason] == crawled["reasons"]
    assert "brought nothing new, though that one names a next" in reason
