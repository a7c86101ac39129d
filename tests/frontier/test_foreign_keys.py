"""What others delete or write in the frontier's keys on Redis is said, or does no harm; nobody waits for ever."""

from __future__ import annotations

import pytest
import redis

from scrapy_durable.exceptions import ConfigurationError, FrontierDamaged, FrontierError
from scrapy_durable.frontier.contract import DeadLettered, Frontier, Lease, Outbox, Pause, Retry
from scrapy_durable.frontier.redis_layout import FIXED_KEYS
from tests.frontier.backends import LEASE, MAX_ATTEMPTS, RedisBackend
from tests.frontier.test_contract import begun, entries, entry, held

HARMLESS_WHEN_DELETED = {
    "attempts",  # counts begin again
    "overdue",
    "in_flight",  # more at once than the cap, until those are answered
    "rotation",  # made again as soon as a lease ends
    "held",
    "paused",
    "tally",  # the figures of `scrapy queue status`
    "ages",
    "arrivals",
    "workers",
    "replies",
    "paces",
    "reports",  # numbers of workers that are gone; the others say theirs again
    "gaps",
    "shares",  # a cap is shared unevenly, until the leases end
    "asking",
    "reasons",  # figures of `scrapy queue status`, too
    "logs",  # said to whoever has a log, or looks for one: see test_logs.py
    "accepted",
    "parts",  # read at the end only, where directories lie apart
}
"""Keys without which every request is leased all the same."""


async def a_crawl_that_waits(backend: RedisBackend) -> Frontier:
    """Something in every state, on two slots, one of them paused and learned; a worker that died holds a lease too."""
    dead_worker = backend.open("w0")
    await dead_worker.begin("crawl")
    await dead_worker.exchange(entries(*range(1, 11)), 1)
    frontier = await begun(backend, worker="w1")
    inbox = await frontier.exchange(entries(*range(20, 25), slot="b"), 4)
    one, two, three, _ = inbox.leases
    await frontier.exchange(
        Outbox(
            entries=[entry(30, delay=LEASE / 2)],
            acks=held(one),
            retries=[Retry(two.held, 1.0, "later")],
            dead_lettered=[DeadLettered(three.held, "broken")],
            pauses={"b": Pause(2.0)},
        ),
        0,
    )
    return frontier


async def drain(backend: RedisBackend, frontier: Frontier) -> set[int]:
    """Do all that is leased until nothing is left; returns the keys. Raises `FrontierError`."""
    done: set[int] = set()
    ready: list[Lease] = []
    for _ in range(10 * MAX_ATTEMPTS):
        inbox = await frontier.exchange(Outbox(acks=held(*ready)), 3)
        done.update(lease.key for lease in ready)
        ready = inbox.leases
        if not ready and not inbox.unfinished:
            assert await frontier.elect_finisher()
            return done
        backend.advance(LEASE / 4)
    raise AssertionError("it stands still, and nothing is said")


async def test_an_untouched_crawl_is_drained(on_redis: RedisBackend) -> None:
    """The counterpart."""
    frontier = await a_crawl_that_waits(on_redis)
    assert len(await drain(on_redis, frontier)) == 14


@pytest.mark.parametrize("key", FIXED_KEYS)
async def test_a_key_that_is_deleted_is_said_or_does_no_harm(on_redis: RedisBackend, key: str) -> None:
    frontier = await a_crawl_that_waits(on_redis)
    with on_redis.server.client() as client:
        assert client.delete(f"{{test}}:{key}") or key in (
            "overdue",
            "asking",
            "paces",
            "gaps",
            "reports",
            "logs",
            "accepted",
            "parts",
        )
    if key in HARMLESS_WHEN_DELETED:
        assert len(await drain(on_redis, frontier)) >= 14 - (key == "attempts")
        return
    with pytest.raises(FrontierError):
        await frontier.exchange(Outbox(), 1)
    with pytest.raises(FrontierError):
        await drain(on_redis, frontier)


def put_another_type(client: redis.Redis, key: str, kind: str) -> None:
    client.delete(key)
    if kind == "string":
        client.set(key, "x")
    elif kind == "list":
        client.rpush(key, "x")
    elif kind == "hash":
        client.hset(key, "x", "y")
    else:
        client.zadd(key, {"x": 1})


@pytest.mark.parametrize("kind", ["string", "list", "hash", "zset"])
@pytest.mark.parametrize("key", FIXED_KEYS)
async def test_a_key_of_another_type_is_said_by_its_name(on_redis: RedisBackend, key: str, kind: str) -> None:
    if kind == FIXED_KEYS[key]:
        return  # what is in it is the matter of other tests
    frontier = await a_crawl_that_waits(on_redis)
    with on_redis.server.client() as client:
        put_another_type(client, f"{{test}}:{key}", kind)
    try:
        await drain(on_redis, frontier)
    except FrontierDamaged as error:
        said = str(error)
    else:
        said = ""
        assert key in HARMLESS_WHEN_DELETED
    if said:
        assert f"the key {{test}}:{key} is a {kind}, not a {FIXED_KEYS[key]}" in said
    with pytest.raises(ConfigurationError, match=f"{key} is a {kind}, not a {FIXED_KEYS[key]}"):
        await on_redis.open("w2").begin("crawl")


@pytest.mark.parametrize("key", [name for name, kind in FIXED_KEYS.items() if kind == "hash"])
async def test_values_that_are_none_of_ours_are_said_or_do_no_harm(on_redis: RedisBackend, key: str) -> None:
    frontier = await a_crawl_that_waits(on_redis)
    with on_redis.server.client() as client:
        for field in client.hkeys(f"{{test}}:{key}"):
            client.hset(f"{{test}}:{key}", field, b"\xff")
    said = "nothing"
    try:
        await drain(on_redis, frontier)
        await frontier.status()
        await frontier.dead_letters()
    except FrontierError as error:
        said = str(error)
    assert said.isprintable()
    assert len(said) < 700
