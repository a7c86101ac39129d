"""The requests in one state, as every frontier lists them."""

from __future__ import annotations

import pytest

from scrapy_durable.frontier.contract import DeadLettered, Outbox
from scrapy_durable.frontier.sealed import Seal, SealedFrontier
from scrapy_durable.frontier.views import WINDOW, Listing
from tests.frontier.backends import BEGIN, LEASE, Backend
from tests.frontier.test_contract import begun, entries, entry, held


def listed(listing: Listing) -> list[int]:
    return [element.key for element in listing.elements]


async def test_each_state_lists_its_own_in_order_with_what_is_known_of_them(backend: Backend) -> None:
    frontier = await begun(backend)
    one, two, three = (await frontier.exchange(entries(1, -2, 3, slot="a"), 3)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(two.held, "status 404")]), 0)
    backend.advance(1)
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(one.held, "status 410")]), 0)
    waiting = [entry(4, "b", delay=60), entry(5, "b", delay=30, callback="other")]
    ready = [entry(6, "b", priority=1), entry(7, "b", priority=2), entry(8, "c", priority=9)]
    await frontier.exchange(Outbox(entries=[*waiting, *ready]), 0)

    dead = await frontier.listing("dead", 10)
    assert [(one.key, one.reason, one.died_at) for one in dead.elements] == [
        (-2, "status 404", BEGIN),
        (1, "status 410", BEGIN + 1),
    ]
    leased = await frontier.listing("leased", 10)
    (lease,) = leased.elements
    assert (lease.key, lease.worker, lease.attempts, lease.slot) == (three.held.key, "w1", 1, "a")
    assert (lease.since, lease.deadline, lease.payload) == (BEGIN, BEGIN + LEASE, b"payload of 3")
    delayed = await frontier.listing("delayed", 10)
    assert [(one.key, one.due, one.callback) for one in delayed.elements] == [
        (5, BEGIN + 31, "other"),
        (4, BEGIN + 61, "parse"),
    ]
    queued = await frontier.listing("queued", 10)
    assert [(one.key, one.slot, one.priority) for one in queued.elements] == [
        (7, "b", 2),
        (6, "b", 1),
        (8, "c", 9),
    ]
    totals = [(each.matched, each.looked, each.total) for each in (dead, leased, delayed, queued)]
    assert totals == [(2, 2, 2), (1, 1, 1), (2, 2, 2), (3, 3, 3)]


async def test_a_list_is_narrowed_by_slot_and_callback_and_cut_to_its_limit(backend: Backend) -> None:
    frontier = await begun(backend)
    added = [entry(1, "a"), entry(2, "a", callback="other"), entry(3, "b"), entry(4, "b"), entry(5, "b")]
    await frontier.exchange(Outbox(entries=added), 0)
    first = await frontier.listing("queued", 2, "b")
    assert (listed(first), first.matched, first.looked, first.total) == ([3, 4], 3, 3, 3)
    other = await frontier.listing("queued", 9, callback="other")
    assert (listed(other), other.matched, other.looked, other.total) == ([2], 1, 5, 5)
    assert listed(await frontier.listing("queued", 9, "b", "other")) == []
    nobody = await frontier.listing("queued", 9, "unknown", "nobody")
    assert (listed(nobody), nobody.matched) == ([], 0)
    assert listed(await frontier.listing("queued", 0)) == []


async def test_what_is_due_is_not_delayed_any_more(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, delay=10), 0)
    backend.advance(10)
    assert listed(await frontier.listing("delayed", 9)) == []
    assert listed(await frontier.listing("queued", 9)) == [], "until an exchange has seen it"
    await frontier.exchange(Outbox(), 0)
    assert listed(await frontier.listing("queued", 9)) == [1]


@pytest.mark.parametrize("state", ["queued", "delayed", "leased", "dead"])
async def test_one_call_looks_through_so_many_at_most(backend: Backend, state: str) -> None:
    frontier, number = await begun(backend), WINDOW + 10
    await frontier.exchange(entries(*range(1, number + 1), delay=60 if state == "delayed" else 0), 0)
    if state in ("leased", "dead"):
        leases = (await frontier.exchange(Outbox(), number)).leases
        while len(leases) < number:
            leases += (await frontier.exchange(Outbox(), number)).leases
        if state == "dead":
            await frontier.exchange(
                Outbox(dead_lettered=[DeadLettered(one, "x") for one in held(*leases)]), 0
            )
    found = await frontier.listing(state, number)
    assert (len(set(listed(found))), found.matched, found.looked) == (WINDOW, WINDOW, WINDOW)
    assert found.total in (None, number)


async def test_without_a_crawl_nothing_is_listed(backend: Backend) -> None:
    frontier = backend.open()
    for state in ("queued", "delayed", "leased", "dead"):
        assert await frontier.listing(state, 9) == Listing([], 0, 0, 0)


async def test_what_is_signed_is_listed_as_it_was_pushed(backend: Backend) -> None:
    worker = SealedFrontier(backend.open(), Seal("k" * 32, "cars"))
    await worker.begin("crawl")
    await worker.exchange(entries(1), 0)
    assert [one.payload for one in (await worker.listing("queued", 9)).elements] == [b"payload of 1"]
