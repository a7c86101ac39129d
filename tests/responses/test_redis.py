import asyncio
import logging
import math
import time
from contextlib import closing

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scrapy_durable.responses.contract import Pruned
from scrapy_durable.responses.redis import RedisResponseStore
from tests.own_clock import OwnClock

URL = "https://h/x"


def scenario_on(socket, scenario, *, ttl=100.0, crawl_ttl=50.0, timeout=30.0, clock=time.time):
    """On a client that asks once, so that one whose server is gone knows it at once."""

    async def whole():
        once = Retry(NoBackoff(), 0)
        async with redis.asyncio.Redis(unix_socket_path=str(socket), retry=once) as client:
            await scenario(
                RedisResponseStore(
                    client, "{cars}", ttl=ttl, crawl_ttl=crawl_ttl, timeout=timeout, clock=clock
                ),
                client,
            )

    asyncio.run(asyncio.wait_for(whole(), 60))


async def server_ms(client):
    """The server's clock, in milliseconds since the epoch."""
    seconds, microseconds = await client.time()
    return seconds * 1000 + microseconds // 1000


def test_every_key_expires_and_shares_one_hash_tag(redis_server):
    async def scenario(store, client):
        before = await server_ms(client)
        await store.put("a/b=/2017", 200, URL, b"x")
        await store.put("page/0", 200, URL, b"x", crawl_id="one")
        after = await server_ms(client)
        assert sorted(await client.keys("*")) == [b"{cars}:response:a/b=/2017", b"{cars}:responses-of:one"]
        ends = await client.pexpiretime("{cars}:response:a/b=/2017")
        assert before + 100_000 <= ends <= after + 100_000
        ends = await client.pexpiretime("{cars}:responses-of:one")
        assert before + 50_000 <= ends <= after + 50_000

    scenario_on(redis_server().socket, scenario)


def test_a_crawl_expires_as_a_whole_after_its_last_answer(redis_server):
    async def scenario(store, client):
        await store.put("page/0", 200, URL, b"x", crawl_id="one")
        await client.pexpire("{cars}:responses-of:one", 10_000)  # as if it had been put a while ago
        before = await server_ms(client)
        await store.put("page/1", 200, URL, b"x", crawl_id="one")
        ends = await client.pexpiretime("{cars}:responses-of:one")
        assert before + 50_000 <= ends <= await server_ms(client) + 50_000
        assert len([stored async for stored in store.iterate("one")]) == 2

    scenario_on(redis_server().socket, scenario)


def test_an_answer_is_gone_when_its_time_is_over(redis_server):
    async def scenario(store, client):
        await store.put("k", 200, URL, b"x")
        await store.put("page", 200, URL, b"x", crawl_id="one")
        while await client.dbsize():
            await asyncio.sleep(0.01)
        assert await store.get("k", 1000.0) is None
        assert await store.crawls() == []
        assert [stored async for stored in store.iterate("one")] == []

    scenario_on(redis_server().socket, scenario, ttl=0.05, crawl_ttl=0.05)


def test_a_crawl_that_was_put_to_be_kept_for_longer_goes_when_it_would_have_been_put_now(redis_server):
    async def scenario(store, client):
        await store.put("page", 200, URL, b"x", crawl_id="one")
        await client.pexpire("{cars}:responses-of:one", 90_000)
        before = await server_ms(client)
        assert (await store.prune(10**9, math.inf, 50.0)).removed == 0
        ends = await client.pexpiretime("{cars}:responses-of:one")
        assert before + 50_000 <= ends <= await server_ms(client) + 50_000

    scenario_on(redis_server().socket, scenario)


@pytest.mark.parametrize("ttl", [0.0, math.inf])
def test_a_time_that_redis_cannot_count_is_brought_to_one_that_it_can(redis_server, ttl):
    async def scenario(store, client):
        assert await store.put("k", 200, URL, b"x")
        assert await store.put("page", 200, URL, b"x", crawl_id="one")

    scenario_on(redis_server().socket, scenario, ttl=ttl, crawl_ttl=ttl)


