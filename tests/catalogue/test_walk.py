"""A walk over pages ends whatever the site does, asks for little more than there is, and reads all that there is."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.catalogue.walk import (
    AHEAD,
    Plan,
    Seen,
    called_for,
    expected_pages,
    followed_by,
    idle_tail,
    leads_on,
    plan,
)
from carscraper.items import PageRead

MOST = 10**6
SIZE = 20
Answer = Callable[[int, int], tuple[list[str], int | None, bool]]
"""What a site says at an offset, asked for so many: ids, total, and whether that is the last page."""


@dataclass
class Walk:
    """A walk over the pages of a site, by workers of which each knows what it has seen itself."""

    site: Answer
    pass_number: int = 1
    limit: int | None = None
    most: int = MOST
    workers: int = 1
    dead: frozenset[int] = frozenset()
    """Pages that cannot be had."""
    pages: dict[int, PageRead] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    widest: int = 0
    """How many requests waited at most."""

    def run(self, chance: Random | None = None, *, killed: bool = False) -> Walk:
        """To its end, in the order that chance has it; with `killed`, workers forget all now and then, and pages
        are read again.
        """
        waiting: dict[int, tuple[int, Plan | None, int]] = {0: (SIZE, None, 0)}
        seen = [Seen() for _ in range(self.workers)]
        while waiting:
            self.widest = max(self.widest, len(waiting))
            some = heapq.nsmallest(32, waiting)
            at = chance.choice(some) if chance else some[0]
            again = killed and chance is not None and chance.random() < 0.1
            worker = chance.randrange(self.workers) if chance else 0
            size, known, idle = waiting[at]
            if not again:
                del waiting[at]
                self.asked.append(at)
            if at not in self.dead:
                for after, what in self._read(seen[worker], at, size, known, idle):
                    if after not in waiting and after not in self.asked:
                        waiting[after] = what
            if again:
                seen[worker] = Seen()
            assert len(self.asked) < 20_000, "it does not end"
        return self

    def _read(
        self, seen: Seen, at: int, size: int, known: Plan | None, idle: int
    ) -> list[tuple[int, tuple[int, Plan, int]]]:
        """The same steps as the spider's."""
        ids, total, last = self.site(at, size)
        rows = len(ids)
        step = (min(size, rows) if rows and not at else size) if last else size
        read = self.pages[at] = PageRead(self.pass_number, at, step, total, ids, 0, last)
        planned = known or plan(read, limit=self.limit, most=self.most)
        idle = 0 if seen.brings_news("1", read) else idle + 1
        found: list[tuple[int, tuple[int, Plan, int]]] = []
        if known is None or not idle:
            offsets = called_for(planned, self.pass_number, at)
            found += [
                (one, (planned.stride, planned, 0))
                for one in seen.not_queued(planned, self.pass_number, offsets)
            ]
        after = followed_by(planned, read, limit=self.limit, most=self.most)
        if after is not None and idle < AHEAD:
            found.append((after, (step, planned, idle)))
        return found

    @property
    def ids(self) -> set[str]:
        return {one for page in self.pages.values() for one in page.ids}


def listings(count: int, begin: int = 0) -> list[str]:
    return [str(number) for number in range(begin, begin + count)]


def honest(count: int, told: int | None = -1) -> Answer:
    """A site of so many listings, which tells another total when `told` is given."""
    everything = listings(count)
    total = count if told == -1 else told
    return lambda at, size: (everything[at : at + size], total, at + size >= count)


@given(st.integers(0, 3000), st.sampled_from([1, 2]), st.integers(1, 3), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=30)
def test_an_honest_site_is_read_once_whatever_the_order_and_whoever_is_killed(
    count: int, pass_number: int, workers: int, killed: bool, seed: int
) -> None:
    walk = Walk(honest(count), pass_number, workers=workers).run(Random(seed), killed=killed)
    assert walk.ids == set(listings(count))
    second = SIZE if pass_number == 1 else SIZE // 2
    stride = min(SIZE, count) or SIZE
    expected = [0, *range(second if count > SIZE else stride, count, SIZE)]
    if count > SIZE:
        assert sorted(walk.asked) == expected
    assert walk.widest <= 2 * AHEAD + 1


