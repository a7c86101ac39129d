"""What every backend has to do, whichever it is."""

from __future__ import annotations

import pytest

from scrapy_durable.exceptions import ForeignCrawl, FrontierLost
from scrapy_durable.frontier.contract import (
    Counts,
    DeadLettered,
    Entry,
    Frontier,
    Held,
    Inbox,
    Lease,
    Outbox,
    Pace,
    PaceChange,
    Pause,
    Retry,
    SlotLimit,
)
from scrapy_durable.frontier.report import LEAST, MOST, MOST_NAMES
from tests.frontier.backends import BEGIN, LEASE, MAX_ATTEMPTS, Backend


def entry(key: int, slot: str = "a", priority: int = 0, delay: float = 0.0, callback: str = "parse") -> Entry:
    return Entry(key, slot, callback, b"payload of %d" % key, priority, delay)


def entries(*keys: int, slot: str = "a", priority: int = 0, delay: float = 0.0) -> Outbox:
    return Outbox(entries=[entry(key, slot, priority, delay) for key in keys])


def held(*leases: Lease) -> list[Held]:
    return [lease.held for lease in leases]


def keys(inbox: Inbox) -> list[int]:
    return [lease.key for lease in inbox.leases]


async def begun(backend: Backend, **options: object) -> Frontier:
    frontier = backend.open(**options)  # type: ignore[arg-type]
    await frontier.begin("crawl")
    return frontier


async def counts(frontier: Frontier) -> Counts:
    return (await frontier.status()).total


# Adding.


async def test_what_was_pushed_is_leased_with_its_payload_slot_and_attempt(backend: Backend) -> None:
    frontier = await begun(backend)
    key = -(2**63)
    await frontier.exchange(Outbox(entries=[Entry(key, "sité", "parse", b"\x00\xff{}", 1)]), 0)
    (lease,) = (await frontier.exchange(Outbox(), 5)).leases
    assert (lease.key, lease.slot, lease.payload, lease.attempt) == (key, "sité", b"\x00\xff{}", 1)


async def test_an_element_pushed_twice_is_leased_once(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, 1), 0)
    inbox = await frontier.exchange(entries(1), 5)
    assert keys(inbox) == [1]
    assert inbox.refused == []
    assert await counts(frontier) == Counts(queued=0, delayed=0, leased=1, dead=0, done=0)


async def test_what_is_leased_done_or_dead_is_refused(backend: Backend) -> None:
    frontier = await begun(backend)
    leased, done, dead = (await frontier.exchange(entries(1, 2, 3), 3)).leases
    await frontier.exchange(Outbox(acks=held(done), dead_lettered=[DeadLettered(held(dead)[0], "broken")]), 0)
    inbox = await frontier.exchange(entries(1, 2, 3, 4), 5)
    assert inbox.refused == [leased.key, done.key, dead.key]
    assert keys(inbox) == [4]


async def test_one_that_waits_takes_the_new_time_and_the_better_priority(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, 2, 3), 0)
    await frontier.exchange(entries(3, priority=7), 0)
    await frontier.exchange(entries(2, priority=-7, delay=10), 0)
    assert keys(await frontier.exchange(Outbox(), 5)) == [3, 1]
    backend.advance(10)
    assert keys(await frontier.exchange(Outbox(), 5)) == [2]


async def test_a_delayed_one_pushed_again_without_delay_is_due_at_once(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, delay=3600), 0)
    assert keys(await frontier.exchange(entries(1), 5)) == [1]


@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 1, 2**31 - 1])
async def test_priorities_reach_from_end_to_end(backend: Backend, priority: int) -> None:
    frontier = await begun(backend)
    outbox = Outbox(entries=[entry(1, priority=0), entry(2, priority=priority)])
    assert keys(await frontier.exchange(outbox, 5)) == ([2, 1] if priority > 0 else [1, 2])


# Order and times.


async def test_higher_priority_goes_first_then_the_order_of_arrival(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(5, 4, priority=1), 0)
    await frontier.exchange(entries(3, 2, priority=2), 0)
    await frontier.exchange(entries(1, 0, priority=1), 0)
    assert keys(await frontier.exchange(Outbox(), 10)) == [3, 2, 5, 4, 1, 0]


