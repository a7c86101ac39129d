"""A Redis that is far away is asked few times at the beginning and at the end of a crawl."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from scrapy_durable.frontier.contract import Outbox
from tests.frontier.test_contract import entries, held
from tests.frontier.test_redis import frontier_at
from tests.redis_server import RedisServer

MOST_TO_BEGIN = 2
"""One look at all that matters of the server, and the script; once more where the server does not have it yet."""
MOST_TO_FORGET = 4
"""Which crawl it is, the mark, the keys, the end."""


class CountingPipeline(Pipeline):
    """Each of its executions is one round trip."""

    async def execute(self, *arguments: Any, **options: Any) -> Any:
        CountingRedis.round_trips += 1
        return await super().execute(*arguments, **options)


class CountingRedis(Redis):
    """How often it has waited for the server."""

    round_trips = 0

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        CountingRedis.round_trips += 1
        return await super().execute_command(*words, **options)

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        return CountingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


async def test_the_begin_and_the_end_of_a_crawl_take_a_handful_of_round_trips() -> None:
    with RedisServer() as server, server.client() as plain:
        warm = frontier_at(CountingRedis(port=server.port))
        await warm.begin("before")
        await warm.exchange(Outbox(), 0)
        await warm.forget()  # from now on the server has the scripts
        worker = frontier_at(CountingRedis(port=server.port))
        counts = [CountingRedis.round_trips]
        await worker.begin("crawl")
        counts.append(CountingRedis.round_trips)
        await worker.exchange(entries(*range(30)), 0)
        leases = (await worker.exchange(Outbox(), 100)).leases
        await worker.exchange(Outbox(acks=held(*leases)), 0)
        counts.append(CountingRedis.round_trips)
        await worker.forget()
        counts.append(CountingRedis.round_trips)
        assert not plain.keys("{test}:*")
        assert leases
        begin, work, forget = (after - before for before, after in pairwise(counts))
        assert begin <= MOST_TO_BEGIN
        assert work == 3
        assert forget <= MOST_TO_FORGET
        await warm.close()
        await worker.close()


async def test_a_finisher_is_elected_and_told_what_there_is_in_one_round_trip() -> None:
    with RedisServer() as server:
        worker = frontier_at(CountingRedis(port=server.port))
        await worker.begin("crawl")
        before = CountingRedis.round_trips
        assert await worker.elect_finisher()
        assert await worker.publish_verdict(b"complete")
        assert CountingRedis.round_trips == before + 2
        await worker.close()


async def test_a_server_that_has_lost_its_scripts_elects_and_forgets_all_the_same() -> None:
    with RedisServer() as server, server.client() as plain:
        worker = frontier_at(Redis(port=server.port))
        await worker.begin("crawl")
        leases = (await worker.exchange(entries(1, 2, 3), 3)).leases
        plain.script_flush()
        assert await worker.elect_finisher() is None
        await worker.exchange(Outbox(acks=held(*leases)), 0)
        plain.script_flush()
        status = await worker.elect_finisher()
        assert status is not None
        assert status.total.done == 3
        plain.script_flush()
        await worker.forget()
        assert not plain.keys("{test}:*")
        await worker.close()
