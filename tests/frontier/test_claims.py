"""Of items that repeat each other in the logs of several workers, one log has each, whoever asks again."""

from __future__ import annotations

import asyncio

import pytest

from scrapy_durable.exceptions import FrontierError, FrontierLost, LogAbandoned
from scrapy_durable.frontier.contract import Frontier
from tests.frontier.backends import Backend, RedisBackend
from tests.frontier.test_contract import begun

ODD = ["", "a", "A", "\x00", "é", "e\u0301", "\ud800", "x" * 5000, " a"]
"""Whatever a project says that items have in common."""


async def joined(backend: Backend, worker: str, log: str) -> Frontier:
    frontier = await begun(backend, worker=worker)
    await frontier.join_log(log)
    return frontier


async def test_who_asks_first_has_an_item_and_is_told_so_again(on_redis: RedisBackend) -> None:
    one, other = await joined(on_redis, "w1", "log-1"), await joined(on_redis, "w2", "log-2")
    assert await one.claim_items(["a", "b", "c"]) == [True, True, True]
    assert await other.claim_items(["d", "b", "c", "e"]) == [True, False, False, True]
    assert await one.claim_items(["e", "a", "d"]) == [False, True, False]
    again = await joined(on_redis, "w3", "log-1")
    assert await again.claim_items(["a", "b", "c", "d"]) == [True, True, True, False], "after a kill"


async def test_workers_that_ask_at_once_have_each_item_once(on_redis: RedisBackend) -> None:
    workers = [await joined(on_redis, f"w{number}", f"log-{number}") for number in range(3)]
    keys = [f"item {number}" for number in range(2500)]
    answers = await asyncio.gather(*(worker.claim_items(keys) for worker in workers))
    assert [sum(claims) for claims in zip(*answers, strict=True)] == [1] * len(keys)


async def test_any_text_is_a_key_of_its_own(backend: Backend) -> None:
    frontier = await joined(backend, "w1", "log-1")
    assert await frontier.claim_items(ODD) == [True] * len(ODD)
    assert await frontier.claim_items([]) == []
    if isinstance(backend, RedisBackend):
        other = await joined(backend, "w2", "log-2")
        assert await other.claim_items([*ODD, "b"]) == [*([False] * len(ODD)), True]


async def test_without_a_log_nothing_can_be_claimed(backend: Backend) -> None:
    frontier = await begun(backend)
    with pytest.raises(FrontierError, match="has no item log"):
        await frontier.claim_items(["a"])


async def test_a_process_that_has_lost_its_log_claims_nothing_for_it(on_redis: RedisBackend) -> None:
    killed = await joined(on_redis, "w1", "log-1")
    await joined(on_redis, "w2", "log-1")
    with pytest.raises(FrontierError, match="has no item log"):
        await killed.claim_items(["a"])
    other = await joined(on_redis, "w3", "log-3")
    assert await other.claim_items(["a"]) == [True]


async def test_what_an_abandoned_log_has_claimed_stays_claimed(on_redis: RedisBackend) -> None:
    """Its feeds may have it: it is named as lost, and never there twice."""
    gone, other = await joined(on_redis, "w1", "log-1"), await joined(on_redis, "w2", "log-2")
    assert await gone.claim_items(["a"]) == [True]
    await other.abandon_log("log-1")
    with pytest.raises(LogAbandoned):
        await gone.claim_items(["b"])
    assert await other.claim_items(["a", "b"]) == [False, True]


async def test_claims_are_forgotten_with_the_crawl(on_redis: RedisBackend) -> None:
    one, other = await joined(on_redis, "w1", "log-1"), await joined(on_redis, "w2", "log-2")
    keys = [f"item {number}" for number in range(1000)]
    assert all(await one.claim_items(keys))
    await one.forget()
    with pytest.raises(FrontierLost):
        await other.claim_items(keys)
    with on_redis.server.client() as client:
        assert not client.keys("*firsts*")
    assert all(await (await joined(on_redis, "w2", "log-2")).claim_items(keys))


async def test_a_claim_takes_little_memory(on_redis: RedisBackend) -> None:
    """As many as a catalogue has, and their hashes stay packed."""
    frontier = await joined(on_redis, "w1", "log-1")
    with on_redis.server.client() as client:
        before = client.info("memory")["used_memory"]
        await frontier.claim_items([str(number) for number in range(70_000)])
        assert (client.info("memory")["used_memory"] - before) / 70_000 < 60
        names = client.keys("*firsts*")
        assert {client.object("encoding", name) for name in names} == {b"listpack"}
