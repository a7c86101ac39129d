"""With a key, nothing comes out of a frontier but what a worker with the key has put there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_durable.exceptions import CodecError, ForeignCrawl, FrontierDamaged, FrontierUnavailable
from scrapy_durable.frontier.codec import decode
from scrapy_durable.frontier.contract import DeadLettered, Entry, Inbox, Outbox
from scrapy_durable.frontier.sealed import Seal, SealedFrontier
from tests.frontier.backends import RedisBackend
from tests.frontier.test_codec import SPIDER
from tests.frontier.test_contract import entry, held

KEY = "k" * 32
SEAL = Seal(KEY, "cars")


def sealed(backend: RedisBackend, key: str = KEY, queue: str = "cars") -> SealedFrontier:
    return SealedFrontier(backend.open(), Seal(key, queue))


def reason(payload: bytes) -> str:
    with pytest.raises(CodecError) as caught:
        decode(payload, SPIDER)
    return str(caught.value)


async def test_what_was_queued_with_the_key_comes_back(on_redis: RedisBackend) -> None:
    frontier = sealed(on_redis)
    await frontier.begin("crawl", "of cars")
    inbox = await frontier.exchange(Outbox(entries=[entry(1), entry(-2)]), 5)
    assert {lease.key: lease.payload for lease in inbox.leases} == {1: b"payload of 1", -2: b"payload of -2"}
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(held(inbox.leases[0])[0], "broken")]), 0)
    (letter,) = await frontier.dead_letters()
    assert letter.payload == inbox.leases[0].payload
    assert (await sealed(on_redis).begin("other", "of cars")).crawl_id == "crawl"
    (letter,) = await sealed(on_redis).dead_letters()
    assert letter.payload == inbox.leases[0].payload


async def test_what_was_queued_without_it_is_refused_with_its_reason(on_redis: RedisBackend) -> None:
    frontier, stranger = sealed(on_redis), on_redis.open()
    await frontier.begin("crawl")
    await stranger.begin("crawl", f"signed with the key {SEAL.mark}")
    foreign = Seal("x" * 32, "cars").seal(b"a", "crawl", "2")
    elsewhere = SEAL.seal(b"a", "crawl", "9")
    earlier = SEAL.seal(b"a", "earlier", "4")
    payloads = [b'{"v":1}', foreign, elsewhere, earlier, b"", b"\1"]
    entries = [Entry(number + 1, "a", "parse", payload) for number, payload in enumerate(payloads)]
    await stranger.exchange(Outbox(entries=entries), 0)
    inbox = await frontier.exchange(Outbox(), 9)
    assert [reason(lease.payload) for lease in inbox.leases] == [
        "not signed, though DURABLE_QUEUE_KEY is set",
        *["not signed with DURABLE_QUEUE_KEY for this place in the queue"] * 3,
        "not signed, though DURABLE_QUEUE_KEY is set",
        "not signed with DURABLE_QUEUE_KEY for this place in the queue",
    ]


async def test_a_worker_of_another_key_or_of_none_is_refused(on_redis: RedisBackend) -> None:
    await sealed(on_redis).begin("crawl", "of cars")
    for other in (sealed(on_redis, "x" * 32), sealed(on_redis, queue="bikes"), on_redis.open()):
        with pytest.raises(ForeignCrawl) as caught:
            await other.begin("crawl", "of cars")
        assert KEY not in str(caught.value)


async def test_a_verdict_counts_when_it_is_signed(on_redis: RedisBackend) -> None:
    frontier, stranger = sealed(on_redis), on_redis.open()
    await frontier.begin("crawl")
    await stranger.begin("crawl", f"signed with the key {SEAL.mark}")
    assert await frontier.verdict() is None
    assert await frontier.elect_finisher()
    assert await frontier.publish_verdict(b"complete")
    assert await frontier.verdict() == b"complete"
    for forged in (
        b"complete",
        SEAL.seal(b"complete", "earlier", "verdict"),
        SEAL.seal(b"complete", "crawl", "1"),
    ):
        assert await stranger.publish_verdict(forged)
        with pytest.raises(FrontierDamaged, match="not signed"):
            await frontier.verdict()


async def test_an_exchange_that_is_repeated_is_the_same_to_the_frontier_within(
    on_redis: RedisBackend,
) -> None:
    within = on_redis.open()
    frontier, said = SealedFrontier(within, SEAL), list[Outbox]()
    await frontier.begin("crawl")
    exchange = within.exchange

    async def unavailable(outbox: Outbox, want: int) -> Inbox:
        said.append(outbox)
        raise FrontierUnavailable("for now")

    within.exchange = unavailable  # type: ignore[method-assign]
    outbox = Outbox(entries=[entry(1)])
    for _ in range(2):
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(outbox, 1)
    assert said[0] is said[1]
    within.exchange = exchange  # type: ignore[method-assign]
    assert [lease.payload for lease in (await frontier.exchange(outbox, 1)).leases] == [b"payload of 1"]


@given(st.binary(), st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=3))
def test_a_document_is_opened_where_it_was_sealed_and_nowhere_else(document: bytes, place: list[str]) -> None:
    signed = SEAL.seal(document, *place)
    assert SEAL.open(signed, *place) == document
    for other in ([*place, ""], place[1:], ["".join(place), "", ""], [f"{place[0]}x", *place[1:]]):
        if other != place:
            with pytest.raises(CodecError):
                SEAL.open(signed, *other)
    with pytest.raises(CodecError):
        SEAL.open(signed + b"x", *place)
