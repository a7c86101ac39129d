"""`scrapy export --from`: what a database holds, with the times that only it knows."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from scrapy.settings import Settings

from carscraper.export.tables import Rows, columns
from carscraper.items import Car
from carscraper.stores.build import SETTINGS, build_database
from carscraper.stores.record import Draft, Records
from tests.crawling import crawl
from tests.exports.command_line import export
from tests.exports.conftest import LISTINGS, SECONDS
from tests.exports.samples import HOSTILE, as_csv_has_it, car
from tests.mongo_server import MongoServer, mongod_binary
from tests.postgres_server import PostgresServer
from tests.server_process import hold_port
from tests.standin import StandIn

NAMES = [column.name for column in columns(seen=True)]
FIRST, LAST, GONE = "2026-11-20T10:15:00.123Z", "2026-11-21T10:15:00.000Z", "2026-11-22T10:15:00.456Z"


@dataclass
class Server:
    """A running server; `address()` is that of an empty database on it."""

    key: str
    running: MongoServer | PostgresServer
    made: int = 0

    def address(self) -> str:
        self.made += 1
        if isinstance(self.running, MongoServer):
            return self.running.uri(f"exports{self.made}")
        return self.running.dsn(self.running.create_database())

    def env(self) -> dict[str, str]:
        """The environment that leads there."""
        return {SETTINGS[self.key]: self.address()}


@pytest.fixture(scope="module", params=list(SETTINGS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "mongo" and mongod_binary() is None:
        pytest.skip("there is no mongod")
    with ExitStack() as stack:
        running = MongoServer() if request.param == "mongo" else PostgresServer()
        yield Server(request.param, stack.enter_context(running))


def keep(env: dict[str, str], key: str, cars: list[Car], seen: list[str]) -> None:
    """Put the cars into the database as crawls do; those that are not in `seen` are removed."""

    settings = Settings()
    settings.setmodule("carscraper.settings")
    settings.setdict(env)

    async def put() -> None:
        database = build_database(settings, key)
        assert database is not None
        await database.open()
        try:
            records = Records()
            for time in (FIRST, LAST):
                read = [Draft(replace(one, scraped_at=time), records).record for one in cars]
                assert await database.upsert(read) == []
            await database.mark_removed(seen, GONE, GONE)
        finally:
            await database.close()

    asyncio.run(put())


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_database_tells_when_a_car_was_seen_and_removed(server: Server, tmp_path: Path) -> None:
    env = server.env()
    keep(env, server.key, [car(1), car(2)], seen=["1"])
    done = export(tmp_path, "--from", server.key, str(tmp_path / "cars.parquet"), env=env)
    assert (done.status, done.err) == (0, "")
    found = pq.read_table(tmp_path / "cars.parquet")
    assert found.column_names == NAMES
    seen = [(row["id"], row["first_seen"], row["last_seen"], row["removed_at"]) for row in found.to_pylist()]
    assert seen == [("1", at(FIRST), at(LAST), None), ("2", at(FIRST), at(LAST), at(GONE))]
    header, *lines = export(tmp_path, "--from", server.key, "-", env=env).out.decode().splitlines()
    assert header.split(",") == NAMES
    assert [line.split(",")[3:6] for line in lines] == [[FIRST, LAST, ""], [FIRST, LAST, GONE]]


def test_hostile_texts_come_out_as_they_went_in(server: Server, tmp_path: Path) -> None:
    titles = [title.replace("\0", "") for title in HOSTILE]  # not every database can hold it
    cars = [car(number, title=title) for number, title in enumerate(titles, 100)]
    env = server.env()
    keep(env, server.key, cars, seen=[one.id for one in cars])
    assert export(tmp_path, "--from", server.key, "--raw", str(tmp_path / "cars.csv"), env=env).status == 0
    with (tmp_path / "cars.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    for row, one in zip(found, cars, strict=True):
        assert json.loads(row["car_attrs"]) == one.car_attrs
        assert json.loads(row["car_specs"]) == one.car_specs
        expected = as_csv_has_it(Rows().of(one))
        assert [row[name] for name in NAMES if not name.endswith(("_at", "_seen"))] == [
            *expected[:2],
            *expected[3:],
        ]


def test_a_crawl_is_the_same_table_from_the_database_as_from_the_file(server: Server, tmp_path: Path) -> None:
    env = server.env()
    with StandIn(LISTINGS, seed=3) as standin, crawl(standin.url, tmp_path / "data", env=env) as run:
        assert run.wait(SECONDS) == 0, run.log
    for source in ("json", server.key):
        done = export(tmp_path / "data", "--from", source, str(tmp_path / f"{source}.parquet"), env=env)
        assert (done.status, done.err) == (0, "")
        assert done.out.decode().startswith(f"{LISTINGS} cars")
    from_file = pq.read_table(tmp_path / "json.parquet").to_pylist()
    from_database = pq.read_table(tmp_path / f"{server.key}.parquet").to_pylist()
    for row, other in zip(from_database, sorted(from_file, key=lambda row: row["id"]), strict=True):
        # A listing may be read several times in a crawl: the file has one of the readings.
        assert row.pop("first_seen") <= other.pop("scraped_at") <= row.pop("last_seen")
        assert row.pop("scraped_at")
        assert row.pop("removed_at") is None
        assert row == other


ODD = {"fuel_type": None, "transmission": None, "monthly_price": 0.0, "website_url": "javascript:alert(1)"}
"""What the listings of one page each have instead."""


def test_what_a_listing_does_not_tell_is_the_same_everywhere(server: Server, tmp_path: Path) -> None:
    pages = zip(range(0, 40, 10), ODD.items(), strict=True)
    rules = [
        {
            "match": f"offset%5D={at}&",
            "fault": "edit",
            "path": f"data[*].attributes.{name}",
            "do": "set",
            "to": odd,
        }
        for at, (name, odd) in pages
    ]
    env = server.env()
    with (
        StandIn(40, seed=3, rules=rules) as standin,
        crawl(standin.url, tmp_path / "data", settings={"CARS_PAGE_SIZE": 10}, env=env) as run,
    ):
        assert run.wait(SECONDS) == 0, run.log
    records = {one["id"]: one for one in json.loads((tmp_path / "data" / "cars.json").read_bytes())}
    for source in ("json", server.key):
        done = export(tmp_path / "data", "--from", source, "-:jsonl", env=env)
        rows = [json.loads(line) for line in done.out.splitlines()]
        assert {row["id"] for row in rows} == set(records)
        met = set()
        for row in rows:
            attrs, specs = records[row["id"]]["car_attrs"], records[row["id"]]["car_specs"]
            told = {attr["label"]: attr["value"] for group in specs for attr in group["attrs"]}
            met |= {name for name in ODD if attrs[name] == ODD[name]}
            assert row["fuel_type"] == (attrs["fuel_type"] or told.get("Fuel Type"))
            assert row["transmission"] == (attrs["transmission"] or told.get("Transmission type"))
            assert row["monthly_price_zar"] == (attrs["monthly_price"] or None)
            is_address = attrs["website_url"].startswith("http")
            assert row["url"] == (attrs["website_url"] if is_address else None)
            assert records[row["id"]]["url"] == (row["url"] or "")
            assert row["unread"] == (None if is_address else '{"url":"javascript:alert(1)"}')
            assert row["scraped_at"] == records[row["id"]]["scraped_at"] or source != "json"
        assert met == set(ODD)


def test_times_keep_their_milliseconds(server: Server, tmp_path: Path) -> None:
    """Pages without featured listings, so that each listing is read once."""
    rule = {"fault": "edit", "path": "meta.featured_listings.data", "do": "set", "to": []}
    env = server.env()
    with StandIn(40, rules=[rule]) as standin, crawl(standin.url, tmp_path / "data", env=env) as run:
        assert run.wait(SECONDS) == 0, run.log
    records = json.loads((tmp_path / "data" / "cars.json").read_bytes())
    told = {record["id"]: record["scraped_at"] for record in records}
    assert any(not moment.endswith(".000Z") for moment in told.values())
    done = export(tmp_path / "data", "--from", server.key, "-:jsonl", env=env)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {row["id"]: row["scraped_at"] for row in rows} == told


def test_more_cars_than_are_fetched_at_once_come_in_the_order_of_their_ids(
    server: Server, tmp_path: Path
) -> None:
    cars = [car(10_000 + number) for number in range(1_201)]
    env = server.env()
    keep(env, server.key, cars[::-1], seen=[])
    done = export(tmp_path, "--from", server.key, "-:jsonl", env=env)
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [one.id for one in cars]


def test_an_empty_database_is_a_table_without_rows(server: Server, tmp_path: Path) -> None:
    done = export(tmp_path, "--from", server.key, "-", env=server.env())
    assert (done.status, done.err, done.out.decode()) == (0, "", ",".join(NAMES) + "\r\n")


ADDRESSES = {
    "mongo": "mongodb://someone:secret-word@127.0.0.1:{port}/cars?serverSelectionTimeoutMS=500",
    "postgres": "postgresql://someone:secret-word@127.0.0.1:{port}/cars?connect_timeout=2",
}


@pytest.mark.parametrize("key", list(SETTINGS))
def test_a_database_that_does_not_answer_is_one_line(key: str, tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("of yesterday")
    with hold_port() as holder:
        env = {SETTINGS[key]: ADDRESSES[key].format(port=holder.getsockname()[1])}
        done = export(tmp_path, "--from", key, str(tmp_path / "cars.csv"), env=env)
    assert done.status == 1, done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert "secret-word" not in done.err
    assert (tmp_path / "cars.csv").read_text() == "of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == ["cars.csv"]


@pytest.mark.parametrize("key", list(SETTINGS))
def test_an_address_that_is_none_is_refused(key: str, tmp_path: Path) -> None:
    done = export(tmp_path, "--from", key, "-", env={SETTINGS[key]: "nonsense://secret-word"})
    assert (done.status, done.out) == (2, b"")
    assert SETTINGS[key] in done.err
    assert done.err.count("\n") == 1
    assert "secret-word" not in done.err
