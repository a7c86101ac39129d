"""With a key, a store on Redis shows what a worker with the key has put there, where it was put, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from scrapy_durable.responses.contract import MOST_DERIVED, StoredResponse
from scrapy_durable.responses.namespace import NamespaceStore
from scrapy_durable.responses.packing import DamagedError
from scrapy_durable.responses.redis import RedisResponseStore
from scrapy_durable.responses.values import HEADER, Values
from scrapy_durable.signatures import SIGNATURE, Signer

KEY, URL = "k" * 32, "https://h/x"
SIGNER = Signer(KEY, "responses\0{cars}")
SHARED, OF_CRAWL = "{cars}:response:", "{cars}:responses-of:"


class Workers:
    """Stores of workers that share one server, with a key and without."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self.client: Any = client
        self.not_signed = 0

    def store(self, signer: Signer | None = SIGNER) -> RedisResponseStore:
        """The store of a worker."""
        return RedisResponseStore(
            self.client,
            "{cars}",
            ttl=100.0,
            crawl_ttl=100.0,
            timeout=30.0,
            signer=signer,
            on_not_signed=self._count,
        )

    def _count(self) -> None:
        self.not_signed += 1


Play = Callable[[Callable[[Workers], Awaitable[None]]], None]


@pytest.fixture
def play(redis_server: Callable[[], Any]) -> Play:
    """Runs a scenario on a server of its own."""
    socket: Path = redis_server().socket

    def run(scenario: Callable[[Workers], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with redis.asyncio.Redis(unix_socket_path=str(socket)) as client:
                await scenario(Workers(client))

        asyncio.run(asyncio.wait_for(whole(), 240))

    return run


def test_what_is_derived_comes_back_only_where_it_is_signed(play: Play) -> None:
    async def scenario(workers: Workers) -> None:
        signed, plain = workers.store(), workers.store(None)
        large = bytes(MOST_DERIVED + 1)
        await signed.put("a", 200, URL, b"body", fetched_at=1.7e9, derived=b"made")
        await signed.put("b", 200, URL, b"body", fetched_at=1.7e9, derived=large)
        await plain.put("c", 200, URL, b"body", fetched_at=1.7e9, derived=b"made")
        await signed.put("d", 200, URL, b"body", fetched_at=1.7e9, derived=b"made" * 1000)
        for store, expected in (
            (signed, {"a": b"made", "b": b"", "d": b"made" * 1000}),
            (plain, {"a": b"", "b": b"", "c": b""}),
            (signed, {"a": b"made", "b": b""}),
        ):
            found = await store.get_many(list(expected), math.inf)
            assert {key: stored.derived for key, stored in found.items()} == expected
            assert {stored.body for stored in found.values()} == {b"body"}
        value = await workers.client.get(SHARED + "a")
        await workers.client.set(SHARED + "a", value.replace(b"made", b"fake"))
        assert await signed.get("a", math.inf) is None
        assert workers.not_signed == 1

    play(scenario)


@pytest.mark.parametrize("size", [0, 4, 2**31, 2**32 - 1])
def test_a_forged_length_of_what_is_derived_is_damage(size: int) -> None:
    answer = StoredResponse("a", 200, URL, 1.7e9, b"body", b"made")
    value = Values(SIGNER).pack(answer, None)
    start = HEADER + SIGNATURE
    forged = value[:start] + size.to_bytes(4, "big") + value[start + 4 :]
    with pytest.raises(DamagedError):
        Values(None).unpack("a", None, forged, 100, 2e9)


def test_what_was_put_with_the_key_comes_back(play: Play) -> None:
    async def scenario(workers: Workers) -> None:
        await workers.store().put("a", 404, URL, b"shared", fetched_at=1.7e9)
        await workers.store().put("p", 200, URL, b"page", fetched_at=1.7e9, crawl_id="one")
        found = await workers.store().get("a", math.inf)
        assert found is not None
        assert (found.key, found.status, found.url, found.fetched_at, found.body) == (
            "a",
            404,
            URL,
            1.7e9,
            b"shared",
        )
        assert [stored.body async for stored in workers.store().iterate("one")] == [b"page"]
        assert not await workers.store().claim("a", 10.0, math.inf), "it is there, so nobody has to fetch it"
        assert workers.not_signed == 0

    play(scenario)


@pytest.mark.parametrize(
    "stranger", [None, Signer("x" * 32, "responses\0{cars}"), Signer(KEY, "responses\0{bikes}")]
)
def test_what_was_put_without_it_is_a_miss_counted_said_once_and_removed(
    play: Play, caplog: pytest.LogCaptureFixture, stranger: Signer | None
) -> None:
    async def scenario(workers: Workers) -> None:
        for number in range(5):
            await workers.store(stranger).put(str(number), 200, URL, b"forged")
            await workers.store(stranger).put(f"p{number}", 200, URL, b"forged", crawl_id="one")
        store = workers.store()
        assert await store.get_many(list("01234"), math.inf) == {}
        assert [stored async for stored in store.iterate("one")] == []
        assert workers.not_signed == 10
        assert not await workers.client.keys(f"{SHARED}*")
        assert await store.claim("0", 10.0, math.inf), "so it is fetched"

    with caplog.at_level(logging.WARNING):
        play(scenario)
    (line,) = caplog.messages
    assert line.startswith("A stored answer is not signed with DURABLE_QUEUE_KEY and is not used ('0': ")


def test_what_was_moved_to_another_place_is_a_miss(play: Play) -> None:
    """Whoever writes to the server can copy what is signed: to another car, another API, another crawl."""

    async def scenario(workers: Workers) -> None:
        here, there = (NamespaceStore(workers.store(), name) for name in ("http://here", "http://there"))
        await here.put("a", 200, URL, b"a")
        await here.put("p", 200, URL, b"p", crawl_id="one")
        signed = await workers.client.get(f"{SHARED}http://here#a")
        page = await workers.client.hget(f"{OF_CRAWL}one", "p")
        await workers.client.mset({f"{SHARED}http://here#b": signed, f"{SHARED}http://there#a": signed})
        await workers.client.mset({f"{SHARED}http://here#p": page})
        await workers.client.hset(f"{OF_CRAWL}one", "q", page)
        await workers.client.hset(f"{OF_CRAWL}two", mapping={"p": page, "a": signed})
        assert list(await here.get_many(["a", "b", "p"], math.inf)) == ["a"]
        assert await there.get("a", math.inf) is None
        assert [stored.key async for stored in here.iterate("one")] == ["p"]
        assert [stored.key async for stored in here.iterate("two")] == []
        assert workers.not_signed == 6

    play(scenario)


def test_any_byte_that_is_changed_makes_it_a_miss(play: Play) -> None:
    async def scenario(workers: Workers) -> None:
        store = workers.store()
        await store.put("a", 200, URL, b"a")
        signed = await workers.client.get(f"{SHARED}a")
        for at in range(len(signed)):
            changed = bytes([*signed[:at], signed[at] ^ 1, *signed[at + 1 :]])
            for value in (changed, signed[:at]):
                await workers.client.set(f"{SHARED}a", value)
                assert await store.get("a", math.inf) is None
        await workers.client.set(f"{SHARED}a", signed)
        assert await store.get("a", math.inf), "the counterpart"

    play(scenario)


def test_without_a_key_signatures_are_not_looked_at(play: Play) -> None:
    async def scenario(workers: Workers) -> None:
        await workers.store().put("a", 200, URL, b"signed")
        await workers.store(None).put("b", 200, URL, b"plain")
        found = await workers.store(None).get_many(["a", "b"], math.inf)
        assert {key: stored.body for key, stored in found.items()} == {"a": b"signed", "b": b"plain"}

    play(scenario)


def test_what_is_rewritten_is_signed_and_what_is_not_signed_is_removed(play: Play) -> None:
    async def scenario(workers: Workers) -> None:
        store = workers.store()
        await store.put("p", 200, URL, b"with her name", fetched_at=1.7e9, crawl_id="one")
        await workers.store(None).put("forged", 200, URL, b"with her name", crawl_id="one")
        for key in ("p", "forged", "missing"):
            assert await store.rewrite("one", key, b"without")
        (left,) = [stored async for stored in store.iterate("one")]
        assert (left.key, left.body, left.fetched_at) == ("p", b"without", 1.7e9)
        assert await workers.client.hkeys(f"{OF_CRAWL}one") == [b"p"]

    play(scenario)


def test_what_is_put_while_it_is_rewritten_stays(play: Play) -> None:
    async def scenario(workers: Workers) -> None:
        store = workers.store()
        await store.put("p", 200, URL, b"old", crawl_id="one")
        read = store._read_of_crawl

        async def and_then_another_puts(*arguments: Any) -> Any:
            found = await read(*arguments)
            await workers.store().put("p", 200, URL, b"new", crawl_id="one")
            return found

        store._read_of_crawl = and_then_another_puts
        assert not await store.rewrite("one", "p", b"erased")
        assert [stored.body async for stored in workers.store().iterate("one")] == [b"new"]

    play(scenario)
