"""The databases that the contract is tried on, each on the real thing, and what tests need to look into them."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Protocol

import pytest

from carscraper.stores.contract import Database
from carscraper.stores.mongo import MongoDatabase
from tests.mongo_server import MongoServer, mongod_binary

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

    def connect(self, uri: str | None = None) -> MongoDatabase:
        """`uri` leads to another one, or on another way, than where this place is."""
        database = MongoDatabase.from_uri(uri or self.server.uri(self.name))
        self._opened.append(database)
        return database

    def row(self, listing: str) -> dict[str, Any] | None:
        with self.server.client() as client:
            found: dict[str, Any] | None = client[self.name].cars.find_one({"_id": listing})
            return found

    def prices(self, listing: str) -> list[tuple[datetime, int | None]]:
        with self.server.client() as client:
            rows = client[self.name].price_history.find({"id": listing})
            return sorted((row["seen_at"], row["price_zar"]) for row in rows)

    async def leave(self) -> None:
        for database in self._opened:
            await database.close()


PLACES: dict[str, Callable[[pytest.FixtureRequest], Place]] = {
    "mongo": lambda request: MongoPlace(request.getfixturevalue("mongo")),
    "mongo-set": lambda request: MongoPlace(request.getfixturevalue("mongo_set")),
}
"""What the contract is tried on, by name."""


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Place:
    """Each place once."""
    return PLACES[request.param](request)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine to its end, and leave the places that it used."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        try:
            await asyncio.wait_for(pyfuncitem.obj(**arguments), 60)
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
    yield from _running()


@pytest.fixture(scope="session")
def mongo_set() -> Iterator[MongoServer]:
    """A replica set of one node."""
    yield from _running(replica_set=True)