async def test_a_delayed_element_is_leased_when_its_time_has_come_and_not_before(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    inbox = await frontier.exchange(entries(1, delay=30), 5)
    assert keys(inbox) == []
    assert inbox.next_due == pytest.approx(30)
    backend.advance(28)
    assert keys(await frontier.exchange(Outbox(), 5)) == []
    backend.advance(2.1)
    inbox = await frontier.exchange(Outbox(), 5)
    assert keys(inbox) == [1]
    assert inbox.next_due is None


async def test_slots_take_turns(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(*range(10, 20), slot="a"), 0)
    await frontier.exchange(entries(*range(20, 30), slot="b"), 0)
    await frontier.exchange(entries(30, 31, slot="c"), 0)
    first = await frontier.exchange(Outbox(), 6)
    assert sorted(lease.slot for lease in first.leases) == ["a", "a", "b", "b", "c", "c"]
    singles = [(await frontier.exchange(Outbox(), 1)).leases[0].slot for _ in range(4)]
    assert singles in (["a", "b", "a", "b"], ["b", "a", "b", "a"])


async def test_what_one_slot_cannot_use_goes_to_the_others(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(*range(10, 30), slot="a"), 0)
    await frontier.exchange(entries(30, slot="b"), 0)
    assert len((await frontier.exchange(Outbox(), 16)).leases) == 16


# Caps and pauses.


async def test_no_more_leases_of_a_slot_are_on_the_wire_than_its_cap(backend: Backend) -> None:
    frontier = await begun(backend, cap=2, limits={"b": SlotLimit(1), "free": SlotLimit(0)})
    for slot, first in (("a", 10), ("b", 20), ("free", 30)):
        await frontier.exchange(entries(*range(first, first + 5), slot=slot), 0)
    inbox = await frontier.exchange(Outbox(), 100)
    assert sorted(keys(inbox)) == [10, 11, 20, 30, 31, 32, 33, 34]
    assert keys(await frontier.exchange(Outbox(), 100)) == []


@pytest.mark.parametrize("how", ["downloaded", "unsent", "acks", "retries", "dead_lettered", "releases"])
async def test_a_lease_that_leaves_the_wire_makes_a_place(backend: Backend, how: str) -> None:
    frontier = await begun(backend, cap=1)
    (lease,) = (await frontier.exchange(entries(1, 2), 9)).leases
    (one,) = held(lease)
    message = {"retries": Retry(one, 5, "503"), "dead_lettered": DeadLettered(one, "404")}.get(how, one)
    inbox = await frontier.exchange(Outbox(**{how: [message]}), 9)  # type: ignore[arg-type]
    assert keys(inbox) == ([1] if how == "releases" else [2])


async def test_landing_twice_makes_one_place(backend: Backend) -> None:
    frontier = await begun(backend, cap=2)
    first, _ = (await frontier.exchange(entries(1, 2, 3, 4), 9)).leases
    inbox = await frontier.exchange(Outbox(downloaded=held(first, first)), 9)
    assert len(inbox.leases) == 1
    assert inbox.stale == []
    assert keys(await frontier.exchange(Outbox(downloaded=held(first)), 9)) == []


async def test_a_lease_that_expires_makes_a_place(backend: Backend) -> None:
    frontier = await begun(backend, cap=1)
    await frontier.exchange(entries(1, 2, priority=1), 9)
    backend.advance(LEASE)
    assert len((await frontier.exchange(Outbox(), 9)).leases) == 1


async def test_a_paused_slot_is_left_alone_while_the_others_go_on(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, 2, slot="a"), 0)
    await frontier.exchange(entries(3, 4, slot="b"), 0)
    inbox = await frontier.exchange(Outbox(pauses={"a": Pause(20)}), 9)
    assert keys(inbox) == [3, 4]
    assert inbox.next_due == pytest.approx(20)
    backend.advance(18)
    assert keys(await frontier.exchange(Outbox(), 9)) == []
    backend.advance(2.1)
    assert keys(await frontier.exchange(Outbox(), 9)) == [1, 2]


async def test_a_longer_pause_stays_and_a_shorter_one_is_nothing(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1), 0)
    await frontier.exchange(Outbox(pauses={"a": Pause(20)}), 0)
    await frontier.exchange(Outbox(pauses={"a": Pause(5)}), 0)
    backend.advance(10)
    assert keys(await frontier.exchange(Outbox(), 9)) == []
    await frontier.exchange(Outbox(pauses={"a": Pause(20)}), 0)
    backend.advance(15)
    inbox = await frontier.exchange(Outbox(), 9)
    assert keys(inbox) == []
    assert inbox.next_due == pytest.approx(5)


