"""Both databases as a crawl is told of them, and what is in them, seen from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from carscraper.stores.backlog import entries_behind, waiting_in
from carscraper.stores.build import SETTINGS
from tests.crawling import records
from tests.mongo_server import MongoServer
from tests.postgres_server import PostgresServer

TIMES = ("first_seen", "last_seen", "removed_at")


def waiting_bytes(out: Path, *keys: str) -> int:
    """Bytes of records that are logged, and not noted as delivered to each of these databases, or any."""
    return sum(
        len(entry)
        for key in keys or SETTINGS
        for waiting in waiting_in(out, key)
        for _, entry in entries_behind(waiting.directory, waiting.position)
    )


class Databases:
    """An empty database on each of two servers, of the same name."""

    def __init__(self, mongo: MongoServer, postgres: PostgresServer) -> None:
        self.mongo = mongo
        self.postgres = postgres
        self.name = name = postgres.create_database()
        self.env = {"MONGO_URI": mongo.uri(name), "POSTGRES_DSN": postgres.dsn(name)}
        """What a crawl is told, in its environment."""

    def documents(self) -> dict[str, dict[str, Any]]:
        """What MongoDB holds, by id."""
        with self.mongo.client() as client:
            return {document["_id"]: document for document in client[self.name].cars.find()}

    def rows(self) -> dict[str, dict[str, Any]]:
        """The typed rows of PostgreSQL, by id."""
        return {row["id"]: row for row in self._select("SELECT * FROM cars")}

    def records(self) -> dict[str, dict[str, Any]]:
        """The records of PostgreSQL with their times, by id."""
        return {row["id"]: row for row in self._select("SELECT * FROM car_records")}

    def prices(self, listing: str) -> tuple[list[int | None], list[int | None]]:
        """The history of a listing's price, oldest first: of MongoDB, of PostgreSQL."""
        with self.mongo.client() as client:
            found = client[self.name].price_history.find({"listing_id": listing}).sort("seen_at")
            in_mongo = [row["price_zar"] for row in found]
        query = "SELECT price_zar FROM price_history WHERE listing_id = %s ORDER BY seen_at"
        return in_mongo, [row["price_zar"] for row in self._select(query, listing)]

    def price_changes(self) -> tuple[int, int]:
        """How many rows the price histories of all listings have together: in MongoDB, in PostgreSQL."""
        with self.mongo.client() as client:
            in_mongo = client[self.name].price_history.count_documents({})
        return in_mongo, self._select("SELECT count(*) AS n FROM price_history")[0]["n"]

    def removed(self) -> tuple[set[str], set[str]]:
        """The ids of the listings that are marked as removed: by MongoDB, by PostgreSQL."""
        return (
            {key for key, document in self.documents().items() if document["removed_at"]},
            {key for key, row in self.rows().items() if row["removed_at"]},
        )

    def counts(self) -> tuple[int, int]:
        """How many listings each holds; 0 for one without tables yet."""
        with self.mongo.client() as client:
            in_mongo = client[self.name].cars.count_documents({})
        try:
            (row,) = self._select("SELECT count(*) AS n FROM cars")
        except psycopg.errors.UndefinedTable:
            return in_mongo, 0
        return in_mongo, row["n"]

    def _select(self, query: str, *values: object) -> list[dict[str, Any]]:
        with psycopg.connect(self.postgres.dsn(self.name), row_factory=dict_row) as connection:
            return connection.execute(query, values).fetchall()


def kept(output_dir: Path) -> dict[str, dict[str, Any]]:
    """The records that the last run has published, by id."""
    return {record["id"]: record for record in records(output_dir)}


def assert_same(databases: Databases, output_dir: Path) -> None:
    """Each database holds the records that were published, and no others."""
    published = kept(output_dir)
    documents, stored = databases.documents(), databases.records()
    assert documents.keys() == published.keys()
    assert stored.keys() == published.keys()
    for key, record in published.items():
        for raw in ("url", "car_attrs", "car_specs"):
            assert documents[key][raw] == record[raw], f"{key}: {raw} in MongoDB"
            assert stored[key][raw] == record[raw], f"{key}: {raw} in PostgreSQL"


@contextmanager
def two_servers() -> Iterator[Databases]:
    """On servers that a test may kill."""
    with MongoServer() as mongo, PostgresServer() as postgres:
        yield Databases(mongo, postgres)
