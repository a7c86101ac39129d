"""What is reparsed is what was crawled, record by record, byte by byte."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from carscraper.api.endpoints import search_url
from tests.crawling import Crawl, wait_until
from tests.reparse.conftest import SECONDS, House
from tests.standin import PAGE_PATH, StandIn

LISTINGS, PAGE = 160, 20
ONE_BY_ONE = {"CARS_PAGE_SIZE": PAGE, "CONCURRENT_REQUESTS": 1}
OF_THE_RUN = ("crawl_id", "reparsed_from", "started_at", "ended_at", "requests")
"""What `run.json` says of the process, not of the records."""


def verdict(run: Crawl) -> dict[str, Any]:
    return {name: value for name, value in run.run_json().items() if name not in OF_THE_RUN}


def test_the_whole_catalogue_and_its_verdict(house: House, stand_in: Callable[..., StandIn]) -> None:
    site = stand_in(250, seed=2)
    crawled = house.crawl(site)
    assert crawled.wait(SECONDS) == 0, crawled.log
    records, told, crawl_id = house.records(), verdict(crawled), crawled.run_json()["crawl_id"]
    asked = site.counts()

    reparsed = house.reparse()
    assert reparsed.wait(SECONDS) == 0, reparsed.log
    assert house.records() == records
    assert verdict(reparsed) == told
    assert reparsed.run_json()["reparsed_from"] == crawl_id != reparsed.run_json()["crawl_id"]
    assert "complete: kept 250 of 250 listings" in reparsed.log
    assert site.counts() == asked


def test_however_often_it_is_done(file_house: House, stand_in: Callable[..., StandIn]) -> None:
    records = file_house.crawled(stand_in(100))
    for _ in range(2):
        assert file_house.reparsed() == records
    texts = set()
    for _ in range(2):
        file_house.reparsed()
        texts.add((file_house.output_dir / "cars.json").read_bytes())
    assert len(texts) == 1, "in the same order too"


@pytest.mark.parametrize(
    ("store", "arguments"),
    [
        ("file", ["limit=45"]),
        ("redis", ["limit=100000"]),
        ("redis", ["make=Toyota", "year=2005-2020"]),
        ("file", ["keyword=zeppelin"]),
    ],
    ids=str,
)
def test_a_search(
    store: str, arguments: list[str], start_house: Callable[[str], House], stand_in: Callable[..., StandIn]
) -> None:
    """In one of the stores each: what they hold, they hold alike (`tests/responses/test_contract.py`)."""
    house = start_house(store)
    words = [word for argument in arguments for word in ("-a", argument)]
    site = stand_in(LISTINGS)
    crawled = house.crawl(site, *words, settings={"CARS_PAGE_SIZE": PAGE})
    assert crawled.wait(SECONDS) == 0, crawled.log
    told = verdict(crawled)
    text = (crawled.place / "cars.json").read_bytes()
    if text == b"[]\n":
        assert house.reparse().wait(SECONDS) == 0
        assert (crawled.place / "cars.json").read_bytes() == text
    else:
        records = house.records(crawled.place)
        assert house.reparsed() == records
    assert verdict(crawled) == told
    assert told["arguments"] == dict(argument.split("=") for argument in arguments)


def test_a_catalogue_that_moved_and_was_read_in_several_passes(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    """A listing that was seen by both passes at different prices counts as it was last."""
    site = stand_in(LISTINGS)
    known = site.ids()[10]
    site.faults(
        [],
        churn=[
            {"after_pages": 6, "remove": {"offset": 3, "count": 2}, "add": 1},
            {"after_pages": 8, "price": {known: 123_456}},
        ],
    )
    run = house.crawl(site, settings=ONE_BY_ONE)
    assert run.wait(SECONDS) == 0, run.log
    told, records = verdict(run), house.records()
    assert told["passes"] > 1
    assert house.reparsed() == records
    assert verdict(run) == told
    [price] = [r["car_attrs"]["price"] for r in map(json.loads, records) if r["id"] == known]
    assert price == 123_456


@pytest.mark.slow
def test_a_crawl_that_was_killed_again_and_again(
    file_house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS, rules=[{"fault": "delay", "seconds": 0.1}])
    settings = {
        **{"CARS_PAGE_SIZE": 10, "CARS_BATCH_SIZE": 10, "CARS_BATCH_SECONDS": 0.05},
        **{"DURABLE_LEASE_SECONDS": 0.5, "CONCURRENT_REQUESTS": 4},
    }
    chance = random.Random(7)
    for _ in range(5):
        run = file_house.crawl(site, jobdir=tmp_path / "job", settings=settings)
        wait_until(lambda run=run: "Spider opened" in run.log or not run.running)  # type: ignore[misc]
        time.sleep(chance.uniform(0.2, 1.0))
        run.kill()
    site.faults([])
    records = file_house.crawled(site, jobdir=tmp_path / "job", settings=settings)
    assert len(records) == LISTINGS
    assert file_house.reparsed() == records


def test_several_workers(redis_house: House, stand_in: Callable[..., StandIn]) -> None:
    """They begin together; who has asked for eight pages has his hands full while the others ask for more."""
    slow = {"match": PAGE_PATH, "fault": "delay", "seconds": 5, "after": 1, "times": 8}
    site = stand_in(400, latency=0.02, rules=[slow])
    settings = {"CARS_PAGE_SIZE": 10, "CONCURRENT_REQUESTS": 8}
    os.kill(site.pid, signal.SIGSTOP)
    try:
        runs = [redis_house.crawl(site, settings=settings) for _ in range(3)]
        for run in runs:
            wait_until(lambda run=run: "Spider opened" in run.log or not run.running, SECONDS)  # type: ignore[misc]
    finally:
        os.kill(site.pid, signal.SIGCONT)
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    pages = [run.log.partition("'responses/kept': ")[2].partition(",")[0] for run in runs]
    assert sum(map(int, filter(None, pages))) == 40
    assert len([one for one in pages if one]) > 1, "more than one has read pages"
    records = redis_house.records()
    assert redis_house.reparsed() == records


def test_pages_of_addresses_that_somebody_pushed(
    redis_house: House, stand_in: Callable[..., StandIn]
) -> None:
    """Outside of all passes: a crawl of one make, and the addresses of two pages of everything beside."""
    site = stand_in(LISTINGS)
    assert redis_house.server is not None
    with redis_house.server.client() as client:
        for offset in (100, 130):
            client.lpush("cars:start_urls", search_url(site.url, offset=offset, limit=15))
    records = redis_house.crawled(site, "-a", "make=Toyota", settings={"CARS_PAGE_SIZE": PAGE})
    makes = {json.loads(record)["car_attrs"]["make"] for record in records}
    assert len(makes) > 1
    assert redis_house.reparsed() == records


def test_one_of_several_crawls_by_its_name(house: House, stand_in: Callable[..., StandIn]) -> None:
    site = stand_in(120)
    changed, gone = site.ids()[:2]
    first = house.crawled(site)
    site.churn(price={changed: 77_777}, remove=[gone])
    second = house.crawled(site)
    assert first != second
    older, newer = house.kept()
    assert house.reparsed() == second
    assert house.reparsed("--crawl", older) == first
    assert house.reparsed("--crawl", newer) == second


def test_with_specifications_that_only_an_earlier_crawl_has_fetched(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(120)
    house.crawled(site)
    asked = site.counts()["specs"]
    records = house.crawled(site)
    assert site.counts()["specs"] == asked
    assert house.reparsed() == records
