"""What others push to the start key becomes a request or a refusal that is said, and stops nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.settings import Settings

from carscraper.api.endpoints import search_url
from carscraper.config import Config
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.exceptions import StartUrlRefused
from scrapy_durable.start_urls import LONGEST, MOST_REQUESTS, requests_from
from tests.hostile.conftest import LISTINGS, SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.tripwires import Tripwire

API = "https://api.cars.test/fw/public"
PAGE = search_url(API, offset=0, limit=20)
KEY = "cars:start_urls"


def cars_spider() -> CarsSpider:
    settings = Settings()
    settings.setmodule("carscraper.settings")
    settings.set("CARS_API_URL", API)
    return CarsSpider(Config.from_settings(settings))


CARS = cars_spider()


class PlainSpider(Spider):
    """One that takes what is pushed as an address."""

    name = "plain"


class TrustingSpider(Spider):
    """One that makes of what is pushed whatever it says, as scrapy-redis does of JSON."""

    name = "trusting"

    def make_request_from_data(self, data: bytes) -> Any:
        said = json.loads(data)
        return [Request(**one) for one in said] if isinstance(said, list) else FormRequest(**said)


PUSHED = (
    st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=20).map(lambda end: PAGE.encode() + end)
    | st.dictionaries(
        st.sampled_from(["url", "method", "meta", "headers", "body", "cookies", "dont_filter", "callback"]),
        st.none() | st.booleans() | st.text() | st.just(PAGE) | st.dictionaries(st.text(), st.text()),
    ).map(lambda said: json.dumps(said).encode())
)


def requests_or_refused(spider: Spider, data: bytes) -> list[Request]:
    """What comes of it; nothing when it is refused, in a line that is short and can be printed."""
    try:
        return requests_from(spider, data)
    except StartUrlRefused as refused:
        said = str(refused)
    assert 0 < len(said) < 500
    assert said.isprintable()
    return []


@given(PUSHED)
@example(b"/fw/public/v3/vehicle?page%5Boffset%5D=0")
@example(b"http://[bad")
@example(PAGE.encode())
def test_any_bytes_are_a_request_for_a_listing_page_or_refused(data: bytes) -> None:
    requests = requests_or_refused(CARS, data)
    assert len(requests) < 2
    for request in requests:
        assert request.url.startswith(f"{API}/v3/vehicle?")
        assert (request.method, request.body, request.headers.to_string()) == ("GET", b"", b"")


@given(PUSHED)
@example(b"http://[bad")
@example(b'{"url": "https://site.test", "meta": {"proxy": "http://evil.test"}}')
@example(b'{"url": "https://site.test", "method": "DELETE"}')
@example(b'{"url": "https://site.test", "headers": {"a": "b"}}')
@example(b"[" * 100_000)
@pytest.mark.parametrize("spider", [PlainSpider(), TrustingSpider()], ids=lambda spider: spider.name)
def test_any_bytes_are_a_get_of_an_address_or_refused_for_any_spider(spider: Spider, data: bytes) -> None:
    for request in requests_or_refused(spider, data):
        assert (request.method, request.body, request.headers.to_string()) == ("GET", b"", b"")
        assert "proxy" not in request.meta


def test_one_value_makes_a_bounded_number_of_requests() -> None:
    with pytest.raises(StartUrlRefused, match="more than 100 requests"):
        requests_from(TrustingSpider(), json.dumps([{"url": PAGE}] * (MOST_REQUESTS + 1)).encode())
    assert len(requests_from(TrustingSpider(), json.dumps([{"url": PAGE}] * MOST_REQUESTS).encode())) == 100


# By the real command line


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_a_crawl_goes_on_past_whatever_was_pushed(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, kind: str
) -> None:
    page = search_url(site.url, offset=0, limit=7)
    with Tripwire("127.0.0.2") as elsewhere:
        wrong = [
            b"/fw/public/v3/vehicle?page%5Boffset%5D=0",
            page.encode() + b"\x1b[31mred\x1b[0m",
            page.encode() + b"\xff\xfe",
            page.encode() + b"\0",
            page.replace("/v3/vehicle", "/v3/../v3/vehicle").encode(),
            f"{elsewhere.url}fw/public/v3/vehicle?page%5Boffset%5D=0".encode(),
            f"http://127.0.0.1@127.0.0.2:{elsewhere.port}/fw/public/v3/vehicle?page%5Boffset%5D=0".encode(),
            json.dumps({"url": page, "meta": {"proxy": elsewhere.url}, "method": "DELETE"}).encode(),
            b"\x80\x04\x95\x0f\x00",
            b"http://[bad",
            b"",
            b" " * LONGEST,
            page.encode() + b"x" * 3_000_000,
        ]
        values = [*wrong, page.encode()]
        if kind == "zset":
            client.zadd(KEY, dict.fromkeys(values, 1.0))
        elif kind == "set":
            client.sadd(KEY, *values)
        else:
            values += [b"/twice", b"/twice", page.encode()]
            wrong += [b"/twice", b"/twice"]
            client.rpush(KEY, *values)
        flags = {} if kind == "list" else {f"REDIS_START_URLS_AS_{kind.upper()}": 1}
        run = start(redis_url=server.url, settings={"CARS_PAGE_SIZE": 50, **flags})
        assert run.wait(SECONDS) == 0, run.log
        assert elsewhere.touched == 0
    assert sorted(run.cars()) == sorted(site.ids())
    assert not client.exists(KEY)
    assert run.log.count(f"Refused what was pushed to {KEY}: ") == len(wrong)
    assert f"'start_urls/refused': {len(wrong)}" in run.log
    assert "3000" in run.log
    assert "Traceback" not in run.log
    assert "\x1b" not in run.log
    assert max(map(len, run.log.splitlines())) < 1000
    assert sum("limit%5D=7" in target for target in site.pages()) == -(-LISTINGS // 7)


@pytest.mark.parametrize("kind", ["hash", "set", "string"])
def test_a_start_key_of_another_type_is_said_once_and_holds_nothing_up(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, kind: str
) -> None:
    if kind == "hash":
        client.hset(KEY, "a", "b")
    elif kind == "set":
        client.sadd(KEY, "a")
    else:
        client.set(KEY, "a")
    run = start(redis_url=server.url)
    assert run.wait(SECONDS) == 0, run.log
    assert run.log.count(f"Nothing can be taken from {KEY}: it is a {kind}, not a list") == 1
    assert client.exists(KEY)
    assert sorted(run.cars()) == sorted(site.ids())


def test_a_million_refusals_do_not_fill_the_log(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    client.rpush(KEY, *[f"/{number}" for number in range(500)])
    run = start(redis_url=server.url, settings={"CONCURRENT_REQUESTS": 1000})
    assert run.wait(SECONDS) == 0, run.log
    assert run.log.count(f"Refused what was pushed to {KEY}: ") == 100
    assert run.log.count(f"More that is refused from {KEY} is counted, and not named any more") == 1
    assert "'start_urls/refused': 500" in run.log
    assert not client.exists(KEY)
