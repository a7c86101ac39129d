"""Which of a page's listings wait for a request, and how much memory parsed specifications take."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from carscraper.api.search_page import Listing
from carscraper.catalogue.pages import read_specs
from carscraper.items import Car
from carscraper.spiders import cars
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.responses.contract import StoredResponse

SPEC = b'{"data":[[{"title":"a","attrs":[{"label":"x","value":"1"}]}]]}'


class Store:
    """As much of a response store as the spider asks."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        self.asked: list[list[str]] = []

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        self.asked.append(list(keys))
        return {key: StoredResponse(key, 200, "http://a.test/", 0.0, SPEC) for key in self.keys & set(keys)}


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
    """What comes of three listings, when other pages' specs are stored after the first output."""
    monkeypatch.setattr(cars, "response_store", lambda _: store)
    stats = spider.crawler.stats

    async def collect() -> list[Any]:
        found: list[Any] = []
        page = [listing(1, "a"), listing(2, "b"), listing(3, "c")]
        async for output in spider._with_specs(page, 1e9, small=True):
            if not found:
                store.keys.update(fetched_meanwhile)
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
    assert store.asked == [["a/2020", "b/2020", "c/2020"], ["b/2020", "c/2020"]]


def test_nothing_is_looked_up_again_when_nothing_has_come(
    spider: CarsSpider, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("a/2020")
    found = outputs(spider, store, monkeypatch, fetched_meanwhile=[])
    assert [type(one) for one in found] == [Car, Request, Request]
    assert len(store.asked) == 1


def memory(value: Any) -> int:
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return sys.getsizeof(value) + sum(map(memory, inner))


@pytest.mark.parametrize(
    "attrs",
    [
        [{"label": f"Label {number}", "value": f"{number} mm"} for number in range(100)],
        [{"label": "", "value": ""}] * 1000,
        [{"a": number} for number in range(1000)],
        [{}] * 1000,
        [[]] * 1000,
        ["ab"] * 1000,
        ["é中😀"] * 1000,
        ["a" * 1000 + "😀"] * 10,
    ],
    ids=["usual", "empty texts", "small objects", "empty objects", "empty arrays", "short", "wide", "long"],
)
def test_parsed_specs_are_weighed_by_no_less_than_the_memory_that_they_take(attrs: list[Any]) -> None:
    body = orjson.dumps({"data": [[{"title": None, "attrs": attrs}]]})
    groups, _ = read_specs(200, body)
    names = 50 * body.count(b'":')  # one text for all fields of that name
    assert cars._memory_of(body) * 1.2 > memory(list(groups)) - names + 2 * len(body)
