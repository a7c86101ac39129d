"""A lease is said to be one thing in the end, and acknowledged only once all stores have what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)
from scrapy import Request

from scrapy_durable.frontier.contract import DeadLettered, Held, Lease, Outbox, Retry
from scrapy_durable.leases import Leases

SECONDS = 60.0
ROOM = 8


@dataclass
class Store:
    """What the scheduler sees of one."""

    received: int = 0
    durable: int = 0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def lease(number: int, slot: str = "site") -> Lease:
    return Lease(number, number, 1, slot, b"")


class LeasesMachine(RuleBasedStateMachine):
    """An engine, two stores and a frontier, in any order in which Scrapy may call."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.outbox = Outbox()
        self.leases = Leases(self.outbox, ROOM, SECONDS, clock=self.clock)
        self.stores = [Store(), Store()]
        self.given: set[Held] = set()
        self.downloading: set[Request] = set()
        self.scraping: set[Request] = set()
        self.needed: dict[Held, list[int]] = {}
        """What each store has to reach before a finished lease may be acknowledged; a list per lease."""
        self.said: Counter[tuple[str, Held]] = Counter()
        self.ends: Counter[Held] = Counter()

    @initialize(expected=st.booleans())
    def begin(self, expected: bool) -> None:
        self.leases.stores = self.stores
        self.leases.results_expected = expected
        self.expected = expected

    @rule(count=st.integers(1, ROOM))
    def come(self, count: int) -> None:
        """As many at most as there is room for."""
        count = min(count, self.leases.prefetch)
        new = [lease(len(self.given) + number) for number in range(count)]
        self.given |= {one.held for one in new}
        self.leases.prefetched.add(new)

    @rule(target=requests)
    def leased(self) -> Request:
        request = Request("http://site/")
        found = self.leases.prefetched.pop()
        if found is not None:
            self.leases.assign(request, found)
            self.downloading.add(request)
        return request

    @rule()
    def dead_letter_unread(self) -> None:
        if found := self.leases.prefetched.pop():
            self.leases.prefetched.dead_letter(found, "unreadable")

    @rule(request=requests, unsent=st.booleans())
    def note_downloaded(self, request: Request, unsent: bool) -> None:
        if task := self.leases.get(request):
            if unsent:
                self.leases.note_unsent(task)
            else:
                self.leases.note_downloaded(task)

    @rule(request=requests, outcome=st.sampled_from(["retry", "dead-letter", "release", "result"]))
    def decide(self, request: Request, outcome: str) -> None:
        task = self.leases.get(request)
        if task is None:
            return
        task.seen = True
        if outcome == "retry":
            task.retry(1.0, "failed")
        elif outcome == "dead-letter":
            before = task.outcome
            assert task.dead_letter("wrong") == (before is None)
        elif outcome == "release":
            task.release()

    @rule(request=requests)
    def go_to_the_scraper(self, request: Request) -> None:
        if request in self.downloading:
            self.downloading.remove(request)
            self.scraping.add(request)

    @rule(request=consumes(requests), yielded=st.integers(0, 3))
    def leave(self, request: Request, yielded: int) -> None:
        """What it yields is with the stores when it leaves."""
        self.downloading.discard(request)
        self.scraping.discard(request)
        for store in self.stores:
            store.received += yielded
        task = self.leases.get(request)
        if task and task.outcome is None:
            self.needed[task.held] = [store.received for store in self.stores]
        self.leases.check(self.downloading, self.scraping, self.stores[0].received)
        assert self.leases.get(request) is None
        if task and self.expected and not task.seen:
            assert isinstance(task.outcome, DeadLettered)

    @rule(which=st.integers(0, 1), more=st.integers(1, 5))
    def keep(self, which: int, more: int) -> None:
        store = self.stores[which]
        store.durable = min(store.received, store.durable + more)

    @rule()
    def sleep(self) -> None:
        self.clock.now += SECONDS / 3

    @rule()
    def release_waiting(self) -> None:
        self.leases.prefetched.release()
        assert self.leases.prefetched.pop() is None

    @rule()
    def be_forced_to_end(self) -> None:
        self.leases.release_at_work()
        self.downloading.clear()
        self.scraping.clear()
        assert not self.leases.at_work

    @rule()
    def exchange(self) -> None:
        """Everything that is said is said once, and of a lease that was not ended before."""
        self.leases.settle()
        self.leases.renew_in_time()
        assert not self.leases.is_urgent
        ended_before = set(self.ends)
        said = self.outbox.take()
        assert not self.outbox.says_something
        ends = [*said.acks, *said.releases, *(one.held for one in (*said.retries, *said.dead_lettered))]
        self.ends.update(ends)
        for name, what in (("downloaded", said.downloaded), ("downloaded", said.unsent)):
            self.said.update((name, held) for held in what)
        for held in said.acks:
            assert all(
                store.durable >= mark for store, mark in zip(self.stores, self.needed[held], strict=True)
            )
        if said.renewals:
            assert set(said.renewals) == self.given - set(self.ends)
        assert not set(said.renewals) & ended_before

    @invariant()
    def none_is_ended_twice(self) -> None:
        assert all(count == 1 for count in self.ends.values())
        assert all(count == 1 for count in self.said.values())

    @invariant()
    def what_is_kept_outlives_a_kill(self) -> None:
        assert self.leases.kept <= min(store.durable for store in self.stores)

    @invariant()
    def none_is_forgotten(self) -> None:
        """What the frontier gave is in hand, or its end is said or about to be."""
        about_to_be = self.outbox
        ends = len(about_to_be.acks) + len(about_to_be.releases)
        ends += len(about_to_be.retries) + len(about_to_be.dead_lettered)
        assert len(self.given) == len(self.leases) + sum(self.ends.values()) + ends


LeasesMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestLeases = LeasesMachine.TestCase


def test_it_is_renewed_at_a_third_of_its_time_wherever_it_is() -> None:
    clock, outbox = Clock(), Outbox()
    leases = Leases(outbox, ROOM, SECONDS, clock=clock)
    store = Store(received=1)
    leases.stores = [store]
    leases.prefetched.add(map(lease, range(3)))
    leased, finished = Request("http://site/1"), Request("http://site/2")
    for request in (leased, finished):
        leases.assign(request, cast("Lease", leases.prefetched.pop()))
    leases.check({leased}, ())
    leases.settle()
    assert not outbox.acks, "its store has nothing yet"

    clock.now += SECONDS / 3 - 0.001
    assert not leases.is_urgent
    clock.now += 0.002
    assert leases.is_urgent
    leases.renew_in_time()
    assert {held.key for held in outbox.renewals} == {0, 1, 2}
    assert not leases.is_urgent


def test_a_slot_is_returned_alone_and_its_time_with_it() -> None:
    outbox = Outbox()
    leases = Leases(outbox, ROOM, SECONDS)
    leases.prefetched.add([lease(1, "a"), lease(2, "b"), lease(3, "a")])
    leases.prefetched.release("a")
    assert [held.key for held in outbox.releases] == [held.key for held in outbox.unsent] == [1, 3]
    assert len(leases) == 1


def test_what_others_have_taken_over_is_not_fetched_but_what_is_under_way_goes_on() -> None:
    leases = Leases(Outbox(), ROOM, SECONDS)
    request = Request("http://site/")
    leases.prefetched.add([lease(1), lease(2), lease(3)])
    leases.assign(request, cast("Lease", leases.prefetched.pop()))
    leases.prefetched.forget([lease(1).held, lease(2).held])
    assert leases.prefetched.pop() == lease(3)
    assert leases.get(request) is not None


def test_a_first_word_stands_against_a_dead_letter_but_a_retry_overrules() -> None:
    leases = Leases(Outbox(), ROOM, SECONDS)
    request = Request("http://site/")
    leases.prefetched.add([lease(1)])
    leases.assign(request, cast("Lease", leases.prefetched.pop()))
    task = leases[request]
    assert task.dead_letter("wrong")
    assert not task.dead_letter("wrong again")
    task.retry(5.0, "after all")
    assert task.outcome == Retry(lease(1).held, 5.0, "after all")
    with pytest.raises(KeyError):
        leases[Request("http://other/")]


