"""The specifications that pages are merged with: each is read once while it is known, and only so many are known."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from typing import cast

import orjson
import pytest

from carscraper.api.search_page import Listing
from carscraper.items import Car, OddSpec
from carscraper.reparse import specs as module
from carscraper.reparse.specs import StoredSpecs
from carscraper.responses import known_specs
from carscraper.responses.known_specs import KnownSpecs
from scrapy_durable.responses.contract import ResponseStore, StoredResponse

PAGE = StoredResponse("page", 200, "http://127.0.0.1/page", 1e9, b"")
LARGE = 100_000
"""Bytes of a specification, about."""
FEW = known_specs.MOST // LARGE + 100
"""More than are known at a time."""


class Store:
    """Has a specification of that size for every key but those that have none: odd where its year is so."""

    def __init__(self, size: int, none: Sequence[str] = ()) -> None:
        self.asked: list[str] = []
        self._size = size
        self._none = none

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        self.asked += keys
        return {key: self._answer(key) for key in keys if key not in self._none}

    def _answer(self, key: str) -> StoredResponse:
        group = {"title": key, "attrs": [{"label": "Cylinders", "value": "x" * self._size}]}
        if int(key.partition("/")[2]) % 2:
            group["new"] = 1
        return StoredResponse(key, 200, "", 1e9, orjson.dumps({"data": [[group]]}))


def stored(store: Store) -> StoredSpecs:
    return StoredSpecs(cast("ResponseStore", store))


def merged(specs: StoredSpecs, *keys: str) -> tuple[list[Car], list[str]]:
    """The cars of a page whose listings have these specifications, and which of those were told as odd."""
    split = (key.partition("/") for key in keys)
    listings = [Listing(str(number), {}, code, int(year), "") for number, (code, _, year) in enumerate(split)]
    found = asyncio.run(specs.merge(listings, PAGE))
    cars = [item for item in found if isinstance(item, Car)]
    return cars, [item.key for item in found if isinstance(item, OddSpec)]


def titles(cars: list[Car]) -> list[str | None]:
    return [car.car_specs[0]["title"] if car.car_specs else None for car in cars]


def test_each_listing_gets_its_own_and_each_is_read_once() -> None:
    store = Store(10)
    specs = stored(store)
    cars, odd = merged(specs, "a/2000", "b/2001", "a/2000")
    assert titles(cars) == ["a/2000", "b/2001", "a/2000"]
    assert odd == ["b/2001"]
    cars, odd = merged(specs, "b/2001", "c/2003")
    assert titles(cars) == ["b/2001", "c/2003"]
    assert odd == ["c/2003"]
    assert store.asked == ["a/2000", "b/2001", "c/2003"]


def test_one_that_was_let_go_is_read_again_and_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KnownSpecs", lambda: KnownSpecs(most=1))
    store = Store(10)
    specs = stored(store)
    for told in (["a/2001"], []):
        cars, odd = merged(specs, "a/2001")
        assert titles(cars) == ["a/2001"]
        assert odd == told
    assert store.asked == ["a/2001", "a/2001"]


def test_one_that_cannot_be_had_is_asked_for_once_and_named_with_its_listings() -> None:
    store = Store(10, none=["a/2000"])
    specs = stored(store)
    for _ in range(2):
        cars, _ = merged(specs, "a/2000", "b/2000")
        assert titles(cars) == [None, "b/2000"]
    assert store.asked == ["a/2000", "b/2000"]
    assert list(specs.absent) == ["a/2000"]
    assert list(specs.absent["a/2000"].listings) == ["0"]


def peak(count: int) -> int:
    """Bytes that so many specifications take at most, each asked for once."""
    specs = stored(Store(LARGE))
    tracemalloc.start()
    try:
        for number in range(count):
            merged(specs, f"{number}/2000")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_catalogue() -> None:
    assert peak(2 * FEW) < 1.2 * peak(FEW)