def test_pruning_by_age_goes_by_the_servers_clock(redis_server):
    async def scenario(store, client):
        for name in ("old", "new"):
            await store.put(name, 200, URL, b"x")
            for number in range(3):
                await store.put(f"{name}/{number}", 200, URL, b"x", crawl_id=name)
        await client.pexpire("{cars}:response:old", 40_000)  # as if it had been put a minute ago
        await client.pexpire(
            "{cars}:responses-of:old", 20_000
        )  # as if the last had been put half a minute ago
        await client.set("someone-elses", "x")
        pruned = await store.prune(10**9, 50.0, 25.0)
        assert (pruned.removed, pruned.bytes) == (4, await store.size())
        assert list(await store.get_many(["old", "new"], 1000.0)) == ["new"]
        assert [(crawl.crawl_id, len(crawl.keys)) for crawl in await store.crawls()] == [("new", 3)]
        assert await client.exists("someone-elses")

    scenario_on(redis_server().socket, scenario)


def test_a_server_that_is_gone_makes_misses_and_lost_answers_and_two_lines_in_the_log(redis_server, caplog):
    server = redis_server()

    async def scenario(store, client):
        await store.put("k", 200, URL, b"x", crawl_id="one")
        server.kill()
        for _ in range(3):
            assert await store.get("k", 1000.0) is None
            assert not await store.put("k", 200, URL, b"x")
        assert [stored async for stored in store.iterate("one")] == []
        assert await store.size() == 0
        assert await store.crawls() == []
        assert await store.prune(0, 0.0, 0.0) == Pruned(0, 0)
        server.start()
        assert await store.put("k", 200, URL, b"x")
        assert await store.get("k", 1000.0)

    with caplog.at_level(logging.WARNING):
        scenario_on(server.socket, scenario)
    assert len({record.message.split(" (")[0] for record in caplog.records}) == len(caplog.records) == 2


def test_a_frozen_server_is_not_waited_for(redis_server):
    async def scenario(store, client):
        await client.client_pause(10 * 60_000)  # longer than any test may take
        with closing(OwnClock()) as clock:
            assert await store.get("k", 1000.0) is None
            assert not await store.put("k", 200, URL, b"x")
            assert clock() < 2.0

    server = redis_server()
    scenario_on(server.socket, scenario, timeout=0.2)
    server.kill()


def test_a_full_server_loses_the_answer_only(redis_server):
    async def scenario(store, client):
        assert await store.put("before", 200, URL, b"x")
        await client.config_set("maxmemory", 1)
        assert not await store.put("k", 200, URL, b"x", crawl_id="one")
        assert await store.get("before", 1000.0)

    scenario_on(redis_server().socket, scenario)


@pytest.mark.parametrize("value", [b"x", b"\x02" + bytes(40), b"\x01" + b"\xff" * 40])
def test_a_value_of_another_format_is_a_miss(redis_server, value):
    async def scenario(store, client):
        await client.set("{cars}:response:k", value)
        assert await store.get("k", 1000.0) is None

    scenario_on(redis_server().socket, scenario)


def test_one_worker_at_a_time_fetches_an_answer_and_a_claim_ends_by_itself(redis_server):
    async def scenario(store, client):
        before = await server_ms(client)
        assert await store.claim("k", 10.0, 60.0)
        after = await server_ms(client)
        assert not await store.claim("k", 90.0, 60.0)
        assert await store.claim("other", 10.0, 60.0)
        await store.put("other", 200, URL, b"x")
        assert not await store.claim("other", 10.0, 60.0), "it came between the look and the claim"
        assert not await client.exists("{cars}:response-claim:other")
        ends = await client.pexpiretime("{cars}:response-claim:k")
        assert before + 10_000 <= ends <= after + 10_000, "asking must not prolong it"
        await client.pexpire("{cars}:response-claim:k", 20)
        while not await store.claim("k", 10.0, 60.0):
            await asyncio.sleep(0.01)

    scenario_on(redis_server().socket, scenario)


def test_a_server_that_is_gone_lets_every_worker_fetch(redis_server):
    server = redis_server()

    async def scenario(store, _client):
        server.kill()
        assert await store.claim("k", 10.0, 60.0)
        assert await store.claim("k", 10.0, 60.0)

    scenario_on(server.socket, scenario)
