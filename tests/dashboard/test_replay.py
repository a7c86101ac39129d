"""Who may replay dead letters from a page, and which."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
from scrapy.settings import Settings

from scrapy_durable.frontier.build import build_frontier
from scrapy_durable.frontier.contract import DeadLettered, Entry, Outbox
from tests.dashboard.serving import OWN, TOKEN, Dashboard, dashboard, make_project
from tests.redis_server import RedisServer

ALL = {"all": "1"}


async def give_up(url: str, reasons: dict[int, str]) -> None:
    """Dead letters by their keys."""
    frontier = build_frontier(
        Settings({"REDIS_URL": url, "CONCURRENT_REQUESTS_PER_DOMAIN": 0}), "worker-1", spider="shop"
    )
    await frontier.forget()
    await frontier.begin("the-crawl")
    entries = [Entry(key, "shop.example", "parse", b"") for key in reasons]
    leases = (await frontier.exchange(Outbox(entries=entries), len(entries))).leases
    dead = [DeadLettered(lease.held, reasons[lease.key]) for lease in leases]
    await frontier.exchange(Outbox(dead_lettered=dead), 0)
    await frontier.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def served(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    project = make_project(tmp_path_factory.mktemp("shop") / "project", REDIS_URL=server.url)
    with dashboard(project) as served:
        yield served


@pytest.fixture
def shop(server: RedisServer, served: Dashboard) -> Dashboard:
    """With four dead letters, of two reasons."""
    asyncio.run(give_up(server.url, {1: "status 404", 2: "status 404", 3: "no answer", 4: "no answer"}))
    return served


def dead(server: RedisServer) -> set[int]:
    """The keys of the dead letters that there are."""

    async def look() -> set[int]:
        frontier = build_frontier(Settings({"REDIS_URL": server.url}), "reader", spider="shop")
        try:
            return {letter.key for letter in await frontier.dead_letters()}
        finally:
            await frontier.close()

    return asyncio.run(look())


def test_one_is_replayed(shop: Dashboard, server: RedisServer) -> None:
    answer = shop.post("/dead/replay", {"key": "0000000000000003"}, Cookie=shop.log_in(), **OWN)
    assert (answer.status, answer.headers["Location"]) == (303, "/dead?queued=1")
    assert dead(server) == {1, 2, 4}
    assert "1 request is queued again." in shop.get("/dead?queued=1").text


def test_those_of_a_reason_are_replayed(shop: Dashboard, server: RedisServer) -> None:
    cookie = shop.log_in()
    assert shop.get("/dead?reason=status+404", Cookie=cookie).text.count('name="key"') == 2
    answer = shop.post("/dead/replay", {"reason": "status 404"}, Cookie=cookie, **OWN)
    assert answer.headers["Location"] == "/dead?queued=2"
    assert dead(server) == {3, 4}


def test_all_are_replayed(shop: Dashboard, server: RedisServer) -> None:
    assert shop.post("/dead/replay", ALL, Cookie=shop.log_in(), **OWN).status == 303
    assert dead(server) == set()
    assert "nothing was given up" in shop.get("/dead").text


@pytest.mark.parametrize("form", [{}, {"all": "yes"}])
def test_what_names_nothing_replays_nothing(
    shop: Dashboard, server: RedisServer, form: dict[str, str]
) -> None:
    assert shop.post("/dead/replay", form, Cookie=shop.log_in(), **OWN).status == 400
    assert shop.post("/dead/replay", {"key": "nonsense"}, Cookie=shop.log_in(), **OWN).status == 303
    assert dead(server) == {1, 2, 3, 4}


def test_nobody_replays_without_the_token(shop: Dashboard, server: RedisServer) -> None:
    assert shop.post("/dead/replay", ALL, **OWN).status == 403
    assert shop.post("/dead/replay", ALL, Cookie=f"scrapy-dashboard={TOKEN}", **OWN).status == 403
    assert dead(server) == {1, 2, 3, 4}
    assert "<form" not in shop.get("/dead").text


def test_a_wrong_token_opens_nothing(shop: Dashboard) -> None:
    answer = shop.post("/login", {"token": "b token of the tests"}, **OWN)
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers
    assert "That is not the token." in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {},
    ],
)
def test_a_page_of_another_site_replays_nothing(
    shop: Dashboard, server: RedisServer, headers: dict[str, str]
) -> None:
    cookie = shop.log_in()
    assert shop.post("/dead/replay", ALL, Cookie=cookie, **headers).status == 403
    assert dead(server) == {1, 2, 3, 4}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_browser_that_only_says_the_origin_is_believed(
    shop: Dashboard, server: RedisServer, scheme: str
) -> None:
    """Also behind a proxy that has TLS."""
    origin = shop.address.replace("http:", f"{scheme}:")
    answer = shop.post("/dead/replay", ALL, Cookie=shop.log_in(), Origin=origin)
    assert answer.status == 303
    assert dead(server) == set()


def test_a_look_replays_nothing(shop: Dashboard, server: RedisServer) -> None:
    assert shop.get("/dead/replay?all=1", Cookie=shop.log_in(), **OWN).status == 405
    assert dead(server) == {1, 2, 3, 4}


def test_the_cookie_is_not_the_token_and_no_script_reads_it(shop: Dashboard) -> None:
    answer = shop.post("/login", {"token": TOKEN}, **OWN)
    said = answer.headers["Set-Cookie"]
    assert TOKEN not in said
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(re.split(r"; ?", said))


def test_who_has_logged_out_replays_nothing(shop: Dashboard, server: RedisServer) -> None:
    cookie = shop.log_in()
    assert shop.post("/logout", {}, Cookie=cookie, **OWN).status == 303
    assert shop.post("/dead/replay", ALL, Cookie=cookie, **OWN).status == 403
    assert dead(server) == {1, 2, 3, 4}