async def test_a_pause_holds_for_what_is_added_during_it(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(Outbox(pauses={"a": Pause(20)}), 9)
    inbox = await frontier.exchange(entries(1), 9)
    assert keys(inbox) == []
    assert inbox.next_due == pytest.approx(20)


async def test_a_pause_with_nothing_behind_it_is_nothing_to_wait_for(backend: Backend) -> None:
    frontier = await begun(backend)
    assert (await frontier.exchange(Outbox(pauses={"a": Pause(20)}), 9)).next_due is None


async def test_a_slot_with_few_turns_does_not_starve(backend: Backend) -> None:
    """A slot that is paused and at its cap now and then gets its share between two that never are."""
    frontier = await begun(backend, limits={"shy": SlotLimit(1)})
    for slot, first in (("a", 1000), ("shy", 2000), ("b", 3000)):
        await frontier.exchange(entries(*range(first, first + 200), slot=slot), 0)
    served = []
    outbox = Outbox()
    for _ in range(60):
        inbox = await frontier.exchange(outbox, 2)
        served += [lease.slot for lease in inbox.leases]
        shy = [lease for lease in inbox.leases if lease.slot == "shy"]
        outbox = Outbox(acks=held(*inbox.leases), pauses={"shy": Pause(3.0)} if shy else {})
        backend.advance(1)
    assert served.count("shy") >= 12
    assert abs(served.count("a") - served.count("b")) <= 4


# Intervals and paces.

EVERY_TEN = {"a": SlotLimit(0, 10.0)}


async def test_a_slot_with_an_interval_gives_one_at_a_time(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    inbox = await frontier.exchange(entries(1, 2, 3), 9)
    assert keys(inbox) == [1]
    assert inbox.next_due == pytest.approx(10)
    backend.advance(8)
    assert keys(await frontier.exchange(Outbox(), 9)) == []
    backend.advance(2.1)
    inbox = await frontier.exchange(Outbox(), 9)
    assert keys(inbox) == [2]
    assert inbox.next_due == pytest.approx(10)


async def test_an_interval_begins_anew_after_a_time_of_rest(backend: Backend) -> None:
    """What was not asked for meanwhile is not made up for."""
    frontier = await begun(backend, limits=EVERY_TEN)
    await frontier.exchange(entries(1), 9)
    backend.advance(50)
    assert keys(await frontier.exchange(entries(2, 3, 4), 9)) == [2]
    assert keys(await frontier.exchange(Outbox(), 9)) == []


async def test_what_was_not_leased_costs_no_time(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    await frontier.exchange(Outbox(), 9)
    await frontier.exchange(entries(1), 0)
    assert keys(await frontier.exchange(Outbox(), 9)) == [1]


async def test_with_nothing_left_there_is_no_interval_to_wait_for(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    inbox = await frontier.exchange(entries(1), 9)
    assert (keys(inbox), inbox.next_due) == ([1], None)
    inbox = await frontier.exchange(entries(2), 9)
    assert keys(inbox) == []
    assert inbox.next_due == pytest.approx(10)


async def test_an_interval_holds_up_no_other_slot(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    await frontier.exchange(entries(1, 2, slot="a"), 0)
    await frontier.exchange(entries(*range(10, 15), slot="b"), 0)
    assert sorted(keys(await frontier.exchange(Outbox(), 20))) == [1, 10, 11, 12, 13, 14]


@pytest.mark.parametrize("how", ["downloaded", "acks", "releases"])
async def test_no_message_shortens_an_interval(backend: Backend, how: str) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    (lease,) = (await frontier.exchange(entries(1, 2), 9)).leases
    assert keys(await frontier.exchange(Outbox(**{how: held(lease)}), 9)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["renewals", "acks", "retries", "releases"])
async def test_the_time_of_a_lease_that_was_not_sent_goes_to_the_next(backend: Backend, how: str) -> None:
    """Whatever else becomes of the lease in the same exchange or later."""
    frontier = await begun(backend, limits=EVERY_TEN)
    (first,) = (await frontier.exchange(entries(1, 2, 3), 9)).leases
    (one,) = held(first)
    message = Retry(one, 5, "503") if how == "retries" else one
    inbox = await frontier.exchange(Outbox(unsent=[one], **{how: [message]}), 9)  # type: ignore[arg-type]
    assert keys(inbox) == ([1] if how == "releases" else [2])
    assert inbox.stale == []
    assert inbox.next_due == pytest.approx(5 if how == "retries" else 10)
    assert keys(await frontier.exchange(Outbox(), 9)) == []
    backend.advance(8)
    assert 3 not in keys(await frontier.exchange(Outbox(), 9))


async def test_any_number_that_were_not_sent_cost_no_time(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    inbox = await frontier.exchange(entries(*range(6)), 9)
    for _ in range(5):
        inbox = await frontier.exchange(Outbox(unsent=held(*inbox.leases)), 9)
    assert keys(inbox) == [5]


async def test_time_in_which_another_was_sent_is_not_given_again(backend: Backend) -> None:
    """The one that was leased last may have been sent a moment ago."""
    frontier = await begun(backend, limits=EVERY_TEN)
    first = (await frontier.exchange(entries(1, 2, 3), 9)).leases
    backend.advance(10.1)
    second = (await frontier.exchange(Outbox(), 9)).leases
    inbox = await frontier.exchange(Outbox(unsent=held(*first)), 9)
    assert keys(inbox) == []
    assert inbox.next_due == pytest.approx(10)
    assert keys(await frontier.exchange(Outbox(unsent=held(*second)), 9)) == [3]


async def test_what_was_downloaded_was_sent(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    (lease,) = held(*(await frontier.exchange(entries(1, 2), 9)).leases)
    assert keys(await frontier.exchange(Outbox(downloaded=[lease], unsent=[lease]), 9)) == []
    assert keys(await frontier.exchange(Outbox(unsent=[lease, lease]), 9)) == []


async def test_a_pause_stays_when_the_interval_is_released(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    leases = (await frontier.exchange(entries(1, 2), 9)).leases
    inbox = await frontier.exchange(Outbox(unsent=held(*leases), pauses={"a": Pause(5)}), 9)
    assert keys(inbox) == []
    assert inbox.next_due == pytest.approx(5)
    backend.advance(5.1)
    assert keys(await frontier.exchange(Outbox(), 9)) == [2]


async def test_one_that_was_not_sent_makes_one_place_and_no_more(backend: Backend) -> None:
    frontier = await begun(backend, cap=2)
    first, _ = (await frontier.exchange(entries(*range(6)), 9)).leases
    assert len((await frontier.exchange(Outbox(unsent=held(first)), 9)).leases) == 1
    assert keys(await frontier.exchange(Outbox(downloaded=held(first), unsent=held(first)), 9)) == []
    assert keys(await frontier.exchange(Outbox(acks=held(first)), 9)) == []


async def test_a_cap_and_an_interval_hold_together(backend: Backend) -> None:
    frontier = await begun(backend, limits={"a": SlotLimit(2, 10.0)})
    first = (await frontier.exchange(entries(1, 2, 3, 4), 9)).leases
    backend.advance(10.1)
    assert keys(await frontier.exchange(Outbox(renewals=held(*first)), 9)) == [2]
    backend.advance(10.1)
    assert keys(await frontier.exchange(Outbox(), 9)) == []
    inbox = await frontier.exchange(Outbox(downloaded=held(*first)), 9)
    assert keys(inbox) == [3]
    assert keys(await frontier.exchange(Outbox(), 9)) == []


async def test_a_pause_longer_than_the_interval_stays(backend: Backend) -> None:
    frontier = await begun(backend, limits=EVERY_TEN)
    assert keys(await frontier.exchange(entries(1, 2, 3), 9)) == [1]
    await frontier.exchange(Outbox(pauses={"a": Pause(30)}), 9)
    backend.advance(20)
    assert keys(await frontier.exchange(Outbox(), 9)) == []
    backend.advance(10.1)
    assert keys(await frontier.exchange(Outbox(), 9)) == [2]
    await frontier.exchange(Outbox(pauses={"a": Pause(1)}), 9)
    backend.advance(5)
    assert keys(await frontier.exchange(Outbox(), 9)) == []


async def test_a_pace_follows_the_version_that_it_names_and_no_other(backend: Backend) -> None:
    frontier = await begun(backend)
    first = await frontier.exchange(Outbox(paces={"a": PaceChange(0, 0.1 + 0.2)}), 0)
    assert first.paces == {"a": Pace(1, 0.1 + 0.2)}
    late = await frontier.exchange(Outbox(paces={"a": PaceChange(0, 9.0), "b": PaceChange(0, 2.0)}), 0)
    assert late.paces == {"a": Pace(1, 0.1 + 0.2), "b": Pace(1, 2.0)}
    early = await frontier.exchange(Outbox(paces={"a": PaceChange(2, 9.0)}), 0)
    assert early.paces == {"a": Pace(1, 0.1 + 0.2)}
    assert (await frontier.exchange(Outbox(paces={"a": PaceChange(1, 0.0)}), 0)).paces == {"a": Pace(2, 0.0)}
    assert (await frontier.exchange(Outbox(), 0)).paces == {}


async def test_a_pace_holds_for_the_leases_of_its_own_exchange(backend: Backend) -> None:
    frontier = await begun(backend)
    outbox = entries(1, 2, 3)
    outbox.paces["a"] = PaceChange(0, 10.0)
    inbox = await frontier.exchange(outbox, 9)
    assert keys(inbox) == [1]
    assert inbox.next_due == pytest.approx(10)
    backend.advance(10.1)
    inbox = await frontier.exchange(Outbox(paces={"a": PaceChange(1, 0.0)}), 9)
    assert keys(inbox) == [2, 3]


@pytest.mark.parametrize(("limit", "pace"), [(10.0, 20.0), (20.0, 10.0)])
async def test_the_longer_of_pace_and_interval_holds(backend: Backend, limit: float, pace: float) -> None:
    frontier = await begun(backend, limits={"a": SlotLimit(0, limit)})
    outbox = entries(1, 2)
    outbox.paces["a"] = PaceChange(0, pace)
    assert (await frontier.exchange(outbox, 9)).next_due == pytest.approx(20)


async def test_a_pace_is_kept_for_the_crawl_and_forgotten_with_it(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(Outbox(paces={"a": PaceChange(0, 10.0)}), 0)
    await frontier.begin("crawl")
    assert (await frontier.exchange(Outbox(paces={"a": PaceChange(0, 1.0)}), 0)).paces == {"a": Pace(1, 10.0)}
    await frontier.forget()
    await frontier.begin("next")
    outbox = entries(1, 2)
    outbox.paces["a"] = PaceChange(7, 10.0)
    inbox = await frontier.exchange(outbox, 9)
    assert inbox.paces == {"a": Pace(0, 0.0)}
    assert keys(inbox) == [1, 2]


# Leases.


async def test_a_lease_that_expires_is_leased_again_with_a_higher_token(backend: Backend) -> None:
    frontier = await begun(backend)
    (first,) = (await frontier.exchange(entries(1), 1)).leases
    backend.advance(LEASE - 1)
    assert keys(await frontier.exchange(Outbox(), 1)) == []
    backend.advance(1.1)
    (second,) = (await frontier.exchange(Outbox(), 1)).leases
    assert (second.key, second.attempt) == (1, 2)
    assert second.token > first.token


async def test_a_renewed_lease_holds_for_another_lease_time(backend: Backend) -> None:
    frontier = await begun(backend)
    (lease,) = (await frontier.exchange(entries(1), 1)).leases
    for _ in range(3):
        backend.advance(LEASE * 0.7)
        assert keys(await frontier.exchange(Outbox(renewals=held(lease)), 1)) == []
    assert (await frontier.exchange(Outbox(acks=held(lease)), 1)).stale == []


@pytest.mark.parametrize(
    "how", ["downloaded", "unsent", "acks", "retries", "dead_lettered", "releases", "renewals"]
)
async def test_a_stale_token_changes_nothing_and_is_counted(backend: Backend, how: str) -> None:
    frontier = await begun(backend)
    (old,) = held(*(await frontier.exchange(entries(1), 1)).leases)
    backend.advance(LEASE)
    (new,) = (await frontier.exchange(Outbox(), 1)).leases
    message = {"retries": Retry(old, 0, "503"), "dead_lettered": DeadLettered(old, "404")}.get(how, old)
    before = await counts(frontier)
    inbox = await frontier.exchange(Outbox(**{how: [message]}), 1)  # type: ignore[arg-type]
    assert inbox.stale == [old]
    assert keys(inbox) == []
    assert await counts(frontier) == before
    assert (await frontier.status()).stale_messages == 1
    assert (await frontier.exchange(Outbox(acks=held(new)), 1)).stale == []


async def test_a_second_ack_is_stale(backend: Backend) -> None:
    frontier = await begun(backend)
    (lease,) = held(*(await frontier.exchange(entries(1), 1)).leases)
    inbox = await frontier.exchange(Outbox(acks=[lease, lease]), 1)
    assert inbox.stale == [lease]
    assert await counts(frontier) == Counts(queued=0, delayed=0, leased=0, dead=0, done=1)
    assert inbox.unfinished == 0


async def test_one_released_is_queued_at_once_and_its_attempt_does_not_count(backend: Backend) -> None:
    frontier = await begun(backend)
    outbox = entries(1)
    for _ in range(MAX_ATTEMPTS * 2):
        (lease,) = (await frontier.exchange(outbox, 1)).leases
        assert lease.attempt == 1
        outbox = Outbox(releases=held(lease))


async def test_a_retry_waits_for_its_delay_and_counts_its_attempt(backend: Backend) -> None:
    frontier = await begun(backend)
    (lease,) = (await frontier.exchange(entries(1), 1)).leases
    inbox = await frontier.exchange(Outbox(retries=[Retry(held(lease)[0], 10, "503")]), 1)
    assert keys(inbox) == []
    backend.advance(10.1)
    (again,) = (await frontier.exchange(Outbox(), 1)).leases
    assert again.attempt == 2
    assert again.payload == lease.payload


async def test_a_retry_is_a_failure_and_a_lease_that_expires_or_is_released_is_none(backend: Backend) -> None:
    frontier = await begun(backend)
    (lease,) = (await frontier.exchange(entries(1), 1)).leases
    assert (lease.attempt, lease.failures) == (1, 0)
    (lease,) = (await frontier.exchange(Outbox(retries=[Retry(held(lease)[0], 0, "503")]), 1)).leases
    assert (lease.attempt, lease.failures) == (2, 1)
    (lease,) = (await frontier.exchange(Outbox(releases=held(lease)), 1)).leases
    assert (lease.attempt, lease.failures) == (2, 1)
    await frontier.exchange(Outbox(downloaded=held(lease), renewals=held(lease)), 0)
    backend.advance(LEASE)
    (lease,) = (await frontier.exchange(Outbox(), 1)).leases
    assert (lease.attempt, lease.failures) == (3, 1)
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(held(lease)[0], "404")]), 0)
    (letter,) = await frontier.dead_letters()
    assert (letter.attempts, letter.failures) == (3, 1)
    await frontier.retry_dead()
    (lease,) = (await frontier.exchange(Outbox(), 1)).leases
    assert (lease.attempt, lease.failures) == (1, 0)


async def test_a_failure_is_kept_while_its_request_is_delayed_and_takes_another_time(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    (lease,) = (await frontier.exchange(entries(1), 1)).leases
    await frontier.exchange(Outbox(retries=[Retry(held(lease)[0], 100, "503")]), 0)
    await frontier.exchange(entries(1), 0)
    (lease,) = (await frontier.exchange(Outbox(), 1)).leases
    assert (lease.attempt, lease.failures) == (2, 1)


async def test_a_retry_becomes_a_dead_letter_when_its_attempts_are_used_up(backend: Backend) -> None:
    frontier = await begun(backend)
    outbox = entries(1)
    for _ in range(MAX_ATTEMPTS):
        inbox = await frontier.exchange(outbox, 1)
        (lease,) = inbox.leases
        outbox = Outbox(retries=[Retry(held(lease)[0], 0, "status 503")])
    inbox = await frontier.exchange(outbox, 1)
    assert inbox.dead_lettered == [1]
    assert inbox.unfinished == 0
    (letter,) = await frontier.dead_letters()
    assert (letter.reason, letter.payload) == ("status 503", b"payload of 1")
    assert (letter.attempts, letter.failures) == (MAX_ATTEMPTS, MAX_ATTEMPTS)


async def test_what_always_expires_becomes_a_dead_letter_when_its_attempts_are_used_up(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    outbox = entries(1)
    for _ in range(MAX_ATTEMPTS):
        assert keys(await frontier.exchange(outbox, 1)) == [1]
        backend.advance(LEASE)
        outbox = Outbox()
    assert keys(await frontier.exchange(outbox, 1)) == []
    (letter,) = await frontier.dead_letters()
    assert letter.reason == f"lease expired after {MAX_ATTEMPTS} attempts"
    assert (letter.attempts, letter.failures) == (MAX_ATTEMPTS, 0)


# Dead letters.


async def test_dead_letters_tell_what_happened_oldest_first(backend: Backend) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2, 3, slot="site"), 3)).leases
    for lease in leases:
        backend.advance(1)
        await frontier.exchange(
            Outbox(dead_lettered=[DeadLettered(held(lease)[0], f"status 404 für {lease.key}")]), 0
        )
    letters = await frontier.dead_letters()
    assert [letter.key for letter in letters] == [1, 2, 3]
    first = letters[0]
    assert (first.slot, first.callback, first.attempts) == ("site", "parse", 1)
    assert (first.reason, first.payload) == ("status 404 für 1", b"payload of 1")
    assert letters[1].died_at - first.died_at == pytest.approx(1)
    assert await frontier.dead_letters(limit=2) == letters[:2]
    assert await frontier.dead_letters(limit=2, skip=1) == letters[1:3]
    assert await frontier.dead_letters(skip=len(letters)) == []


async def test_any_text_can_be_a_reason(backend: Backend) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2), 2)).leases
    first, second = held(*leases)
    await frontier.exchange(
        Outbox(dead_lettered=[DeadLettered(first, "half \ud800 a pair\x00")], retries=[Retry(second, 0, "")]),
        0,
    )
    (letter,) = await frontier.dead_letters()
    assert letter.reason == "half ? a pair\x00"


async def test_dead_letters_can_be_tried_again_with_attempts_back_at_zero(backend: Backend) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2), 2)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(one, "404") for one in held(*leases)]), 0)
    assert await frontier.retry_dead() == 2
    assert await frontier.retry_dead() == 0
    assert await frontier.dead_letters() == []
    inbox = await frontier.exchange(Outbox(), 5)
    assert sorted(keys(inbox)) == [1, 2]
    assert [lease.attempt for lease in inbox.leases] == [1, 1]


