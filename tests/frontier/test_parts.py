"""What workers leave each other for the end of their crawl."""

from __future__ import annotations

import pytest

from scrapy_durable.exceptions import FrontierDamaged, FrontierLost
from scrapy_durable.frontier.parts import MOST_BYTES
from scrapy_durable.frontier.sealed import Seal, SealedFrontier
from tests.frontier.backends import Backend, RedisBackend
from tests.frontier.test_contract import begun


async def test_a_part_is_there_until_the_crawl_is_forgotten(backend: Backend) -> None:
    frontier = await begun(backend)
    assert await frontier.part("kept:w1") is None
    await frontier.leave_part("kept:w1", b"earlier")
    await frontier.leave_part("kept:w1", bytes(range(256)))
    await frontier.leave_part("kept:w1:0", b"")
    assert await frontier.part("kept:w1") == bytes(range(256))
    assert await frontier.part("kept:w1:0") == b""
    await frontier.forget()
    with pytest.raises(FrontierLost):
        await frontier.leave_part("kept:w1", b"late")
    await frontier.begin("the next crawl")
    assert await frontier.part("kept:w1") is None


async def test_every_worker_has_what_one_has_left(on_redis: RedisBackend) -> None:
    one, other = await begun(on_redis, worker="w1"), await begun(on_redis, worker="w2")
    await one.leave_part("kept:w1", b"part")
    assert await other.part("kept:w1") == b"part"


async def test_a_part_has_a_size(backend: Backend) -> None:
    frontier = await begun(backend)
    with pytest.raises(ValueError, match="at most"):
        await frontier.leave_part("kept:w1", bytes(MOST_BYTES + 1))
    assert await frontier.part("kept:w1") is None


async def test_a_part_that_no_worker_with_the_key_has_left_is_refused(on_redis: RedisBackend) -> None:
    within, seal = on_redis.open(), Seal("a key of the workers", "test")
    frontier = SealedFrontier(within, seal)
    await frontier.begin("crawl")
    await frontier.leave_part("kept:w1", b"part")
    assert await frontier.part("kept:w1") == b"part"
    assert await frontier.part("kept:w2") is None
    signed = await within.part("kept:w1") or b""
    for forged in (b"part", signed[:-1]):
        await within.leave_part("kept:w1", forged)
        with pytest.raises(FrontierDamaged, match="not signed"):
            await frontier.part("kept:w1")
    await within.leave_part("kept:w2", signed)
    with pytest.raises(FrontierDamaged, match="not signed"):
        await frontier.part("kept:w2")


async def test_a_part_that_somebody_else_has_made_too_large_is_not_read(on_redis: RedisBackend) -> None:
    frontier = await begun(on_redis)
    with on_redis.server.client() as client:
        client.hset("{test}:parts", "kept:w1", bytes(MOST_BYTES + 1))
    with pytest.raises(FrontierDamaged, match="the part kept:w1 that somebody has left"):
        await frontier.part("kept:w1")


async def test_a_part_of_a_crawl_that_is_gone_is_not_taken_for_one_of_the_next(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.leave_part("kept:w1", b"part")
    await frontier.forget()
    with pytest.raises(FrontierLost):
        await frontier.part("kept:w1")
