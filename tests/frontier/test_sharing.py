"""A cap is shared evenly by the workers that ask, whole when one asks, and spares never exceed it."""

from __future__ import annotations

import pytest

from scrapy_durable.exceptions import FrontierUnavailable
from scrapy_durable.frontier.contract import Inbox, Lease, Outbox, Pause, Retry
from scrapy_durable.frontier.redis import RedisFrontier
from tests.frontier.backends import LEASE, RedisBackend
from tests.frontier.test_contract import entries, held, keys

CAP = 8


async def workers(backend: RedisBackend, number: int, *, queued: int = 1000) -> list[RedisFrontier]:
    """So many on one crawl of one site."""
    found = [backend.open(f"w{index}", cap=CAP) for index in range(number)]
    for worker in found:
        await worker.begin("crawl")
    await found[0].exchange(entries(*range(queued)), 0)
    return found


async def in_flight(worker: RedisFrontier) -> int:
    """Of the site, by all workers."""
    return (await worker.status()).waits["a"].in_flight


def spares_of(inbox: Inbox) -> list[Lease]:
    return [lease for lease in inbox.leases if lease.is_spare]


async def test_one_worker_gets_the_whole_cap(on_redis: RedisBackend) -> None:
    [worker] = await workers(on_redis, 1)
    assert len((await worker.exchange(Outbox(), 50)).leases) == CAP


async def test_who_comes_later_gets_half_as_soon_as_places_become_free(on_redis: RedisBackend) -> None:
    first, second = await workers(on_redis, 2)
    leases = (await first.exchange(Outbox(), CAP)).leases
    assert not (await second.exchange(Outbox(), CAP)).leases
    rest = await first.exchange(Outbox(downloaded=held(*leases[:6])), 6)
    assert len(rest.leases) == CAP // 2 - 2
    assert len((await second.exchange(Outbox(), CAP)).leases) == CAP // 2
    assert not (await first.exchange(Outbox(), CAP)).leases


async def test_what_nobody_else_asks_for_is_everybodys(on_redis: RedisBackend) -> None:
    first, second = await workers(on_redis, 2)
    assert len((await second.exchange(Outbox(), 2)).leases) == 2
    assert len((await first.exchange(Outbox(), CAP)).leases) == CAP - 2


async def test_places_are_kept_for_two_seconds_only(on_redis: RedisBackend) -> None:
    first, second = await workers(on_redis, 2)
    leases = (await first.exchange(Outbox(), CAP)).leases
    await second.exchange(Outbox(), CAP)
    on_redis.advance(10)
    assert len((await first.exchange(Outbox(downloaded=held(*leases)), CAP)).leases) == CAP


async def test_more_workers_than_places_leave_none_empty(on_redis: RedisBackend) -> None:
    found = await workers(on_redis, 3 * CAP)
    given = [len((await worker.exchange(Outbox(), 4)).leases) for worker in (*found, *found)]
    assert sum(given) == CAP


async def test_a_spare_takes_the_place_of_one_that_was_answered(on_redis: RedisBackend) -> None:
    first, second = await workers(on_redis, 2)
    leases = (await first.exchange(Outbox(), CAP)).leases
    inbox = await first.exchange(Outbox(spares={"a": 3}), 0)
    spares = spares_of(inbox)
    assert keys(inbox) == [8, 9, 10]
    assert len(spares) == 3
    assert await in_flight(first) == CAP
    said = Outbox(downloaded=held(*leases[:2]), acks=held(*leases[:2]), sent=held(*spares[:2]))
    assert not (await first.exchange(said, 0)).leases
    assert await in_flight(first) == CAP
    assert not (await second.exchange(Outbox(), CAP)).leases
    done = Outbox(downloaded=held(*leases[2:], *spares[:2]), acks=held(*leases[2:], *spares[:2]))
    assert not (await first.exchange(done, 0)).stale
    assert len((await second.exchange(Outbox(), 2 * CAP)).leases) == CAP


async def test_a_spare_that_was_sent_and_answered_in_between_counts_for_nothing(
    on_redis: RedisBackend,
) -> None:
    [worker] = await workers(on_redis, 1)
    leases = (await worker.exchange(Outbox(), CAP)).leases
    [spare] = spares_of(await worker.exchange(Outbox(spares={"a": 1}), 0))
    both = held(leases[0], spare)
    await worker.exchange(Outbox(sent=held(spare), downloaded=both, acks=both), 0)
    assert len((await worker.exchange(Outbox(), CAP)).leases) == 1