async def test_dead_letters_that_are_named_are_tried_again_and_no_others(backend: Backend) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2, 3, 4), 3)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(one, "404") for one in held(*leases)]), 0)
    dead = [letter.key for letter in await frontier.dead_letters()]
    assert await frontier.retry_dead([]) == 0
    assert await frontier.retry_dead([dead[0], dead[2], dead[0], 4, 99]) == 2
    assert [letter.key for letter in await frontier.dead_letters()] == [dead[1]]
    total = (await frontier.status()).total
    assert (total.queued, total.leased, total.dead) == (3, 0, 1)
    inbox = await frontier.exchange(Outbox(), 5)
    assert sorted(keys(inbox)) == sorted([dead[0], dead[2], 4])
    assert [lease.attempt for lease in inbox.leases] == [1, 1, 1]


async def test_dropped_dead_letters_may_be_pushed_again(backend: Backend) -> None:
    frontier = await begun(backend)
    (lease,) = (await frontier.exchange(entries(1), 1)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(held(lease)[0], "404")]), 0)
    assert await frontier.drop_dead() == 1
    assert (await counts(frontier)).seen == 0
    assert keys(await frontier.exchange(entries(1), 1)) == [1]


# Counts.


async def test_counts_are_given_in_all_by_slot_and_by_callback(backend: Backend) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2, 3, slot="a"), 3)).leases
    await frontier.exchange(
        Outbox(
            entries=[entry(4, "b", callback="parse_spec"), entry(5, "b", delay=9, callback="parse_spec")],
            acks=held(leases[0]),
            dead_lettered=[DeadLettered(held(leases[1])[0], "404")],
        ),
        0,
    )
    status = await frontier.status()
    a = Counts(queued=0, delayed=0, leased=1, dead=1, done=1)
    b = Counts(queued=1, delayed=1, leased=0, dead=0, done=0)
    assert status.slots == {"a": a, "b": b}
    assert status.callbacks == {"parse": a, "parse_spec": b}
    assert status.total == Counts(queued=1, delayed=1, leased=1, dead=1, done=1)
    assert status.total.seen == 5
    assert status.crawl_id == "crawl"
    (worker,) = status.workers
    assert (worker.worker, worker.leased) == ("w1", 1)


