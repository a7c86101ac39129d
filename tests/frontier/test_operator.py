"""What an operator does beside the workers: pushes requests, pauses sites and resumes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.frontier.contract import Counts, DeadLettered, Outbox, PaceChange, Pause, Retry
from scrapy_durable.frontier.sealed import Seal, SealedFrontier
from scrapy_durable.frontier.views import Element
from tests.frontier.backends import BEGIN, LEASE, Backend
from tests.frontier.test_contract import begun, counts, entries, entry, held, keys

HAND = "paused by hand"


async def test_what_is_pushed_is_leased_to_a_worker_and_its_pusher_is_none(lasting: Backend) -> None:
    frontier = await begun(lasting)
    beside = lasting.open("operator")
    assert await beside.push([entry(1, priority=5), entry(2, delay=60)]) == []
    inbox = await frontier.exchange(Outbox(), 10)
    assert keys(inbox) == [1]
    assert inbox.unfinished == 2
    assert [worker.worker for worker in (await beside.status()).workers] == ["w1"]
    assert await counts(frontier) == Counts(queued=0, delayed=1, leased=1, dead=0, done=0)


async def test_what_is_leased_or_done_already_is_refused(lasting: Backend) -> None:
    frontier = await begun(lasting)
    one, _ = (await frontier.exchange(entries(1, 2), 2)).leases
    await frontier.exchange(Outbox(acks=held(one)), 0)
    assert await lasting.open("operator").push([entry(1), entry(2), entry(3)]) == [1, 2]


async def test_a_pause_by_hand_holds_for_all_until_it_is_over(lasting: Backend) -> None:
    frontier = await begun(lasting)
    await frontier.exchange(entries(1, 2, slot="a"), 0)
    await frontier.exchange(entries(3, slot="b"), 0)
    await lasting.open("operator").pause("a", Pause(30, HAND))
    assert keys(await frontier.exchange(Outbox(), 10)) == [3]
    wait = (await frontier.status()).waits["a"]
    assert (wait.why, wait.reason) == ("pause", HAND)
    lasting.advance(30)
    assert keys(await frontier.exchange(Outbox(), 10)) == [1, 2]


async def test_leases_end_by_what_workers_are_told_and_not_by_what_an_operator_is(lasting: Backend) -> None:
    frontier = await begun(lasting)
    await frontier.exchange(entries(1, slot="a"), 1)
    lasting.advance(LEASE + 1)
    operator = lasting.open("operator", max_attempts=1)
    await operator.pause("a", Pause(30, HAND))
    await operator.push([entry(2, slot="b")])
    assert await operator.dead_letters() == []
    lasting.advance(30)
    assert sorted(keys(await frontier.exchange(Outbox(), 10))) == [1, 2]
    assert (await counts(frontier)).dead == 0


async def test_a_paused_site_is_resumed_at_once(lasting: Backend) -> None:
    frontier, beside = await begun(lasting), lasting.open("operator")
    await frontier.exchange(entries(1, slot="a"), 0)
    await beside.pause("a", Pause(3000, HAND))
    assert keys(await frontier.exchange(Outbox(), 10)) == []
    assert await beside.resume("a", HAND) is True
    assert (await frontier.status()).waits == {}
    assert keys(await frontier.exchange(Outbox(), 10)) == [1]
    assert await beside.resume("a", HAND) is False, "there is nothing to resume any more"


async def test_a_pause_for_another_reason_stays(lasting: Backend) -> None:
    frontier, beside = await begun(lasting), lasting.open("operator")
    await frontier.exchange(Outbox(entries=[entry(1, slot="a")], pauses={"a": Pause(60, "Retry-After")}), 0)
    assert await beside.resume("a", HAND) is False
    await beside.pause("a", Pause(30, HAND))
    assert (await frontier.status()).waits["a"].reason == "Retry-After", "the longer one stays"
    await beside.pause("a", Pause(90, HAND))
    assert (await frontier.status()).waits["a"].reason == HAND
    assert await beside.resume("unknown", HAND) is False


async def test_resuming_leaves_the_interval_between_two_requests(lasting: Backend) -> None:
    frontier, beside = await begun(lasting), lasting.open("operator")
    await frontier.exchange(Outbox(entries=[entry(1), entry(2)], paces={"a": PaceChange(0, 20.0)}), 0)
    assert keys(await frontier.exchange(Outbox(), 10)) == [1]
    await beside.pause("a", Pause(3000, HAND))
    assert await beside.resume("a", HAND) is True
    assert keys(await frontier.exchange(Outbox(), 10)) == []
    lasting.advance(20)
    assert keys(await frontier.exchange(Outbox(), 10)) == [2]


async def test_without_a_crawl_there_is_nothing_to_push_to(lasting: Backend) -> None:
    beside = lasting.open("operator")
    for _ in range(2):  # before the first crawl, and after it
        with pytest.raises(FrontierLost, match="there is no crawl"):
            await beside.push([entry(1)])
        with pytest.raises(FrontierLost):
            await beside.pause("a", Pause(1))
        with pytest.raises(FrontierLost):
            await beside.resume("a", HAND)
        frontier = await begun(lasting)
        await frontier.forget()
        await frontier.close()


async def test_what_is_pushed_is_signed(lasting: Backend) -> None:
    seal = Seal("k" * 32, "cars")
    worker = SealedFrontier(lasting.open(), seal)
    await worker.begin("crawl")
    await SealedFrontier(lasting.open("operator"), seal).push([entry(1)])
    await lasting.open("intruder").push([entry(2)])
    signed, unsigned = (await worker.exchange(Outbox(), 10)).leases
    assert signed.payload == b"payload of 1"
    assert unsigned.payload.startswith(b"\0"), "it cannot be read back"


async def test_a_request_is_found_in_each_of_its_states(lasting: Backend) -> None:
    frontier, beside = await begun(lasting), lasting.open("operator")
    assert await beside.find(-7) is None
    await frontier.exchange(Outbox(entries=[entry(-7, slot="b", priority=3, delay=50, callback="other")]), 0)
    waiting = Element(
        -7, "delayed", "b", "other", 3, pushed_at=BEGIN, due=BEGIN + 50, payload=b"payload of -7"
    )
    found = await beside.find(-7)
    assert found is not None
    assert replace(found, pushed_at=round(found.pushed_at)) == waiting
    lasting.advance(50)
    found = await beside.find(-7)
    assert found is not None
    assert (found.state, found.due) == ("queued", None), "its time has come, though nobody has seen it"
    (lease,) = (await frontier.exchange(Outbox(), 1)).leases
    found = await beside.find(-7)
    assert found is not None
    assert (found.state, found.worker, found.attempts) == ("leased", "w1", 1)
    assert (found.since, found.deadline) == (BEGIN + 50, BEGIN + 50 + LEASE)
    (lease,) = (await frontier.exchange(Outbox(retries=[Retry(lease.held, 0, "status 503")]), 1)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(lease.held, "status 404")]), 0)
    found = await beside.find(-7)
    assert found is not None
    assert (found.state, found.attempts, found.failures, found.reason) == ("dead", 2, 1, "status 404")
    assert (found.died_at, found.worker, found.since) == (BEGIN + 50, "", 0.0)
    assert await beside.retry_dead() == 1
    (lease,) = (await frontier.exchange(Outbox(), 1)).leases
    await frontier.exchange(Outbox(acks=held(lease)), 0)
    assert await beside.find(-7) == Element(-7, "done")
