"""What a reader of the dashboard is shown, and what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
import scrapy
from scrapy.settings import Settings

from scrapy_durable.frontier import codec
from scrapy_durable.frontier.build import build_frontier
from scrapy_durable.frontier.contract import DeadLettered, Entry, Outbox
from tests.dashboard.serving import Dashboard, dashboard, make_project
from tests.redis_server import RedisServer

HOSTILE = "<script>alert(1)</script>\u202e"
DEAD = 60
PAGES = [
    "/",
    "/live",
    "/dead",
    "/leases",
    "/login",
    "/requests/0000000000000001",
    "/requests/none",
    "/nothing",
]


class Spider(scrapy.Spider):
    name = "shop"


async def fill(settings: Settings) -> None:
    """60 dead letters, of two reasons, and some that are leased."""
    frontier = build_frontier(settings, "worker-1", spider="shop")
    await frontier.begin("the-crawl", "of the shop")
    spider = Spider()
    entries = []
    for number in range(1, 101):
        request = scrapy.Request(f"https://shop.example/{number}?q={HOSTILE}", callback=spider.parse)
        entries.append(Entry(number, "shop.example", "parse", codec.encode(request, spider)))
    leases = (await frontier.exchange(Outbox(entries=entries), 70)).leases
    assert len(leases) == 70
    reasons = [
        f"status 404; body begins {HOSTILE}" if number % 2 else f"no: {HOSTILE}" for number in range(DEAD)
    ]
    dead = [DeadLettered(lease.held, reason) for lease, reason in zip(leases, reasons, strict=False)]
    await frontier.exchange(Outbox(dead_lettered=dead), 0)
    await frontier.close()


@pytest.fixture(scope="module", params=["redis", "file"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    path = tmp_path_factory.mktemp("shop")
    with RedisServer() as server:
        place = {"REDIS_URL": server.url} if request.param == "redis" else {"JOBDIR": str(path / "job")}
        unlimited = {"CONCURRENT_REQUESTS_PER_DOMAIN": 0}
        asyncio.run(fill(Settings({**place, **unlimited})))
        with dashboard(make_project(path / "project", **place, **unlimited)) as served:
            yield served


def test_the_first_page_says_how_the_crawl_is(shop: Dashboard) -> None:
    page = shop.get("/")
    assert page.status == 200
    assert '<span class="dot" aria-hidden="true"></span>running' in page.text
    assert re.search(r'href="/dead"><b>60</b>', page.text)
    assert "worker-1" in page.text
    assert "shop.example" in page.text


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_lets_only_its_own_scripts_run(shop: Dashboard, path: str) -> None:
    answer = shop.get(path)
    policy = answer.headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)
    assert nonce
    assert "default-src 'none'" in policy
    assert f"style-src 'nonce-{nonce[1]}'" in policy
    assert shop.get(path).headers["Content-Security-Policy"] != policy
    assert set(re.findall(r'nonce="([^"]*)"', answer.text)) <= {nonce[1]}


@pytest.mark.parametrize("path", PAGES)
def test_nothing_on_a_page_is_from_elsewhere_or_inline(shop: Dashboard, path: str) -> None:
    text = shop.get(path).text
    assert not re.findall(r'(?:src|href|action)="(?!/|#|\?)[^"]*"', text)
    assert not re.findall(r'<[^>]* (?:on\w+|style)="', text)
    assert not re.findall(r"<script(?![^>]* src=)", text)


@pytest.mark.parametrize("path", ["/", "/dead", "/leases", "/requests/0000000000000001"])
def test_text_of_a_site_is_shown_harmlessly(shop: Dashboard, path: str) -> None:
    text = shop.get(path).text
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text


def test_a_missing_request_is_said_to_be_missing(shop: Dashboard) -> None:
    answer = shop.get("/requests/00000000000000ff")
    assert answer.status == 404
    assert "has no request 00000000000000ff" in answer.text


def test_a_page_out_of_range_is_the_nearest(shop: Dashboard) -> None:
    assert "There is no page 99: this is page 2 of 2." in shop.get("/dead?page=99").text
    assert "There is no page -1: this is page 1 of 2." in shop.get("/dead?page=-1").text


def test_a_name_that_was_made_to_lead_here_is_refused(shop: Dashboard) -> None:
    assert shop.get("/", Host="evil.example").status == 421
    assert shop.get("/", Host="").status == 421
    for name in ("localhost", "127.0.0.2:8123", "[::1]"):
        assert shop.get("/", Host=name).status == 200
