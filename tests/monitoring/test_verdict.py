"""The verdict never says complete when a listing that lived through the crawl is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.items import PageRead, SetAside
from carscraper.monitoring.verdict import GivenUp, Reading, Verdict, needs_another_pass, reach_verdict

PAGE = 4


def page(offset: int, ids: str, total: int, pass_number: int = 1, unnamed: int = 0) -> PageRead:
    """A page of listings with one letter each."""
    return PageRead(pass_number, offset, PAGE, total, list(ids), unnamed, last=offset + PAGE >= total)


def still(ids: str, pass_number: int = 1) -> list[PageRead]:
    """A pass over a catalogue that stands still."""
    return [page(at, ids[at : at + PAGE], len(ids), pass_number) for at in range(0, max(len(ids), 1), PAGE)]


def verdict(pages: list[PageRead], kept: str, **more: object) -> Verdict:
    options = {"set_aside": [], "given_up": [], **more}
    reading = Reading(pages, options.pop("set_aside"))  # type: ignore[arg-type]
    return reach_verdict(reading, set(kept), 0, options.pop("given_up"), **options)  # type: ignore[arg-type]


def test_all_that_a_still_catalogue_named_was_kept() -> None:
    reached = verdict(still("abcdefghij"), "abcdefghij")
    assert reached.complete
    assert (reached.kept, reached.expected, reached.passes, reached.reasons) == (10, 10, 1, [])


def test_an_empty_catalogue_is_complete() -> None:
    assert verdict(still(""), "").complete


def test_a_listing_that_was_named_but_not_kept_is_missing_by_name() -> None:
    reached = verdict(still("abcdefghij"), "abcdefghi")
    assert not reached.complete
    assert reached.missing == ["j"]


def test_a_listing_set_aside_is_named_and_not_missing() -> None:
    aside = SetAside("http://site/", "data[1].attributes.code", "is missing", "b")
    reached = verdict(still("abcd"), "acd", set_aside=[aside, aside])
    assert not reached.complete
    assert (reached.missing, reached.set_aside) == ([], [aside])
    assert reached.reasons == ["1 listings were set aside"]


def test_a_listing_set_aside_on_one_page_and_kept_from_another_is_kept() -> None:
    aside = SetAside("http://site/", "data[1].attributes.code", "is missing", "b")
    assert verdict(still("abcd"), "abcd", set_aside=[aside]).complete


def test_a_page_that_was_never_read_leaves_a_gap() -> None:
    pages = [part for part in still("abcdefghijkl") if part.offset != 4]
    reached = verdict(pages, "abcdijkl")
    assert not reached.complete
    assert "not every listing page could be read" in reached.reasons
    assert not needs_another_pass(Reading(pages, []), 4), "a gap is no movement"


def test_a_total_that_never_turns_up_is_not_complete() -> None:
    pages = [page(0, "abcd", 5), PageRead(1, 4, 1, 5, [], 0, last=True)]
    reached = verdict(pages, "abcd")
    assert not reached.complete
    assert reached.reasons == [
        "1 listings of the API's total never turned up; the last page that named any begins at offset 0"
    ]


def test_nothing_read_is_not_complete() -> None:
    assert verdict([], "").reasons == ["no listing page was read"]


def test_requests_given_up_unmade_or_unserializable_each_make_it_incomplete() -> None:
    gone = GivenUp("http://site/spec", "status 500, 9 tries", ("a",))
    for reason in ({"given_up": [gone]}, {"unfinished": 3}, {"unserializable": 1}):
        assert not verdict(still("abcd"), "abcd", **reason).complete


def test_with_a_limit_what_was_named_counts_and_not_the_total() -> None:
    assert verdict([page(0, "ab", 500)], "ab", limit=2).complete
    assert not verdict([page(0, "ab", 500)], "a", limit=2).complete


def test_a_page_read_twice_counts_as_it_was_read_last() -> None:
    again = [*still("abcdefgh"), page(4, "efgx", 8)]
    reached = verdict(again, "abcdefghx")
    assert reached.complete


def test_a_removal_calls_for_another_pass_and_a_settled_one_ends_it() -> None:
    # d is removed after the first page was read, so e is on no page.
    first = [page(0, "abcd", 9), page(4, "fghi", 8)]
    assert needs_another_pass(Reading(first, []), 4)
    assert not verdict(first, "abcdfghi").complete
    found = [*first, *still("abcefghi", pass_number=2)]
    assert not needs_another_pass(Reading(found, []), 4)
    assert verdict(found, "abcdefghi").complete


def test_pages_that_overlap_from_the_top_to_the_end_leave_no_place_for_what_slipped_past() -> None:
    first = [page(0, "abcd", 8), page(4, "defg", 9), page(8, "h", 9)]  # z came on top meanwhile
    second = [page(0, "zabc", 9, 2), page(2, "abcd", 10, 2), page(6, "efgh", 10, 2)]  # y came meanwhile
    assert needs_another_pass(Reading(first, []), 4)  # between g and h something might have been
    assert not needs_another_pass(Reading([*first, *second], []), 4)
    assert verdict([*first, *second], "zabcdefgh").complete


def test_a_row_that_may_be_a_featured_one_is_no_overlap() -> None:
    pages = [page(0, "abcd", 8), page(4, "defg", 9), page(7, "gh", 9)]
    assert not needs_another_pass(Reading(pages, []), 4)
    pages[1] = page(4, "defgx", 9)  # one row too many: d may be the featured one
    assert needs_another_pass(Reading(pages, []), 4)


def test_a_listing_that_slips_past_twice_is_not_declared_away() -> None:
    """a was there all the time, as the last one; as many were kept as the total says."""
    first = [page(0, "jihg", 10), page(4, "gfed", 11), page(8, "medcb", 13), page(12, "", 12)]
    second = [page(0, "kjih", 11, 2), page(4, "edcb", 9, 2), page(8, "", 8, 2)]
    assert needs_another_pass(Reading([*first, *second], []), 4)
    assert not verdict([*first, *second], "bcdefghijkm").complete


def test_the_bound_on_passes_is_kept_and_the_verdict_says_that_it_is_not_sure() -> None:
    first = [page(0, "abcd", 8), page(4, "fghi", 8), page(8, "j", 9)]
    assert not needs_another_pass(Reading(first, []), 1)
    assert verdict(first, "abcdfghij").reasons == ["the catalogue moved too much in 1 passes to be sure"]


def untold(pages: list[PageRead]) -> list[PageRead]:
    """The same pages of a site that names no total."""
    return [replace(page, total=None) for page in pages]


def test_without_a_total_only_overlapping_pages_say_that_nothing_slipped_past() -> None:
    first = untold(still("abcdefgh"))
    assert needs_another_pass(Reading(first, []), 4)
    assert not verdict(first, "abcdefgh").complete
    second = untold([page(0, "abcd", 8, 2), page(2, "cdef", 8, 2), page(6, "gh", 8, 2)])
    assert not needs_another_pass(Reading([*first, *second], []), 4)
    reached = verdict([*first, *second], "abcdefgh")
    assert (reached.complete, reached.expected) == (True, 8)


def test_without_a_total_a_walk_that_broke_off_is_not_complete() -> None:
    broken = untold(still("abcdefghij")[:2])
    assert "not every listing page could be read" in verdict(broken, "abcdefgh").reasons


def test_a_total_that_is_less_than_was_shown_is_not_believed() -> None:
    first = [replace(one, total=3) for one in still("abcdefgh")]
    assert needs_another_pass(Reading(first, []), 4)
    second = [page(0, "abcd", 8, 2), page(2, "cdef", 8, 2), page(6, "gh", 8, 2)]
    reached = verdict([*first, *(replace(one, total=3) for one in second)], "abcdefgh")
    assert (reached.complete, reached.expected) == (True, 8)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (
            PageRead(1, 8, PAGE, 8, [], 0),
            "the pages were read to offset 8 and no further: the last 1 of them brought nothing new, though that one "
            "names a next",
        ),
        (
            PageRead(1, 8, PAGE, 99, list("efgh"), 0, last=True),
            "the pages were read to offset 8 and no further: the last 1 of them brought nothing new, though the site "
            "announces 99 listings",
        ),
        (
            PageRead(1, 8, PAGE, 99, list("ijkl"), 0),
            "the pages were read to offset 8 and no further: CARS_MAX_LISTINGS is 12, though that one names a next",
        ),
    ],
)
def test_a_walk_that_was_ended_is_not_complete_and_names_the_page(tail: PageRead, reason: str) -> None:
    pages = [*(replace(one, total=tail.total) for one in still("abcdefgh")), tail]
    reached = verdict(pages, "abcdefghijkl", most=12)
    assert reached.reasons == [reason]
    if "MAX" not in reason:
        assert not needs_another_pass(Reading(pages, []), 4)


@st.composite
def crawls(draw: st.DrawFn) -> tuple[list[PageRead], set[int], set[int]]:
    """A crawl of a catalogue that moves between any two pages, for as many passes as it calls for.

    Newest come first; every second pass is half a page off; a featured listing comes in front of some pages
    again. Returns the pages read, the listings seen, and those that lived through the whole crawl.
    """
    catalogue = list(range(draw(st.integers(0, 14)), 0, -1))
    newest, lived = len(catalogue), set(catalogue)
    pages: list[PageRead] = []
    seen: set[int] = set()
    for pass_number in range(1, draw(st.integers(1, 4)) + 1):
        if pass_number > 1 and not needs_another_pass(Reading(pages, []), 9):
            break
        at, end = 0, len(catalogue)
        while at == 0 or at < max(end, pages[-1].total):
            ids, total = catalogue[at : at + PAGE], len(catalogue)
            featured = draw(st.lists(st.sampled_from(catalogue), max_size=1)) if catalogue else []
            shown = [*(one for one in featured if one not in ids), *ids]
            step = PAGE if at + PAGE < total else max(len(shown), 1)
            pages.append(
                PageRead(
                    pass_number, at, step, total, [str(one) for one in shown], 0, last=at + PAGE >= total
                )
            )
            seen.update(shown)
            at += PAGE if at or pass_number % 2 else PAGE // 2
            for _ in range(draw(st.integers(0, 2))):
                if draw(st.booleans()) or not catalogue:
                    newest += 1
                    catalogue.insert(0, newest)
                else:
                    lived.discard(catalogue.pop(draw(st.integers(0, len(catalogue) - 1))))
    return pages, seen, lived


@given(crawls())
@settings(max_examples=1500, deadline=None)
def test_complete_means_that_all_who_lived_through_it_are_there(
    crawl: tuple[list[PageRead], set[int], set[int]],
) -> None:
    pages, seen, lived = crawl
    reached = reach_verdict(Reading(pages, []), {str(one) for one in seen}, 0, [])
    assert not (reached.complete and lived - seen), (pages, lived - seen)


@given(crawls())
@settings(max_examples=1500, deadline=None)
def test_without_a_total_complete_means_the_same(crawl: tuple[list[PageRead], set[int], set[int]]) -> None:
    pages, seen, lived = crawl
    reached = reach_verdict(Reading(untold(pages), []), {str(one) for one in seen}, 0, [])
    assert not (reached.complete and lived - seen), (pages, lived - seen)


@given(crawls(), st.data())
@settings(max_examples=300, deadline=None)
def test_complete_means_that_all_who_were_seen_were_kept(
    crawl: tuple[list[PageRead], set[int], set[int]], data: st.DataObject
) -> None:
    pages, seen, _ = crawl
    lost = data.draw(st.sets(st.sampled_from(sorted(seen)), min_size=1)) if seen else set()
    reached = reach_verdict(Reading(pages, []), {str(one) for one in seen - lost}, 0, [])
    assert reached.complete <= (not lost)
    assert set(reached.missing) == {str(one) for one in lost}
