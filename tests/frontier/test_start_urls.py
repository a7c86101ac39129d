"""What is pushed to a start key is taken by one worker, and comes again only when that one has not queued it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_durable import start_urls
from scrapy_durable.frontier.contract import Inbox, Outbox
from scrapy_durable.start_urls import StartUrls, build_start_urls
from tests.redis_server import RedisServer

ANSWER = Inbox(leases=[], refused=[], stale=[], dead_lettered=[], unfinished=1, next_due=None, now=0.0)
KEY = "plain:start_urls"
PUSHED = [f"http://site.test/{number}" for number in range(10)]
NEVER, AT_ONCE = 3600.0, 0.0
"""Seconds after which what somebody has taken is taken again."""


class PlainSpider(Spider):
    name = "plain"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["list", "set", "zset"])
def kind(request: pytest.FixtureRequest, server: RedisServer) -> str:
    """The type of the start key, under which the addresses wait."""
    with server.client() as client:
        client.flushall()
        push(client, request.param, PUSHED)
    return str(request.param)


def push(client: redis.Redis, kind: str, values: list[str]) -> None:
    if kind == "list":
        client.rpush(KEY, *values)
    elif kind == "set":
        client.sadd(KEY, *values)
    else:
        client.zadd(KEY, dict.fromkeys(values, 1.0))


def with_workers(
    server: RedisServer, kind: str, use: Callable[..., Awaitable[None]], *lease_seconds: float
) -> None:
    """Call it with a worker for each `lease_seconds`; each takes four values at a time."""

    async def run() -> None:
        workers = [worker(server, kind, seconds) for seconds in lease_seconds]
        try:
            await use(*workers)
        finally:
            for one in workers:
                await one.leave()

    asyncio.run(run())


def worker(server: RedisServer, kind: str, lease_seconds: float) -> StartUrls:
    settings: dict[str, Any] = {"REDIS_URL": server.url, "CONCURRENT_REQUESTS": 4}
    if kind != "list":
        settings[f"REDIS_START_URLS_AS_{kind.upper()}"] = True
    stats = MemoryStatsCollector(get_crawler())
    made = build_start_urls(Settings(settings), "plain", stats, lease_seconds=lease_seconds)
    assert made is not None
    return made


async def taken(worker: StartUrls) -> dict[str, bytes]:
    """The addresses that it takes now, and the id of each push."""
    return {request.url: push for push, requests in await worker.take(PlainSpider()) for request in requests}


async def queued(worker: StartUrls) -> None:
    """What it has taken is in an outbox, and that is answered."""
    worker.say(Outbox())
    worker.hear(Outbox(), ANSWER)
    await worker.drop()


def test_what_came_while_an_exchange_was_under_way_is_not_dropped_with_it(
    server: RedisServer, kind: str
) -> None:
    async def take_beside(one: StartUrls, other: StartUrls) -> None:
        one.say(Outbox())
        found = await taken(one)
        one.hear(Outbox(), ANSWER)
        await one.drop()
        assert not one.is_due(may_end=True, is_busy=False), "what it has is not queued yet"
        assert await taken(other) == found, "others take it when this one is killed"

    with_workers(server, kind, take_beside, NEVER, AT_ONCE)


def test_no_two_workers_take_the_same(server: RedisServer, kind: str) -> None:
    async def take_in_turns(first: StartUrls, second: StartUrls) -> None:
        found = []
        for one in (first, second, first, second):
            found += await taken(one)
            await queued(one)
        assert sorted(found) == PUSHED

    with_workers(server, kind, take_in_turns, NEVER, NEVER)


def test_two_at_the_same_moment_take_different_ones(server: RedisServer, kind: str) -> None:
    async def take_at_once(first: StartUrls, second: StartUrls) -> None:
        one, other = await asyncio.gather(taken(first), taken(second))
        assert len({*one, *other}) == 8
        assert len({*one.values(), *other.values()}) == 8, "each push has an id of its own"

    with_workers(server, kind, take_at_once, NEVER, NEVER)


def test_what_a_killed_worker_has_taken_comes_again_as_the_same_push(server: RedisServer, kind: str) -> None:
    async def take_over(killed: StartUrls, other: StartUrls) -> None:
        lost = await taken(killed)
        again = await taken(other)
        assert again == lost

    with_workers(server, kind, take_over, NEVER, AT_ONCE)


def test_what_a_worker_is_queueing_is_waited_for_and_told_of(server: RedisServer, kind: str) -> None:
    async def look(busy: StartUrls, other: StartUrls) -> None:
        queueing = await taken(busy)
        found = await taken(other)
        assert not found.keys() & queueing.keys()
        assert other.others_have == len(queueing)
        await queued(other)
        await queued(busy)
        await taken(other)
        assert other.others_have == 0

    with_workers(server, kind, look, NEVER, NEVER)


def test_what_is_queued_never_comes_again(server: RedisServer, kind: str) -> None:
    async def take_all(one: StartUrls) -> None:
        found: list[str] = []
        while more := await taken(one):
            found += more
            await queued(one)
        assert sorted(found) == PUSHED

    with_workers(server, kind, take_all, AT_ONCE)
    with server.client() as client:
        assert client.keys() == []


def test_the_same_address_pushed_again_is_another_push(server: RedisServer, kind: str) -> None:
    async def take_twice(one: StartUrls) -> None:
        before = await taken(one)
        await queued(one)
        with server.client() as client:
            client.delete(KEY)
            push(client, kind, list(before))
        again = await taken(one)
        assert again.keys() == before.keys()
        assert not {*again.values()} & {*before.values()}

    with_workers(server, kind, take_twice, AT_ONCE)


@pytest.mark.parametrize(
    ("took", "is_busy", "interval"),
    [(0.0, False, 1.0), (0.25, False, 5.0), (5.0, False, 10.0), (0.0, True, 10.0), (0.25, True, 10.0)],
)
def test_an_empty_key_is_looked_at_again_in_time_but_not_for_long_by_a_crawl_that_is_far_or_busy(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, took: float, is_busy: bool, interval: float
) -> None:
    now = 1000.0
    monkeypatch.setattr(start_urls, "time", SimpleNamespace(monotonic=lambda: now))

    async def look(one: StartUrls) -> None:
        nonlocal now

        async def nothing() -> list[bytes]:
            nonlocal now
            now += took
            return []

        monkeypatch.setattr(one, "_take", nothing)
        await one.take(PlainSpider())
        now += interval - 0.125
        assert not one.is_due(may_end=False, is_busy=is_busy)
        assert one.is_due(may_end=True, is_busy=is_busy), "a crawl that may end looks whenever it was"
        now += 0.125
        assert one.is_due(may_end=False, is_busy=is_busy)

    with_workers(server, "list", look, NEVER)