def test_the_errback_of_what_is_put_off_hears_nothing_and_is_there_again_at_the_next_time() -> None:
    def errback(failure: object) -> None: ...

    outbox = Outbox()
    leases = Leases(outbox, ROOM, SECONDS)
    request = Request("http://site/", errback=errback)
    leases.assign(request, lease(1))
    leases[request].retry(1.0, "status 503")
    leases[request].silence(request)
    assert request.errback is None
    leases.check((), ())
    assert request.errback is errback
    assert len(outbox.retries) == 1


def test_a_spare_goes_out_once_for_each_place_that_is_free_and_not_told_of() -> None:
    outbox = Outbox()
    leases = Leases(outbox, ROOM, SECONDS, clock=Clock())
    leases.takes_spares = lambda: True
    leases.prefetched.add(
        [lease(1), lease(2), *(replace(lease(number), is_spare=True) for number in (3, 4, 5))]
    )
    requests = []
    for _ in range(2):
        popped = leases.prefetched.pop()
        assert popped is not None
        requests.append(Request(f"https://example.com/{popped.key}"))
        leases.assign(requests[-1], popped)
    assert leases.prefetched.pop() is None, "both places are taken"
    leases.note_downloaded(leases[requests[0]])
    spare = leases.prefetched.pop()
    assert spare == replace(lease(3), is_spare=True)
    assert outbox.sent == [spare.held]
    assert leases.prefetched.pop() is None, "the place is taken"
    leases.prefetched.release()
    assert outbox.releases == [Held(4, 4), Held(5, 5)]
    assert not outbox.unsent, "they have never been in flight"


def with_spares(outbox: Outbox, *in_flight: int, spares: Sequence[int]) -> tuple[Leases, list[Request]]:
    """Leases of one site that the engine has, and those that wait for a place there."""
    leases = Leases(outbox, ROOM, SECONDS, clock=Clock())
    leases.takes_spares = lambda: True
    requests = [Request(f"https://example.com/{number}") for number in in_flight]
    for number, request in zip(in_flight, requests, strict=True):
        leases.assign(request, lease(number))
    leases.prefetched.add(replace(lease(number), is_spare=True) for number in spares)
    return leases, requests


def test_a_place_that_is_told_of_goes_to_a_spare_if_there_is_one() -> None:
    outbox = Outbox()
    leases, [request] = with_spares(outbox, 1, spares=[2, 3])
    leases.note_downloaded(leases[request])
    leases.say(outbox)
    said = outbox.take()
    assert (said.downloaded, said.sent, said.releases) == ([Held(1, 1)], [Held(2, 2)], [])
    popped = leases.prefetched.pop()
    assert popped is not None
    assert popped.held == Held(2, 2), "it is sent without another word"
    assert leases.prefetched.pop() is None


def test_spares_for_which_no_place_will_become_free_are_released() -> None:
    """Held on to for ever, they would keep the crawl from ending."""
    outbox = Outbox()
    leases, [request] = with_spares(outbox, 1, spares=[2, 3])
    leases.note_downloaded(leases[request])
    leases.say(outbox)
    outbox.take()
    popped = leases.prefetched.pop()
    assert popped is not None
    leases.prefetched.dead_letter(popped, "unreadable")  # so that nothing is in flight any more
    leases.say(outbox)
    assert outbox.take().releases == [Held(3, 3)]
    assert len(leases.prefetched.spares) == 0


def test_spares_are_asked_for_also_when_all_that_was_in_flight_was_answered_together() -> None:
    """Else a worker whose answers come together would never have any, and exchange for each round of them."""
    outbox = Outbox()
    leases, requests = with_spares(outbox, 1, 2, spares=[])
    for request in requests:
        leases.note_downloaded(leases[request])
    leases.say(outbox)
    assert outbox.take().spares == {"site": 10}
    leases.say(outbox)
    assert outbox.take().spares == {}


def test_spares_are_some_for_each_place_and_none_when_nothing_is_asked_for() -> None:
    outbox = Outbox()
    leases, requests = with_spares(outbox, 1, 2, spares=[3])
    leases.say(outbox)
    assert outbox.take().spares == {"site": 9}
    leases.takes_spares = lambda: False
    leases.note_downloaded(leases[requests[0]])
    leases.say(outbox)
    assert outbox.take().spares == {}
