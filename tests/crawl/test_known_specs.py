"""Which of a page's listings wait for a request, what is looked up, and how much memory known specifications take."""

from __future__ import annotations

import asyncio
import hashlib
import math
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from carscraper.api.search_page import Listing
from carscraper.items import Car
from carscraper.responses import known_specs
from carscraper.responses.known_specs import KnownSpec, KnownSpecs, weight
from carscraper.spiders import cars
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.responses.contract import StoredResponse
from scrapy_durable.responses.sqlite import SqliteResponseStore

SPEC = b'{"data":[[{"title":"a","attrs":[{"label":"x","value":"1"}]}]]}'
GROUPS = [{"title": "a", "attrs": [{"label": "x", "value": "1"}]}]


class Store:
    """As much of a response store as the spider asks."""

    def __init__(self, *keys: str, fetched_at: float = 0.0) -> None:
        self.keys = set(keys)
        self.fetched_at = fetched_at
        self.asked: list[list[str]] = []

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        self.asked.append(list(keys))
        found = self.keys & set(keys)
        return {key: StoredResponse(key, 200, "http://a.test/", self.fetched_at, SPEC) for key in found}

    async def derive(self, made: Mapping[str, tuple[float, bytes]]) -> None:
        assert made.keys() <= self.keys


@pytest.fixture
def spider() -> CarsSpider:
    settings = Settings()
    settings.setmodule("carscraper.settings")
    settings.set("CARS_API_URL", "http://127.0.0.1:1/fw/public")
    crawler = Crawler(CarsSpider, settings)
    crawler.stats = MemoryStatsCollector(crawler)
    return CarsSpider.from_crawler(crawler)


def listing(number: int, code: str) -> Listing:
    return Listing(str(number), {"code": code, "year": 2020}, code, 2020, "")


def outputs(
    spider: CarsSpider, store: Store, monkeypatch: pytest.MonkeyPatch, *, fetched_meanwhile: Sequence[str]
) -> list[Car | Request]:
    """What comes of three listings, when other pages' specs are fetched after the first output."""
    monkeypatch.setattr(cars, "response_store", lambda _: store)
    stats = spider.crawler.stats

    async def collect() -> list[Any]:
        found: list[Any] = []
        page = [listing(1, "a"), listing(2, "b"), listing(3, "c")]
        async for output in spider._with_specs(page, 1e9, small=True):
            if not found:
                for key in fetched_meanwhile:
                    spider.known_specs.put(key, KnownSpec.read(200, SPEC, spider._now()))
                stats.inc_value("responses/stored", len(fetched_meanwhile))
            found.append(output)
        return found

    return asyncio.run(collect())


