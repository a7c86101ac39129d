"""A server is told what the seen set needs of it before it is needed."""

from __future__ import annotations

import logging

import pytest

from scrapy_durable.frontier.contract import Outbox
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_messages import BUCKETS
from tests.frontier.backends import plain_client
from tests.frontier.test_contract import entries
from tests.frontier.test_redis import frontier_at
from tests.redis_server import RedisServer


@pytest.mark.parametrize("tells", [True, False])
async def test_a_seen_set_that_outgrows_its_sets_is_warned_of_with_what_to_set(
    caplog: pytest.LogCaptureFixture, tells: bool
) -> None:
    """Each of its sets is a sorted array up to `set-max-intset-entries`, and ten times as large beyond."""
    with RedisServer(appendonly=True, options={"set-max-intset-entries": "8"}) as server:
        with server.client() as client:
            right = "+@all" if tells else "-config"
            client.acl_setuser(
                "crawler", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", right]
            )
        worker = frontier_at(plain_client(server.port, username="crawler", password="x"))
        with caplog.at_level(logging.WARNING):
            await worker.begin("crawl")
            await do(worker, range(0, 6 * BUCKETS, BUCKETS))
            await worker.begin("crawl")
            assert "set-max-intset-entries" not in caplog.text
            await do(worker, range(6 * BUCKETS, (7 if tells else 9) * BUCKETS, BUCKETS))
            await worker.begin("crawl")
            await worker.begin("crawl")
        assert caplog.text.count("set set-max-intset-entries to 2048") == 1
        await worker.close()


async def test_a_worker_looks_at_the_seen_set_as_it_grows_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_durable.frontier.redis.LOOK_EVERY", 3)
    with RedisServer(options={"set-max-intset-entries": "8"}) as server, caplog.at_level(logging.WARNING):
        worker = frontier_at(plain_client(server.port))
        await worker.begin("crawl")
        await do(worker, range(0, 7 * BUCKETS, BUCKETS))
        assert "set-max-intset-entries" not in caplog.text
        await do(worker, range(7 * BUCKETS, 10 * BUCKETS, BUCKETS))
        assert caplog.text.count("set set-max-intset-entries to 2048") == 1
        await worker.close()


async def do(frontier: RedisFrontier, keys: range) -> None:
    """Have these keys seen."""
    await frontier.exchange(entries(*keys), 0)
    inbox = await frontier.exchange(Outbox(), len(keys))
    held = [lease.held for lease in inbox.leases]
    assert len(held) == len(keys)
    await frontier.exchange(Outbox(acks=held), 0)
