"""What is done is kept in sets that are split as they fill, so that none becomes ten times as large."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
import redis

from scrapy_durable.exceptions import ConfigurationError, FrontierDamaged, OtherRelease
from scrapy_durable.frontier.contract import Key, Outbox
from scrapy_durable.frontier.redis import RedisFrontier
from tests.frontier.backends import RedisBackend, plain_client
from tests.frontier.test_contract import entries
from tests.frontier.test_redis import begun, frontier_at
from tests.redis_server import RedisServer

SETS = "{test}:seen:"


async def do(frontier: RedisFrontier, keys: list[Key], at_once: int = 1000) -> None:
    """Have these keys seen."""
    for first in range(0, len(keys), at_once):
        some = keys[first : first + at_once]
        await frontier.exchange(entries(*some), 0)
        leases = (await frontier.exchange(Outbox(), len(some))).leases
        assert len(leases) == len(some)
        await frontier.exchange(Outbox(acks=[lease.held for lease in leases]), 0)


def sets_of(client: redis.Redis) -> dict[int, int]:
    """How many members each has."""
    names = sorted(client.scan_iter(SETS + "*", count=1000))
    assert {client.object("encoding", name) for name in names} <= {b"intset"}
    return {int(name.decode().removeprefix(SETS)): client.scard(name) for name in names}


@pytest.mark.parametrize("at_once", [7, 5000], ids="{} at once".format)
async def test_the_sets_are_split_as_they_fill(on_redis: RedisBackend, at_once: int) -> None:
    frontier, source = await begun(on_redis), random.Random(at_once)
    keys = [source.getrandbits(64) - 2**63 for _ in range(15 * at_once)]
    keys = [-(2**63), 2**63 - 1, -1, 0, 1, *keys]
    with on_redis.server.client() as client:
        await do(frontier, keys, at_once)
        sizes = sets_of(client)
        assert sum(sizes.values()) == len(keys)
        assert sorted(sizes) == list(range(-(-len(keys) // 192)))
        assert max(sizes.values()) < 512
    refused = []
    for first in range(0, len(keys), 5000):
        refused += (await frontier.exchange(entries(*keys[first : first + 5000]), 0)).refused
    assert refused == keys
    for key in keys[:20]:
        element = await frontier.find(key)
        assert element is not None
        assert element.state == "done"
    assert await frontier.find(12345) is None


async def test_what_is_seen_is_forgotten_in_as_many_calls_as_it_takes(
    on_redis: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_durable.frontier.redis.FIRSTS_BUCKETS", 4)
    monkeypatch.setattr("scrapy_durable.frontier.redis.BATCH", 2)
    monkeypatch.setattr("scrapy_durable.frontier.redis.MOST_REMOVALS", 3)
    frontier = await begun(on_redis)
    await do(frontier, list(range(6000)))
    with on_redis.server.client() as client:
        assert len(sets_of(client)) == 32
        assert await frontier.forget()
        assert not client.dbsize()


async def test_nothing_of_a_crawl_of_an_earlier_version_is_seen(on_redis: RedisBackend) -> None:
    """It had 65,536 sets, most of them empty, and no number of them."""
    with on_redis.server.client() as client:
        client.hset("{test}:crawl", mapping={"id": "before", "version": "7"})
        for number in (1, 5, 77, 65535):
            client.sadd(f"{SETS}{number}", *range(number, 5 * 65536, 65536))
        frontier = frontier_at(plain_client(on_redis.server.port))
        with pytest.raises(OtherRelease):
            await frontier.begin("crawl")
        assert await frontier.forget()
        assert not client.dbsize()
        await frontier.close()


@pytest.mark.parametrize(
    "gone", [["crawl"], ["crawl", "limits", "names", "tally", "workers", "replies"]], ids=len
)
async def test_nothing_that_is_seen_outlives_the_name_of_its_crawl(
    on_redis: RedisBackend, gone: list[str]
) -> None:
    """Somebody has deleted it; the next crawl would take what it has not seen for seen."""
    frontier = await begun(on_redis)
    await do(frontier, list(range(2000)))
    with on_redis.server.client() as client:
        client.delete(*(f"{{test}}:{name}" for name in gone))
        fresh = await begun(on_redis)
        assert not sets_of(client)
        assert not (await fresh.exchange(entries(*range(2000)), 0)).refused


@pytest.mark.parametrize("field", ["seen", "seen_sets"])
async def test_a_number_that_somebody_has_changed_is_named(on_redis: RedisBackend, field: str) -> None:
    frontier = await begun(on_redis)
    await do(frontier, list(range(2000)))
    with on_redis.server.client() as client:
        client.hset("{test}:crawl", field, "many")
        with pytest.raises(FrontierDamaged, match="how much is seen is gone"):
            await frontier.exchange(entries(1), 0)
        assert await frontier.forget()
        assert not sets_of(client)


async def test_what_somebody_else_has_left_is_not_taken_for_seen(on_redis: RedisBackend) -> None:
    """Where a set is to be that does not exist yet."""
    frontier = await begun(on_redis)
    with on_redis.server.client() as client:
        client.sadd(f"{SETS}1", *range(10_001, 12_001, 2))
        client.set(f"{SETS}2", "a text")
        await do(frontier, list(range(2000)))
        assert sum(sets_of(client).values()) == 2000
    assert not (await frontier.exchange(entries(*range(10_001, 12_001, 2)), 0)).refused


async def test_nothing_is_known_of_a_request_where_no_crawl_is(on_redis: RedisBackend) -> None:
    frontier = frontier_at(plain_client(on_redis.server.port))
    assert await frontier.find(1) is None
    await frontier.begin("crawl")
    await do(frontier, [1])
    with on_redis.server.client() as client:
        client.hset("{test}:crawl", "forgetting", "crawl")
        client.hdel("{test}:crawl", "id", "seen_sets")
    assert await frontier.find(1) is None
    await frontier.close()


async def test_who_finishes_a_removal_late_leaves_the_crawl_alone_that_has_begun_since(
    on_redis: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has deleted what named a crawl: it is removed under the id of whoever asked first, who then begins."""
    before = await begun(on_redis)
    await before.exchange(entries(1, 2, 3), 0)
    with on_redis.server.client() as client:
        client.delete("{test}:crawl")
    first, late = (frontier_at(plain_client(on_redis.server.port), name) for name in ("w2", "w3"))
    asked, removes = asyncio.Event(), asyncio.Event()
    forget = RedisFrontier._remove

    async def wait(frontier: RedisFrontier, *arguments: Any) -> Any:
        if frontier is late:
            asked.set()
            await removes.wait()
        else:
            await asked.wait()
        return await forget(frontier, *arguments)

    monkeypatch.setattr(RedisFrontier, "_remove", wait)
    begins = asyncio.create_task(first.begin("first"))
    while not (await first._keys.command("HGET", "{test}:crawl", "forgetting")):
        await asyncio.sleep(0.01)
    joins = asyncio.create_task(late.begin("late"))
    await begins
    await do(first, list(range(50)))
    removes.set()
    assert (await joins).crawl_id == "first"
    assert (await first.exchange(entries(*range(60)), 0)).refused == list(range(50))
    for frontier in (first, late):
        await frontier.close()


async def test_a_server_that_would_make_each_set_ten_times_as_large_is_refused() -> None:
    with RedisServer(options={"set-max-intset-entries": "511"}) as server:
        worker = frontier_at(plain_client(server.port))
        with pytest.raises(ConfigurationError, match=r"set-max-intset-entries 511.*set it to 512"):
            await worker.begin("crawl")
        with server.client() as client:
            client.config_set("set-max-intset-entries", 512)
        await worker.begin("crawl")
        await worker.close()
