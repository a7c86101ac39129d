"""The databases that the contract is tried on, each on the real thing, and what tests need to look into them."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any, Protocol

import pytest
from psycopg.rows import dict_row
from pymongo import AsyncMongoClient
from pymongo.monitoring import CommandListener

from carscraper.stores.contract import Database
from carscraper.stores.mongo.database import MongoDatabase
from carscraper.stores.postgres.database import PostgresDatabase
from tests.mongo_server import FAIL_POINTS, MongoServer, mongod_binary
from tests.postgres_server import PostgresServer

_numbers = itertools.count(1)


class Place(Protocol):
    """Somewhere for records, empty at first; tests connect to it and look into it from outside."""

    def connect(self) -> Database:
        """One more connection, not opened yet; closed when the test ends."""
        ...

    def row(self, listing: str) -> dict[str, Any] | None:
        """Whatever is kept of a listing, its history of prices included; `last_seen` is a key of it."""
        ...

    def prices(self, listing: str) -> list[tuple[datetime, int | None]]:
        """The history of a listing's price, the oldest first."""
        ...

    async def leave(self) -> None:
        """Close all connections."""
        ...


class MongoPlace:
    """A new database on a server that other tests use too."""

    def __init__(self, server: MongoServer) -> None:
        self.server = server
        self.name = f"test{next(_numbers)}"
        self._opened: list[Database] = []

    def uri(self, options: str = "", user: str = "", port: int | None = None) -> str:
        """The way here; `options` are more of them, as in `&w=2`. Servers that are gone are soon looked for again."""
        return f"{self.server.uri(self.name, user, port)}&heartbeatFrequencyMS=500{options}"

    def connect(self, uri: str | None = None, *listeners: CommandListener) -> MongoDatabase:
        """`uri` is another way here; `listeners` are told of every command."""
        if listeners:
            client: AsyncMongoClient[Any] = AsyncMongoClient(uri or self.uri(), event_listeners=listeners)
            database = MongoDatabase(client, self.name, "here")
        else:
            database = MongoDatabase.from_address(uri or self.uri())
        self._opened.append(database)
        return database

    def row(self, listing: str) -> dict[str, Any] | None:
        with self.server.client() as client:
            found: dict[str, Any] | None = client[self.name].cars.find_one({"_id": listing})
            return found

    def prices(self, listing: str) -> list[tuple[datetime, int | None]]:
        with self.server.client() as client:
            rows = client[self.name].price_history.find({"listing_id": listing})
            return sorted((row["seen_at"], row["price_zar"]) for row in rows)

    async def leave(self) -> None:
        for database in self._opened:
            await database.close()


class PostgresPlace:
    """A new database on a server that other tests use too."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = server.create_database()
        self._opened: list[Database] = []

    def connect(self, dsn: str | None = None, **options: Any) -> PostgresDatabase:
        """`dsn` leads to another one, or on another way, than where this place is."""
        database = PostgresDatabase.from_address(dsn or self.server.dsn(self.name), **options)
        self._opened.append(database)
        return database

    def select(self, query: str, *values: object) -> list[dict[str, Any]]:
        """What a query finds, seen from outside."""
        with self.server.connect(self.name) as connection:
            found: list[dict[str, Any]] = (
                connection.cursor(row_factory=dict_row).execute(query, values).fetchall()
            )
            return found

    def row(self, listing: str) -> dict[str, Any] | None:
        rows = self.select("SELECT * FROM cars WHERE id = %s", listing)
        return {**rows[0], "prices": self.prices(listing)} if rows else None

    def prices(self, listing: str) -> list[tuple[datetime, int | None]]:
        query = "SELECT seen_at, price_zar FROM price_history WHERE listing_id = %s ORDER BY seen_at"
        return [(row["seen_at"], row["price_zar"]) for row in self.select(query, listing)]

    async def leave(self) -> None:
        for database in self._opened:
            await database.close()


PLACES: dict[str, Callable[[pytest.FixtureRequest], Place]] = {
    "mongo": lambda request: MongoPlace(request.getfixturevalue("mongo")),
    "mongo_set": lambda request: MongoPlace(request.getfixturevalue("mongo_set")),
    "postgres": lambda request: PostgresPlace(request.getfixturevalue("postgres")),
}
"""What the contract is tried on, by name."""


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Place:
    """Each place once."""
    return PLACES[request.param](request)


class OwnServers:
    """Servers of one test alone, which may be killed."""

    def __init__(self) -> None:
        self._servers = ExitStack()
        self._places: list[MongoPlace] = []

    def start(self, **options: Any) -> MongoPlace:
        """A place on a new server, with the options of `MongoServer`."""
        self._places.append(MongoPlace(self._servers.enter_context(MongoServer(**options))))
        return self._places[-1]

    async def leave(self) -> None:
        for place in self._places:
            await place.leave()

    def close(self) -> None:
        """End them."""
        self._servers.close()


@pytest.fixture
def own_servers() -> Iterator[OwnServers]:
    """None at first."""
    servers = OwnServers()
    yield servers
    servers.close()


@pytest.fixture
def on_mongo(mongo: MongoServer) -> MongoPlace:
    """On a standalone server."""
    return MongoPlace(mongo)


@pytest.fixture
def on_set(mongo_set: MongoServer) -> MongoPlace:
    """On a replica set."""
    return MongoPlace(mongo_set)


@pytest.fixture(params=["mongo", "mongo_set"], ids=["standalone", "replica set"])
def on_either(request: pytest.FixtureRequest) -> MongoPlace:
    """On a standalone server, and on a replica set."""
    return MongoPlace(request.getfixturevalue(request.param))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine to its end, and leave the places that it used."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        try:
            await asyncio.wait_for(pyfuncitem.obj(**arguments), 240)
        finally:
            for argument in arguments.values():
                if hasattr(argument, "leave"):
                    await argument.leave()

    asyncio.run(run())
    return True


def _running(**options: Any) -> Iterator[MongoServer]:
    if mongod_binary() is None:
        pytest.skip("there is no mongod")
    with MongoServer(**options) as server:
        yield server


@pytest.fixture(scope="session")
def mongo() -> Iterator[MongoServer]:
    """A standalone server."""
    yield from _running(options=FAIL_POINTS)


@pytest.fixture(scope="session")
def mongo_set() -> Iterator[MongoServer]:
    """A replica set of one node."""
    yield from _running(replica_set=True, options=FAIL_POINTS)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that all of a kind may use."""
    with PostgresServer() as server:
        yield server