@given(st.sampled_from([300, 3000]), st.lists(st.integers(0, 149), max_size=40), st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_page_that_cannot_be_had_costs_itself_only(count: int, dead: list[int], seed: int) -> None:
    gone = frozenset(SIZE * number for number in dead if number)
    walk = Walk(honest(count), dead=gone).run(Random(seed))
    assert sorted(walk.asked) == list(range(0, count, SIZE))
    assert set(walk.pages) == set(walk.asked) - gone


@pytest.mark.parametrize("told", [None, 0, 1, 100, 2999, 3000])
@pytest.mark.parametrize("pass_number", [1, 2])
def test_a_site_that_tells_no_total_or_one_that_is_too_small_is_followed_to_its_end(
    told: int | None, pass_number: int
) -> None:
    walk = Walk(honest(3000, told), pass_number).run()
    assert walk.ids == set(listings(3000))
    assert len(walk.asked) <= 3000 // SIZE + 2
    assert idle_tail([walk.pages[at] for at in sorted(walk.pages)]) == 0


def test_a_catalogue_that_grows_meanwhile_is_read_to_its_end() -> None:
    now = listings(1000)

    def growing(at: int, size: int) -> tuple[list[str], int, bool]:
        if len(now) < 2000:
            now[:0] = [f"new{len(now) + number}" for number in range(7)]
        return now[at : at + size], len(now), at + size >= len(now)

    walk = Walk(growing).run()
    assert max(walk.asked) + SIZE >= len(now) > 1400
    assert set(listings(1000)) <= walk.ids


def repeat(first: int, count: int, total: int | None, last: bool) -> Answer:
    """From `first` on, the listings of the `count` pages before it come again and again."""
    everything = listings(first)

    def answer(at: int, size: int) -> tuple[list[str], int | None, bool]:
        if at >= first:
            at = first - count * size + (at - first) % (count * size)
        return everything[at : at + size], total, last and at + size >= first

    return answer


def empty(count: int, total: int | None) -> Answer:
    """Every page names a next one, also those without a listing."""
    everything = listings(count)
    return lambda at, size: (everything[at : at + size], total, False)


HOSTILE = {
    "empty for ever": empty(300, 300),
    "empty for ever, no total": empty(300, None),
    "empty from the beginning": empty(0, 0),
    "nothing, and 10^9 announced": empty(0, 10**9),
    "10^9 announced": honest(300, 10**9),
    "2^63 announced": honest(300, 2**63),
    "10^9 announced, and a next on each": empty(300, 10**9),
    "the last page again": repeat(300, 1, 300, False),
    "the last page again, 10^9 announced": repeat(300, 1, 10**9, False),
    "three pages in turn": repeat(300, 3, 10**9, False),
    "all pages in turn": repeat(300, 15, 10**9, True),
    "all pages in turn, no total": repeat(300, 15, None, False),
}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("pass_number", [1, 2])
@pytest.mark.parametrize("site", list(HOSTILE))
def test_a_walk_ends_and_has_asked_for_little_more_than_there_is(
    site: str, pass_number: int, workers: int
) -> None:
    for seed in range(5):
        walk = Walk(HOSTILE[site], pass_number, workers=workers).run(Random(seed))
        assert walk.ids == set(listings(300 if any(page.ids for page in walk.pages.values()) else 0))
        # Of pages that are the same, the one that comes first is new, to each worker: hence the factor.
        assert len(walk.asked) <= 300 // SIZE + 2 * AHEAD * workers
        assert walk.widest <= 2 * AHEAD + 1
        assert idle_tail([walk.pages[at] for at in sorted(walk.pages)]) >= AHEAD


def test_a_site_that_brings_something_new_for_ever_is_read_to_the_most_that_is_believed() -> None:
    for total in (None, 300, 10**9):
        walk = Walk(lambda at, size, total=total: (listings(size, at), total, False), most=2000).run()  # type: ignore[misc]
        assert sorted(walk.asked) == list(range(0, 2000, SIZE))
        assert walk.widest <= 2 * AHEAD + 1


@given(st.integers(1, 500), st.integers(0, 600))
def test_a_limit_is_not_exceeded(limit: int, count: int) -> None:
    walk = Walk(honest(count), limit=limit).run()
    assert len(walk.asked) == max(1, -(-min(limit, count) // SIZE)) or count < SIZE
    assert max(walk.asked) < max(limit, 1)


def test_a_page_that_is_read_again_calls_for_the_same() -> None:
    seen, page = Seen(), PageRead(1, 40, SIZE, 300, listings(20), 0)
    assert seen.brings_news("1", page)
    assert seen.brings_news("1", page)
    assert not seen.brings_news("1", PageRead(1, 60, SIZE, 300, listings(20), 0))
    assert seen.brings_news("2", PageRead(2, 60, SIZE, 300, listings(20), 0))


def test_a_page_counts_as_queued_when_the_next_is_asked_for() -> None:
    seen, planned = Seen(), Plan(10, 100)
    offsets = seen.not_queued(planned, 1, range(10, 40, 10))
    assert next(offsets) == 10
    assert list(seen.not_queued(planned, 1, range(10, 40, 10))) == [20, 30, 10]
    assert list(seen.not_queued(planned, 1, range(10, 60, 10))) == [40, 50]
    assert list(seen.not_queued(planned, 2, range(5, 20, 10))) == [5, 15]


def test_pages_that_are_read_at_once_share_what_they_call_for() -> None:
    seen, planned = Seen(), Plan(10, 1000)
    readers = [seen.not_queued(planned, 1, range(10, 400, 10)) for _ in range(5)]
    queued = [offset for turn in zip_longest(*readers) for offset in turn if offset is not None]
    assert set(queued) == set(range(10, 400, 10))
    assert len(queued) < 39 + 5


@pytest.mark.parametrize("left_off_after", range(1, 4))
def test_what_a_page_has_left_off_at_is_queued_by_the_others(left_off_after: int) -> None:
    seen, planned = Seen(), Plan(10, 1000)
    wanted = range(10, 60, 10)
    failing, other = (seen.not_queued(planned, 1, wanted) for _ in range(2))
    handed_over, by_other = [], []
    for _ in range(left_off_after):
        handed_over.append(next(failing))
        by_other += [offset for offset in [next(other, None)] if offset is not None]
    failing.close()
    assert set(handed_over[:-1]) | set(by_other) | set(other) == set(wanted)


def test_what_the_last_page_has_left_off_at_is_queued_when_it_is_read_again() -> None:
    seen, planned = Seen(), Plan(10, 1000)
    failing, other = (seen.not_queued(planned, 1, range(10, 60, 10)) for _ in range(2))
    assert (next(failing), next(other), next(failing)) == (10, 20, 30)
    failing.close()
    other.close()
    assert list(seen.not_queued(planned, 1, range(10, 60, 10))) == [20, 30, 40, 50]


def test_a_process_remembers_no_more_listings_than_a_catalogue_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carscraper.catalogue.walk._REMEMBERED", 100)
    seen = Seen()
    for at in range(0, 2000, SIZE):
        assert seen.brings_news("1", PageRead(1, at, SIZE, None, listings(SIZE, at), 0))
    assert len(seen._places) == 100


@given(st.integers(0, 200), st.integers(-(2**64), 2**64), st.integers(1, 1000))
def test_what_leads_on_is_near(rows: int, told: int, asked: int) -> None:
    if leads_on(rows, told, asked):
        assert 0 < told <= max(rows, asked)


@given(st.integers(0, 3000), st.sampled_from([1, 2]), st.sets(st.integers(1, 149)))
@settings(max_examples=30)
def test_what_a_walk_must_have_asked_for_was_asked_for(count: int, pass_number: int, gone: set[int]) -> None:
    walk = Walk(honest(count), pass_number).run()
    left = [page for number, page in enumerate(walk.pages.values()) if number not in gone]
    expected = expected_pages(left, limit=None, most=MOST)
    assert expected <= set(walk.asked)
    if len(gone) < AHEAD:
        assert expected | {page.offset for page in left} == set(walk.asked)


@pytest.mark.parametrize("site", list(HOSTILE))
def test_of_a_walk_that_was_ended_no_page_is_thought_to_be_absent(site: str) -> None:
    for seed in range(5):
        walk = Walk(HOSTILE[site], workers=2).run(Random(seed))
        assert expected_pages(walk.pages.values(), limit=None, most=MOST) <= set(walk.pages)