async def test_spares_come_back_when_they_are_released_retried_or_their_worker_dies(
    on_redis: RedisBackend,
) -> None:
    first, second = await workers(on_redis, 2, queued=100)
    await first.exchange(Outbox(), CAP)
    one, two, three = spares_of(await first.exchange(Outbox(spares={"a": 3}), 0))
    await first.exchange(Outbox(releases=held(one), retries=[Retry(two.held, 0.0, "later")]), 0)
    assert await in_flight(first) == CAP
    on_redis.advance(LEASE + 10)
    inbox = await second.exchange(Outbox(), CAP)
    assert len(inbox.leases) == CAP
    assert await in_flight(second) == CAP
    assert (await first.exchange(Outbox(sent=held(three)), 0)).stale == held(three)
    assert await in_flight(second) == CAP


async def test_a_lost_answer_is_given_again_with_its_spares(on_redis: RedisBackend) -> None:
    [worker] = await workers(on_redis, 1)
    await worker.exchange(Outbox(), CAP)
    outbox = Outbox(spares={"a": 3})
    first = await worker.exchange(outbox, 0)
    worker._unanswered = (outbox, worker._number)
    again = await worker.exchange(outbox, 0)
    assert again.leases == first.leases
    assert len(spares_of(again)) == 3


async def test_no_spares_where_they_would_be_in_the_way(on_redis: RedisBackend) -> None:
    """Of a site that is paused, of the end of a queue, and for who holds none or more than its share."""
    first, second = await workers(on_redis, 2, queued=100)
    assert not spares_of(await second.exchange(Outbox(spares={"a": 3}), 0)), "it holds none"
    leases = (await first.exchange(Outbox(), CAP)).leases
    assert len(spares_of(await first.exchange(Outbox(spares={"a": 50}), 0))) == 92 // 4
    await second.exchange(Outbox(), 1)
    assert not spares_of(await first.exchange(Outbox(spares={"a": 3}), 0)), "another asks"
    on_redis.advance(10)
    assert spares_of(await first.exchange(Outbox(spares={"a": 3}), 0))
    await first.exchange(Outbox(pauses={"a": Pause(30.0)}), 0)
    assert not spares_of(await first.exchange(Outbox(spares={"a": 3}), 0)), "paused"
    assert leases


async def test_who_is_alone_is_given_the_end_of_a_queue_too(on_redis: RedisBackend) -> None:
    [worker] = await workers(on_redis, 1, queued=20)
    await worker.exchange(Outbox(), CAP)
    assert len(spares_of(await worker.exchange(Outbox(spares={"a": 50}), 0))) == 20 - CAP


async def test_a_spare_in_a_place_counts_also_when_the_memory_is_full(on_redis: RedisBackend) -> None:
    """The server takes no entries then, but what is in flight: else others would be given the place too."""
    first, second = await workers(on_redis, 2)
    [lease, *_] = (await first.exchange(Outbox(), CAP)).leases
    [spare] = spares_of(await first.exchange(Outbox(spares={"a": 1}), 0))
    outbox = Outbox(downloaded=held(lease), sent=held(spare), entries=entries(5000).entries)
    with on_redis.server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(FrontierUnavailable):
                await first.exchange(outbox, 0)
            assert not (await second.exchange(Outbox(), CAP)).leases
        finally:
            client.config_set("maxmemory", 0)
    assert await in_flight(first) == CAP


async def test_a_spare_that_dies_with_its_worker_was_no_attempt(on_redis: RedisBackend) -> None:
    first, second = await workers(on_redis, 2, queued=40)
    await first.exchange(Outbox(), CAP)
    [spare] = spares_of(await first.exchange(Outbox(spares={"a": 1}), 0))
    on_redis.advance(2 * LEASE)
    leases = (await second.exchange(Outbox(), CAP)).leases
    assert {lease.key: lease.attempt for lease in leases}.get(spare.key, 1) == 1
    assert any(lease.attempt == 2 for lease in leases), "those in flight were"
