"""What others put into the queue on Redis: only what this crawl itself queues is done, the rest is a dead letter."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from carscraper.api.endpoints import SearchFilters, search_url, spec_url
from carscraper.catalogue.fingerprints import DISTINCT
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.codec import decode, encode
from scrapy_durable.frontier.contract import Entry, Outbox, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_server import RedisKeys
from scrapy_durable.frontier.sealed import Seal
from scrapy_durable.responses.middleware import KEPT, STORE_KEY
from tests.hostile.conftest import SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.tripwires import Tripwire

API = "https://api.cars.test/fw/public"
READ_AT = "2024-11-20T10:15:00.123Z"


def spider_of(api_url: str) -> CarsSpider:
    settings = Settings()
    settings.setmodule("carscraper.settings")
    settings.set("CARS_API_URL", api_url)
    return CarsSpider.from_crawler(Crawler(CarsSpider, settings))


SPIDER = spider_of(API)


FIRST = {"pass_number": 1, "walk": None, "idle": 0}
"""What the first page of a pass is asked for with."""


def page(api_url: str = API, **departing: Any) -> dict[str, Any]:
    """A listing page as the crawl queues it, but for what departs."""
    return {
        "v": 1,
        "url": search_url(api_url, offset=40, limit=20),
        "meta": {DISTINCT: "1", KEPT: True, "verbatim_url": True},
        "cb_kwargs": {"pass_number": 1, "walk": [20, 200], "idle": 0},
        "callback": "parse_page",
        **departing,
    }


def spec(api_url: str = API, *, key: tuple[str, int] = ("0123/4", 2017), **departing: Any) -> dict[str, Any]:
    """A specification as the crawl queues it, but for what departs."""
    code, year = key
    return {
        "v": 1,
        "url": spec_url(api_url, code, year),
        "meta": {
            DISTINCT: "1795000000.5,99,990",
            STORE_KEY: f"{code}/{year}",
            "handle_httpstatus_list": [404],
            "verbatim_url": True,
        },
        "cb_kwargs": {"listings": [["99", "", READ_AT, {}], ["990", "https://a.test/b", READ_AT, {"a": 1}]]},
        "callback": "parse_spec",
        "priority": 10,
        **departing,
    }


def with_meta(document: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {**document, "meta": {**document["meta"], **meta}}


def with_rows(*rows: Sequence[Any], **departing: Any) -> dict[str, Any]:
    ids = ",".join(["1.5", *sorted(str(row[0]) for row in rows)])
    return with_meta(spec(cb_kwargs={"listings": list(rows)}, **departing), **{DISTINCT: ids})


def test_what_the_crawl_queues_comes_back() -> None:
    """The counterpart; whole crawls, all over the tests, are another."""
    for document in (
        page(),
        page(cb_kwargs=FIRST, url=search_url(API, offset=0, limit=20)),
        with_meta(page(cb_kwargs={**FIRST, "pass_number": 0, "idle": 3}), **{DISTINCT: "0"}),
        spec(),
        with_rows(["a_-9", "http://a.test/", "2024-01-01T00:00:00.000Z", {}]),
    ):
        request = decode(orjson.dumps(document), SPIDER)
        assert orjson.loads(encode(request, SPIDER)) == document


OWN = {"pass_number": 1, "walk": [20, 200], "idle": 0}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (page(method="POST"), "method: this spider queues none"),
        (page(method="GET"), "method: this spider queues none"),
        (page(headers={"Authorization": ["x"]}), "headers: this spider queues none"),
        (page(body="x"), "body: this spider queues none"),
        (page(cookies={"a": "b"}), "cookies: this spider queues none"),
        (page(errback="parse_page"), "errback: this spider queues none"),
        (page(dont_filter=True), "dont_filter: this spider queues none"),
        (page(flags=["cached"]), "flags: this spider queues none"),
        (page(encoding="utf-16"), "encoding: this spider queues none"),
        (page(callback="_set_crawler"), "callback: this spider queues none of the name '_set_crawler'"),
        (page(callback="closed"), "callback: this spider queues none of the name 'closed'"),
        ({"v": 1, "url": API}, "callback: this spider queues none of the name None"),
        (with_meta(page(), proxy="http://evil.test"), "meta.proxy: this spider queues none"),
        (with_meta(page(), dont_obey_robotstxt=True), "meta.dont_obey_robotstxt: this spider queues none"),
        (with_meta(page(), download_slot="x"), "meta.download_slot: this spider queues none"),
        (with_meta(page(), **{KEPT: 1}), f"meta.{KEPT}: not what this spider queues"),
        (page(meta={KEPT: True, "verbatim_url": True}), f"meta.{DISTINCT}: missing"),
        (with_meta(page(), **{DISTINCT: "2"}), f"meta.{DISTINCT}: not that of the pass"),
        (page(cb_kwargs={**OWN, "pass_number": -1}), "cb_kwargs.pass_number: not what this spider queues"),
        (page(cb_kwargs={**OWN, "pass_number": True}), "cb_kwargs.pass_number: not what this spider queues"),
        (page(cb_kwargs={**OWN, "walk": [20, 10**12]}), "cb_kwargs.walk: not what this spider queues"),
        (page(cb_kwargs={**OWN, "walk": [0, 200]}), "cb_kwargs.walk: not what this spider queues"),
        (page(cb_kwargs={**OWN, "walk": [20]}), "cb_kwargs.walk: not what this spider queues"),
        (page(cb_kwargs={**OWN, "idle": -1}), "cb_kwargs.idle: not what this spider queues"),
        (page(cb_kwargs={**OWN, "idle": 64}), "cb_kwargs.idle: not what this spider queues"),
        (page(cb_kwargs=FIRST), "cb_kwargs.walk: only the first page of a pass has none"),
        (page(url=search_url(API, offset=0, limit=20)), "cb_kwargs.walk: only the first page of a pass"),
        (
            with_meta(page(cb_kwargs={**OWN, "pass_number": 0}), **{DISTINCT: "0"}),
            "cb_kwargs.walk: there is none",
        ),
        (page(cb_kwargs={"pass_number": 1, "idle": 0}), "cb_kwargs.walk: missing"),
        (page(cb_kwargs={**OWN, "x": 1}), "cb_kwargs.x: this spider queues none"),
        (page(url="http://evil.test/v3/vehicle?page%5Boffset%5D=0"), "url: "),
        (page(url=search_url(API, offset=40, limit=20).replace("https", "http")), "url: "),
        (page(url=f"{API}.evil.test/v3/vehicle?page%5Boffset%5D=0"), "url: "),
        (page(url=f"{API}/v3/vehicle?page%5Boffset%5D=40"), "url: a page of another search"),
        (
            page(url=search_url(API, offset=40, limit=20, filters=SearchFilters(make="Audi"))),
            "url: a page of another search",
        ),
        (spec(url="file:///etc/passwd"), f"url: not that of meta.{STORE_KEY}"),
        (spec(url=f"{API}/v2/specs/0123%2F4/2018"), f"url: not that of meta.{STORE_KEY}"),
        (with_meta(spec(), **{STORE_KEY: "x/99999"}), f"meta.{STORE_KEY}: no code and year"),
        (with_meta(spec(), **{STORE_KEY: "../../x y/2017"}), f"meta.{STORE_KEY}: code: "),
        (with_meta(spec(), **{DISTINCT: "x"}), f"meta.{DISTINCT}: not that of the listings that wait"),
        (with_meta(spec(), handle_httpstatus_list=[200, 500]), "meta.handle_httpstatus_list: not what"),
        (with_rows(), "cb_kwargs.listings: not what this spider queues"),
        (with_rows(["1", "javascript:alert(1)", READ_AT, {}]), "cb_kwargs.listings: not what this spider"),
        (with_rows(["1", "", "9998-01-01T00:00:00.000Z", {}]), "cb_kwargs.listings[0]: read at 9998-"),
        (with_rows(["1", "", "0001-01-01T00:00:00.000Z", {}]), "cb_kwargs.listings: not what this spider"),
        (with_rows(["1", "", "2024-02-31T00:00:00.000Z", {}]), "cb_kwargs.listings: not what this spider"),
        (with_rows(["1", "", READ_AT, []]), "cb_kwargs.listings: not what this spider queues"),
        (with_rows(["../1", "", READ_AT, {}]), "cb_kwargs.listings: not what this spider queues"),
        (with_rows(["1", "", READ_AT]), "cb_kwargs.listings: not what this spider queues"),
    ],
)
def test_anything_else_is_refused_with_its_path(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(orjson.dumps(document), SPIDER)
    assert str(caught.value).startswith(reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        *(
            (name,)
            for name in ("v", "url", "method", "headers", "body", "body64", "cookies", "meta", "cb_kwargs")
        ),
        *(
            (name,)
            for name in ("callback", "errback", "priority", "dont_filter", "flags", "encoding", "x\x1b")
        ),
        *(
            ("meta", name)
            for name in (DISTINCT, KEPT, STORE_KEY, "verbatim_url", "proxy", "handle_httpstatus_list")
        ),
        *(("cb_kwargs", name) for name in ("pass_number", "walk", "idle", "listings", "response")),
    ]
)


@given(base=st.sampled_from([page(), spec()]), changes=st.lists(st.tuples(PATHS, JSON), max_size=3))
def test_any_document_is_of_the_declared_shape_or_refused(
    base: dict[str, Any], changes: list[tuple[tuple[str, ...], Any]]
) -> None:
    document = orjson.loads(orjson.dumps(base))
    for path, value in changes:
        holder = document if len(path) == 1 else document.get(path[0])
        if isinstance(holder, dict):
            holder[path[-1]] = value
    try:
        request = decode(orjson.dumps(document), SPIDER)
    except CodecError as error:
        said = str(error)
    else:
        said = ""
        assert request.url.startswith(f"{API}/")
        assert (request.method, request.body, request.headers.to_string()) == ("GET", b"", b"")
        assert request.errback is None
        assert request.callback in (SPIDER.parse_page, SPIDER.parse_spec)
        assert {*request.meta} <= {DISTINCT, KEPT, STORE_KEY, "verbatim_url", "handle_httpstatus_list"}
        assert {*request.cb_kwargs} in ({"pass_number", "walk", "idle"}, {"listings"})
    assert len(said) < 1000
    assert said.isprintable()


@given(data=st.binary() | st.binary().map(lambda more: orjson.dumps(page())[:-1] + more))
def test_any_bytes_are_refused_or_of_the_declared_shape(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        assert decode(data, SPIDER).url.startswith(f"{API}/")


# By the real command line


async def put(port: int, payloads: Sequence[bytes], identity: str, crawl_id: str) -> None:
    """Begin a crawl as a worker would, and queue these payloads as they are."""
    frontier = RedisFrontier(
        RedisKeys(Redis(port=port), prefix="cars"), worker="stranger", limits={}, default_limit=SlotLimit(0)
    )
    await frontier.begin(crawl_id, identity)
    entries = [Entry(number, "127.0.0.1", "parse_spec", payload) for number, payload in enumerate(payloads)]
    await frontier.exchange(Outbox(entries=entries), 0)
    await frontier.close()


def test_an_honest_crawl_goes_on_beside_them_and_names_each(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    key = sorted(site.keys())[0]
    honest = spec(site.url, key=key)
    asked = search_url(site.url, offset=0, limit=20)
    with Tripwire("127.0.0.2") as elsewhere:
        documents = [
            {"v": 1, "url": elsewhere.url, "method": "POST", "body": "x", "callback": "parse_spec"},
            {"v": 1, "url": f"{site.url}/v3/vehicle", "method": "DELETE"},
            with_meta(honest, proxy=elsewhere.url),
            with_meta(honest, dont_obey_robotstxt=True),
            {**honest, "headers": {"X-Stranger": ["1"]}},
            {**honest, "callback": "_set_crawler"},
            {**honest, "callback": "close", "cb_kwargs": {"reason": "mine"}},
            {**honest, "errback": "parse_spec"},
            page(site.url, url=f"{elsewhere.url}fw/public/v3/vehicle?page%5Boffset%5D=40"),
            page(site.url, url=search_url(site.url, offset=0, limit=20, filters=SearchFilters(make="Audi"))),
            {"v": 1, "url": asked, "callback": "parse_page", "cb_kwargs": FIRST},
            with_rows(["7", "javascript:alert(1)", READ_AT, {}], url=honest["url"]),
            with_rows(["7", "", "9998-12-31T00:00:00.000Z", {}], url=honest["url"]),
            {**honest, "\x1b[31m" * 100: 1},
        ]
        payloads = [*map(orjson.dumps, documents), b"\x80\x04\x95", b"[" * 5000, b"\xff\x00"]
        identity = getattr(spider_of(site.url), "identity", "")
        asyncio.run(put(server.port, payloads, identity, "20241120T101500Z-3f9a1c"))
        run = start(redis_url=server.url)
        assert run.wait(SECONDS) == 1, run.log
        assert elsewhere.touched == 0
    said = run.run_json()
    assert said["kept"] == said["expected"] == len(site.ids())
    assert said["missing"] == []
    assert len(said["given_up"]) == len(payloads)
    assert all("unreadable: " in letter["reason"] for letter in said["given_up"])
    assert "callback: this spider queues none of the name '_set_crawler'" in str(said["given_up"])
    assert "meta.proxy: this spider queues none" in str(said["given_up"])
    assert run.log.count("Dead-lettered a request that cannot be read back: ") == len(payloads)
    assert {entry["method"] for entry in site.journal()} == {"GET"}
    assert "\x1b" not in run.log
    assert "Traceback" not in run.log
    assert "javascript:" not in "".join(
        path.read_text(errors="replace") for path in run.output_dir.rglob("*.json*")
    )


KEY = "0123456789abcdef" * 2


def test_with_a_key_not_even_what_looks_like_ours_is_taken(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    key = sorted(site.keys())[0]
    lookalikes = [
        spec(site.url, key=key),
        with_rows(["7", "", READ_AT, {"code": key[0]}], url="x"),
        page(site.url),
    ]
    queue = "cars\0cars"
    identity = f"{getattr(spider_of(site.url), 'identity', '')} signed with the key {Seal(KEY, queue).mark}"
    payloads = [*map(orjson.dumps, lookalikes), Seal("x" * 32, queue).seal(b"{}", "crawl", "3")]
    asyncio.run(put(server.port, payloads, identity.strip(), "20241120T101500Z-3f9a1c"))
    without = start(redis_url=server.url)
    assert without.wait(SECONDS) == 2, without.log
    run = start(redis_url=server.url, env={"DURABLE_QUEUE_KEY": KEY})
    assert run.wait(SECONDS) == 1, run.log
    said = run.run_json()
    assert said["kept"] == said["expected"] == len(site.ids())
    assert len(said["given_up"]) == len(payloads)
    assert all("not signed" in letter["reason"] for letter in said["given_up"])
    assert KEY not in run.log + without.log


def test_a_crawl_with_a_key_is_complete(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    runs = [start(redis_url=server.url, env={"DURABLE_QUEUE_KEY": KEY}) for _ in range(2)]
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
    assert sorted(runs[0].cars()) == sorted(site.ids())


def test_a_short_key_is_refused_and_not_shown(site: StandIn, start: Start) -> None:
    run = start(env={"DURABLE_QUEUE_KEY": "hunter2"})
    assert run.wait(SECONDS) == 2, run.log
    assert "DURABLE_QUEUE_KEY: a key has 32 characters or more" in run.log
    assert "hunter2" not in run.log


def scrambled(dice: random.Random, api_url: str, key: tuple[str, int]) -> bytes:
    """Something between what the crawl queues and noise."""
    document = dice.choice([page, spec])(api_url) if dice.random() < 0.5 else spec(api_url, key=key)
    for _ in range(dice.randrange(4)):
        name = dice.choice([*document, "method", "headers", "errback", "flags", "x"])
        value = dice.choice([None, True, -1, 2**63, 1.5, "", "\x1b[2J", "http://h/", [], [[]], {}, {"a": {}}])
        if dice.random() < 0.3:
            document.pop(name, None)
        elif isinstance(document.get(name), dict) and dice.random() < 0.7:
            document[name] = {**document[name], dice.choice([*document[name], "proxy"]): value}
        else:
            document[name] = value
    data = bytearray(orjson.dumps(document))
    for _ in range(dice.randrange(3) if dice.random() < 0.3 else 0):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data[: dice.randrange(len(data))] if dice.random() < 0.1 else data)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_crawl_among_random_payloads_and_pushes_ends_and_says_what_was_lost(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, seed: int
) -> None:
    dice = random.Random(seed)
    key = dice.choice(sorted(site.keys()))
    payloads = [scrambled(dice, site.url, key) for _ in range(100)]
    identity = getattr(spider_of(site.url), "identity", "")
    asyncio.run(put(server.port, payloads, identity, "20241120T101500Z-3f9a1c"))
    link = search_url(site.url, offset=0, limit=50).encode()
    pushed = [link[: dice.randrange(len(link))] + dice.randbytes(dice.randrange(9)) for _ in range(30)]
    client.rpush("cars:start_urls", *pushed)
    run = start(redis_url=server.url)
    code = run.wait(SECONDS)
    said = run.run_json()
    assert (code == 0) == said["complete"] == (said["reasons"] == []), run.log
    assert code in (0, 1)
    assert said["missing"] == []
    assert run.log.count("Dead-lettered a request that cannot be read back: ") > 10
    assert not client.exists("cars:start_urls")
    assert "Traceback" not in run.log
    assert "\x1b" not in run.log
    assert {entry["method"] for entry in site.journal()} == {"GET"}
