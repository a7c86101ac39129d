"""One store, two addresses of an API: no crawl is given answers of the other, and each can be reparsed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.reparse.conftest import SECONDS, House
from tests.standin import StandIn


class Elsewhere:
    """The same stand-in at another address."""

    def __init__(self, site: StandIn) -> None:
        self.url = site.url.replace("127.0.0.1", "localhost")


def test_another_address_asks_for_itself_and_both_are_listed_and_built_again(
    house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(60)
    specs = len(site.keys())
    apart = {"SCHEDULER_QUEUE_KEY": "elsewhere"}
    here = house.crawled(site)
    assert len(site.specs()) == specs
    site.reset_journal()
    there = house.crawled(Elsewhere(site), settings=apart)  # type: ignore[arg-type]
    assert len(site.specs()) == specs
    site.reset_journal()
    house.crawled(site, "-a", "make=Toyota")
    house.crawled(Elsewhere(site), settings=apart)  # type: ignore[arg-type]
    assert site.specs() == []
    listed = house.reparse("--list")
    assert listed.wait(SECONDS) == 0, listed.log
    first, second, third, _ = [
        line for line in listed.log.splitlines() if line[:1].isdigit() and "-" in line[:18]
    ]
    assert first.endswith(f"{site.url} everything")
    assert second.endswith(f"{Elsewhere(site).url} everything")
    assert third.endswith(f"{site.url} make=Toyota")
    site.stop()
    assert house.reparsed("--crawl", first.split()[0]) == here
    assert house.reparsed("--crawl", second.split()[0]) == there


def test_a_search_is_built_again_where_it_is_and_leaves_the_whole_catalogue(
    file_house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(60)
    file_house.crawled(site)
    before = (file_house.output_dir / "cars.json").read_bytes()
    search = file_house.crawl(site, "-a", "make=Toyota")
    assert search.wait(SECONDS) == 0, search.log
    records = (search.place / "cars.json").read_bytes().splitlines()
    (search.place / "cars.json").unlink()
    built = file_house.reparse()
    assert built.wait(SECONDS) == 0, built.log
    assert built.place == search.place
    assert sorted(
        line.rstrip(b",") for line in (built.place / "cars.json").read_bytes().splitlines()
    ) == sorted(line.rstrip(b",") for line in records)
    assert (file_house.output_dir / "cars.json").read_bytes() == before


def test_a_store_of_an_earlier_release_is_built_again_from_and_its_answers_are_fetched_anew(
    file_house: House, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(40)
    records = file_house.crawled(site)
    without_origins(file_house.output_dir / "responses.sqlite")
    listed = file_house.reparse("--list")
    assert listed.wait(SECONDS) == 0, listed.log
    assert "Z everything\n" in listed.log
    assert file_house.reparsed() == records
    site.reset_journal()
    file_house.crawled(site)
    assert len(site.specs()) == len(site.keys())


def without_origins(path: Path) -> None:
    """Name everything as it was named before there were origins."""
    with closing(sqlite3.connect(path)) as connection, connection:
        shared = "UPDATE response SET key = substr(key, instr(key, '#') + 1) WHERE crawl_id IS NULL"
        pages = "UPDATE response SET key = substr(key, 1, instr(key, '#') - 1) WHERE crawl_id IS NOT NULL"
        assert connection.execute(shared).rowcount
        assert connection.execute(pages).rowcount