def test_a_spec_that_came_while_cars_were_kept_needs_no_request(
    spider: CarsSpider, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("a/2020")
    found = outputs(spider, store, monkeypatch, fetched_meanwhile=["b/2020"])
    assert [one.id for one in found if isinstance(one, Car)] == ["1", "2"]
    [request] = [one for one in found if isinstance(one, Request)]
    assert [row[0] for row in request.cb_kwargs["listings"]] == ["3"]
    assert store.asked == [["a/2020", "b/2020", "c/2020"]], "what this worker has fetched it knows"


def test_nothing_is_looked_up_again_when_nothing_has_come(
    spider: CarsSpider, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("a/2020")
    found = outputs(spider, store, monkeypatch, fetched_meanwhile=[])
    assert [type(one) for one in found] == [Car, Request, Request]
    assert len(store.asked) == 1


def test_a_spec_that_is_known_is_not_looked_up_again(
    spider: CarsSpider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spider, "_now", lambda: 1e9)
    store = Store("a/2020", "b/2020", fetched_at=1e9)
    for asked in ([["a/2020", "b/2020", "c/2020"]], [["c/2020"]]):
        store.asked.clear()
        found = outputs(spider, store, monkeypatch, fetched_meanwhile=[])
        assert [one.id for one in found if isinstance(one, Car)] == ["1", "2"]
        assert [one.car_specs for one in found if isinstance(one, Car)] == [GROUPS, GROUPS]
        assert store.asked == asked


def test_a_known_spec_is_looked_up_again_once_it_is_too_old(
    spider: CarsSpider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1e9
    monkeypatch.setattr(spider, "_now", lambda: now)
    store = Store("a/2020", "b/2020", "c/2020", fetched_at=now)
    outputs(spider, store, monkeypatch, fetched_meanwhile=[])
    now += spider._config.spec_ttl
    store.asked.clear()
    outputs(spider, store, monkeypatch, fetched_meanwhile=[])
    assert store.asked == [["a/2020", "b/2020", "c/2020"]]


def answer_with(attrs: list[Any]) -> bytes:
    return orjson.dumps({"data": [[{"title": None, "attrs": attrs}]]})


@pytest.mark.parametrize(
    "body",
    [
        answer_with([{"label": f"Label {number}", "value": f"{number} mm"} for number in range(100)]),
        answer_with([]),
        answer_with(["é中😀"] * 1000),
        answer_with([{f"name {number}": [number, "x" * 80]} for number in range(1000)]),
        orjson.dumps({"data": [[{"title": number} for number in range(1000)]], "x" * 64: "é" * 80}),
    ],
    ids=["usual", "nothing", "wide", "many odd paths", "odd throughout"],
)
def test_known_specs_are_weighed_by_no_less_than_the_memory_that_they_take(body: bytes) -> None:
    KnownSpec.read(200, body, 1e9)
    known = KnownSpecs()
    tracemalloc.start()
    try:
        for number in range(200):
            known.put(f"code {number}/2020", KnownSpec.read(200, body, 1e9 + number))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    found = known.get("code 7/2020", 0.0)
    assert found is not None
    assert taken < 200 * weight(found)


def test_known_specs_are_let_go_when_they_weigh_too_much_together() -> None:
    one = KnownSpec.read(200, SPEC, 1e9)
    known = KnownSpecs(most=2 * weight(one))
    for key in ("a", "a", "b", "c"):
        known.put(key, one)
    assert [known.get(key, 0.0) for key in "abc"] == [None, one, one]


def test_known_specs_that_were_let_go_weigh_nothing() -> None:
    one = KnownSpec.read(200, SPEC, 1e9)
    known = KnownSpecs(most=2 * weight(one))
    for letters in ("ab", "cd"):
        for key in letters:
            known.put(key, one)
        assert [known.get(key, 0.0) for key in letters] == [one, one]
        known.clear()
        assert [known.get(key, 0.0) for key in letters] == [None, None]


bodies = st.one_of(
    st.sampled_from([SPEC, b'{"data": [[{"title": "a\\/b", "attrs": []}]]}', b'{"data":[[]]}']),
    st.lists(st.recursive(st.none() | st.integers(0, 9) | st.text(), st.lists, max_leaves=3)).map(
        lambda attrs: orjson.dumps({"data": [[{"title": "a", "attrs": attrs}]], "new": 1})
    ),
)


@given(bodies)
def test_what_was_made_of_an_answer_says_what_the_answer_does(body: bytes) -> None:
    read = KnownSpec.read(200, body, 1e9)
    stored = StoredResponse("a", 200, "http://a.test/", 1e9, body, read.derived(body))
    made = KnownSpec.of(stored)
    assert made is not None
    assert made.specification.json == read.specification.json
    assert made[1:] == read[1:]


@pytest.mark.parametrize(
    "derived", [b"", b"\x01", b"\x00" + KnownSpec.read(200, SPEC, 1e9).derived(SPEC)[1:]]
)
def test_what_another_release_has_made_is_not_used(derived: bytes) -> None:
    assert KnownSpec.of(StoredResponse("a", 200, "http://a.test/", 1e9, SPEC, derived)) is None


READ = [
    SPEC,
    b'{"data": [[{"title": "a\\/b", "attrs": []}], [{"attrs": 1e3, "title": "\\u00e9", "title": null}]]}',
    b'{"data":[{"title":7,"new":{"b":1,"a":[]},"attrs":[{"value":1e999,"label":"x"},null]}],"top":123456789012345678901}',
    b'{"data":[]}',
]


def test_who_reads_specifications_otherwise_says_so_by_another_version() -> None:
    """What one release has made of an answer another of the same version takes as it is."""
    found = [KnownSpec.read(200, body, 1e9) for body in READ]
    told = orjson.dumps([[one.specification.groups, one.deviations] for one in found])
    read = hashlib.blake2b(told, digest_size=8).hexdigest()
    assert {known_specs._VERSION: read} == {1: "e968b147193b9503"}


def test_a_stored_specification_is_read_once_for_all_crawls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that an earlier release has stored, and the absence of one costs nothing."""
    read: list[bytes] = []
    really = known_specs.read_specs
    monkeypatch.setattr(known_specs, "read_specs", lambda *told: read.append(told[1]) or really(*told))

    async def crawls() -> list[dict[str, KnownSpec]]:
        store = SqliteResponseStore(tmp_path / "responses.sqlite")
        await store.open()
        await store.put("a", 200, "http://a.test/", SPEC)
        await store.put("b", 200, "http://a.test/", b'{"data": 7}')
        found = [await KnownSpecs().look_up(store, "ab", 0.0, math.inf) for _ in range(3)]
        await store.close()
        assert [unreadable for _, unreadable in found] == [1, 1, 1]
        return [specs for specs, _ in found]

    found = asyncio.run(crawls())
    assert found[0] is not found[1]
    assert [specs.keys() for specs in found] == [{"a"}] * 3
    assert len({specs["a"].specification.json for specs in found}) == 1
    assert read.count(SPEC) == 1


def test_a_car_of_a_known_spec_has_groups_of_its_own() -> None:
    specification = KnownSpec.read(200, SPEC, 1e9).specification
    first, second = (Car(number, "", "", {}, specification) for number in ("1", "2"))
    assert first.specs_json is second.specs_json
    assert first.car_specs is not None
    first.car_specs[0]["title"] = "b"
    assert orjson.loads(first.specs_json) == [{**GROUPS[0], "title": "b"}]
    assert second.car_specs == GROUPS
    second.car_specs = None
    assert second.specs_json == b"null"