async def test_past_due_are_those_whose_time_was_set_and_has_come_until_they_are_fetched(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, 2, delay=10), 0)
    await frontier.exchange(entries(3), 0)
    assert (await frontier.status()).past_due == 0
    backend.advance(11)
    status = await frontier.status()
    assert (status.past_due, status.total.queued, status.total.delayed) == (2, 3, 0)
    await frontier.exchange(Outbox(), 0)
    assert (await frontier.status()).past_due == 2
    await frontier.exchange(Outbox(), 3)
    assert (await frontier.status()).past_due == 0


async def test_the_oldest_is_the_first_that_was_pushed_of_those_that_wait(backend: Backend) -> None:
    frontier = await begun(backend)
    assert (await frontier.status()).oldest is None
    await frontier.exchange(entries(1), 0)
    backend.advance(100)
    await frontier.exchange(entries(2, delay=1000), 0)
    assert (await frontier.status()).oldest == pytest.approx(100)
    await frontier.exchange(Outbox(), 1)
    backend.advance(50)
    assert (await frontier.status()).oldest == pytest.approx(50)


async def test_unfinished_counts_what_waits_and_what_is_leased(backend: Backend) -> None:
    frontier = await begun(backend)
    inbox = await frontier.exchange(Outbox(entries=[entry(1), entry(2), entry(3, delay=5)]), 1)
    assert inbox.unfinished == 3
    assert (await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)).unfinished == 2


async def test_a_silent_worker_that_holds_nothing_is_forgotten_after_an_hour(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(Outbox(), 0)
    assert [worker.worker for worker in (await frontier.status()).workers] == ["w1"]
    backend.advance(3601)
    assert (await frontier.status()).workers == []


# A worker's own numbers, and the time.


async def reports(frontier: Frontier) -> dict[str, dict[str, int]]:
    return {worker.worker: worker.report for worker in (await frontier.status()).workers}


async def test_what_a_worker_reports_is_there_with_its_acks_and_an_empty_report_changes_nothing(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2, 3), 3)).leases
    assert await reports(frontier) == {"w1": {}}
    await frontier.exchange(Outbox(acks=held(leases[0]), report={"kept": MOST, "lag": LEAST}), 0)
    assert await reports(frontier) == {"w1": {"kept": MOST, "lag": LEAST}}
    await frontier.exchange(Outbox(acks=held(leases[1])), 0)
    assert await reports(frontier) == {"w1": {"kept": MOST, "lag": LEAST}}
    await frontier.exchange(Outbox(acks=held(leases[2]), report={"kept": 0}), 0)
    assert await reports(frontier) == {"w1": {"kept": 0}}


def test_a_report_is_something_to_say_and_is_taken_with_the_rest() -> None:
    outbox = Outbox(report={"kept": 0})
    assert outbox.says_something
    assert outbox.take().report == {"kept": 0}
    assert not outbox.says_something


async def test_what_a_worker_reported_stays_when_it_is_gone_until_the_crawl_is_forgotten(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    await frontier.exchange(Outbox(report={"kept": 7}), 0)
    await frontier.close()
    backend.advance(4000)
    frontier = await begun(backend, worker="w2")
    backend.advance(4000)
    if (await frontier.status()).workers:  # memory ends with its process
        assert await reports(frontier) == {"w1": {"kept": 7}}
        await frontier.exchange(Outbox(report={"kept": 2}), 0)
        assert await reports(frontier) == {"w1": {"kept": 7}, "w2": {"kept": 2}}
    await frontier.forget()
    await frontier.begin("next")
    assert not any((await reports(frontier)).values())


@pytest.mark.parametrize(
    "report",
    [{"kept": MOST + 1}, {"kept": LEAST - 1}, {"n" * 101: 1}, {f"n{n}": n for n in range(MOST_NAMES + 1)}],
    ids=["above", "below", "long", "many"],
)
async def test_a_report_out_of_bounds_is_refused_before_anything_is_said(
    backend: Backend, report: dict[str, int]
) -> None:
    frontier = await begun(backend)
    with pytest.raises(ValueError, match="report"):
        await frontier.exchange(Outbox(entries=[entry(1)], report=report), 0)
    assert (await counts(frontier)).seen == 0


async def test_the_frontier_says_what_time_it_is(backend: Backend) -> None:
    frontier = backend.open()
    backend.advance(5)
    assert (await frontier.begin("crawl")).now == pytest.approx(BEGIN + 5)
    backend.advance(86400)
    assert (await frontier.exchange(Outbox(), 0)).now == pytest.approx(BEGIN + 86405)
    assert (await frontier.status()).now == pytest.approx(BEGIN + 86405)


# A clock that is set back.


async def times(frontier: Frontier) -> tuple[float, float]:
    """Seconds since the beginning, and by how much that is ahead."""
    inbox = await frontier.exchange(Outbox(), 0)
    return round(inbox.now - BEGIN, 3), round(inbox.ahead, 3)


async def test_a_clock_that_is_set_back_is_counted_on_from_where_it_was(backend: Backend) -> None:
    frontier = await begun(backend)
    backend.advance(100)
    assert await times(frontier) == (100, 0)
    backend.advance(-3600)
    assert await times(frontier) == (100, 3600)
    backend.advance(10)
    assert await times(frontier) == (110, 3600)
    assert (await frontier.status()).now == pytest.approx(BEGIN + 110)
    backend.advance(-60)
    assert await times(frontier) == (110, 3660)
    backend.advance(3650)
    assert await times(frontier) == (3760, 3660)
    backend.advance(3661)
    assert await times(frontier) == (3761, 0)  # it has caught up
    backend.advance(1)
    assert await times(frontier) == (3762, 0)


async def test_who_joins_a_crawl_whose_clock_was_set_back_is_told(backend: Backend) -> None:
    frontier = await begun(backend)
    backend.advance(50)
    await frontier.exchange(Outbox(), 0)
    backend.advance(-3600)
    state = await frontier.begin("crawl")
    assert (round(state.now - BEGIN, 3), round(state.ahead, 3)) == (50, 3600)


async def test_nothing_waits_longer_because_the_clock_is_set_back(backend: Backend) -> None:
    """Neither what is delayed, nor a paused slot, nor one in its interval, nor the lease of a worker that is gone."""
    frontier = await begun(backend, limits={"spaced": SlotLimit(0, 5.0)})
    await frontier.exchange(entries(1, slot="gone"), 0)
    assert keys(await frontier.exchange(Outbox(), 1)) == [1]
    await frontier.exchange(entries(2, slot="delayed", delay=5), 0)
    await frontier.exchange(entries(3, 4, slot="spaced"), 0)
    assert keys(await frontier.exchange(Outbox(), 1)) == [3]
    paused = entries(5, slot="paused")
    paused.pauses = {"paused": Pause(5.0)}
    assert keys(await frontier.exchange(paused, 9)) == []
    backend.advance(-3600)
    inbox = await frontier.exchange(Outbox(), 9)
    assert (keys(inbox), inbox.next_due) == ([], pytest.approx(5.0))
    backend.advance(5)
    assert sorted(keys(await frontier.exchange(Outbox(), 9))) == [2, 4, 5]
    backend.advance(LEASE - 5)
    assert keys(await frontier.exchange(Outbox(), 1)) == [1]


async def test_a_clock_that_is_set_back_leaves_the_end_to_another_in_time(backend: Backend) -> None:
    if not backend.has_workers:
        pytest.skip("one process at a time")
    one, other = await begun(backend, worker="one"), await begun(backend, worker="other")
    assert await one.elect_finisher()
    backend.advance(-3600)
    assert not await other.elect_finisher()
    backend.advance(LEASE)
    assert await other.elect_finisher()


async def test_the_workers_can_be_asked_for_alone(backend: Backend) -> None:
    frontier = backend.open()
    assert await frontier.workers() == []
    await frontier.begin("crawl")
    outbox = entries(1, 2)
    outbox.report = {"kept": 3}
    await frontier.exchange(outbox, 1)
    assert await frontier.workers() == (await frontier.status()).workers
    (worker,) = await frontier.workers()
    assert (worker.worker, worker.leased, worker.report) == ("w1", 1, {"kept": 3})


# The life of a crawl.


@pytest.mark.parametrize("other", ["", "https://b make=Audi", "https://a "])
async def test_a_crawl_is_joined_under_its_own_identity_only(backend: Backend, other: str) -> None:
    frontier = backend.open()
    await frontier.begin("one", "https://a")
    await frontier.exchange(entries(1), 0)
    with pytest.raises(ForeignCrawl) as caught:
        await frontier.begin("two", other)
    assert (caught.value.found, caught.value.asked) == ("https://a", other)
    assert "https://a" in str(caught.value)
    assert other in str(caught.value)
    state = await frontier.begin("two", "https://a")
    assert state.crawl_id == "one"
    status = await frontier.status()
    assert (status.crawl_id, status.identity, status.total.queued) == ("one", "https://a", 1)


async def test_a_crawl_without_an_identity_is_no_other_ones(backend: Backend) -> None:
    frontier = await begun(backend)
    with pytest.raises(ForeignCrawl, match="did not say of what"):
        await frontier.begin("crawl", "https://a")
    await frontier.forget()
    assert not (await frontier.begin("crawl", "https://a")).resumed


async def test_without_a_crawl_there_is_nothing_to_see_and_nothing_to_do(backend: Backend) -> None:
    frontier = backend.open()
    status = await frontier.status()
    assert (status.crawl_id, status.total.seen) == (None, 0)
    assert await frontier.dead_letters() == []
    assert (await frontier.retry_dead(), await frontier.drop_dead()) == (0, 0)
    await frontier.forget()
    with pytest.raises(FrontierLost):
        await frontier.exchange(Outbox(), 1)


async def test_a_crawl_that_is_forgotten_has_never_been(backend: Backend) -> None:
    frontier = await begun(backend)
    leases = (await frontier.exchange(entries(1, 2, 3), 1)).leases
    await frontier.exchange(Outbox(acks=held(*leases), pauses={"a": Pause(1000)}), 0)
    await frontier.forget()
    assert (await frontier.status()).crawl_id is None
    with pytest.raises(FrontierLost):
        await frontier.exchange(Outbox(), 1)
    state = await frontier.begin("next")
    assert (state.crawl_id, state.resumed) == ("next", False)
    assert keys(await frontier.exchange(entries(1), 5)) == [1]


async def test_what_was_queued_at_the_last_moment_is_not_forgotten_with_its_crawl(backend: Backend) -> None:
    frontier = await begun(backend)
    inbox = await frontier.exchange(entries(1), 1)
    await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
    assert await frontier.elect_finisher()
    await frontier.exchange(entries(2), 0)
    assert not await frontier.forget(unless_unfinished=True)
    [lease] = (await frontier.exchange(Outbox(), 1)).leases
    assert lease.key == 2
    assert not await frontier.forget(unless_unfinished=True)
    await frontier.exchange(Outbox(acks=held(lease)), 0)
    assert await frontier.forget(unless_unfinished=True)
    assert (await frontier.status()).crawl_id is None


async def test_the_end_can_be_claimed_when_nothing_is_unfinished(backend: Backend) -> None:
    frontier = await begun(backend)
    inbox = await frontier.exchange(entries(1), 1)
    assert not await frontier.elect_finisher()
    await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
    assert await frontier.elect_finisher()
    assert await frontier.elect_finisher()
    assert await frontier.verdict() is None
    assert await frontier.publish_verdict(b"complete")
    assert await frontier.elect_finisher()
    assert await frontier.verdict() == b"complete"
    await frontier.forget()
    assert await frontier.verdict() == b"complete"
    with pytest.raises(FrontierLost):
        await frontier.elect_finisher()


async def test_who_is_elected_is_told_what_there_is_in_the_end(backend: Backend) -> None:
    frontier = await begun(backend)
    inbox = await frontier.exchange(entries(1, 2), 2)
    given_up, done = held(*inbox.leases)
    await frontier.exchange(Outbox(acks=[done], dead_lettered=[DeadLettered(given_up, "broken")]), 0)
    status = await frontier.elect_finisher()
    assert status is not None
    assert (status.crawl_id, status.total.dead, status.total.done) == ("crawl", 1, 1)


async def test_a_verdict_on_a_crawl_that_has_gone_on_is_not_published(backend: Backend) -> None:
    frontier = await begun(backend)
    assert not await frontier.publish_verdict(b"nobody was elected")
    assert await frontier.elect_finisher()
    lease = (await frontier.exchange(entries(1), 1)).leases[0]
    assert not await frontier.publish_verdict(b"something is left to do")
    await frontier.exchange(Outbox(acks=held(lease)), 0)
    assert not await frontier.publish_verdict(b"something was done since")
    assert await frontier.verdict() is None
    assert await frontier.elect_finisher()
    assert await frontier.publish_verdict(b"complete")
    assert await frontier.verdict() == b"complete"


async def test_a_want_of_nothing_is_given_nothing(backend: Backend) -> None:
    frontier = await begun(backend)
    assert keys(await frontier.exchange(entries(1), 0)) == []
    assert keys(await frontier.exchange(Outbox(), -1)) == []


async def test_big_exchanges_pass_in_one_piece(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(*range(5000)), 0)
    inbox = await frontier.exchange(Outbox(), 4500)
    assert keys(inbox) == list(range(4500))
    inbox = await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
    assert inbox.unfinished == 500
    backend.advance(LEASE)
    assert len((await frontier.exchange(Outbox(), 5000)).leases) == 500
