"""Packed and numbered ids, and texts on disk, say the same as sets and dictionaries of all of them would."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.catalogue import ids as module
from carscraper.catalogue.ids import Holders, PackedIds, lacking, numbered
from carscraper.distinct import Distinct

IDS = st.lists(st.text("abc_-9", min_size=1, max_size=2), max_size=12)
GROUPS = st.lists(IDS, max_size=6)


@pytest.fixture(autouse=True, params=[1, 3, 1 << 17])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In many parts, in few, in one."""
    monkeypatch.setattr(module, "_AT_ONCE", request.param)
    monkeypatch.setattr(module, "_IN_A_TEXT", request.param)


@given(GROUPS)
def test_packed_ids_are_those_that_were_added_in_their_order(groups: list[list[str]]) -> None:
    packed = PackedIds(groups[0] if groups else [])
    for ids in groups[1:]:
        packed.extend(ids)
    listed = [listing for ids in groups for listing in ids]
    assert (list(packed), len(packed)) == (listed, len(listed))
    assert all(listing in packed for listing in listed)
    again = PackedIds.from_texts(packed.texts)
    assert (list(again), len(again)) == (listed, len(listed))
    assert "no" not in packed


@given(GROUPS)
def test_the_same_id_has_the_same_number_wherever_it_is(groups: list[list[str]]) -> None:
    numbers, count = numbered([PackedIds(ids) for ids in groups])
    pairs = {
        (listing, number)
        for ids, own in zip(groups, numbers, strict=True)
        for listing, number in zip(ids, own, strict=True)
    }
    different = {listing for ids in groups for listing in ids}
    assert len(pairs) == count == len(different)
    assert {number for _, number in pairs} == set(range(count))


@given(GROUPS, IDS)
def test_what_is_lacking_is_what_a_set_would_not_hold(groups: list[list[str]], kept: list[str]) -> None:
    assert lacking(groups, PackedIds(kept)) == {one for ids in groups for one in ids} - set(kept)


@given(GROUPS)
def test_groups_share_as_many_ids_as_their_sets_have_in_common(groups: list[list[str]]) -> None:
    holders = Holders(groups)
    for number, ids in enumerate(groups):
        common = {other: len(set(ids).intersection(listed)) for other, listed in enumerate(groups)}
        assert Counter(holders.sharing(number)) == Counter(common)


@given(GROUPS)
def test_of_texts_that_come_again_only_the_first_is_new(rounds: list[list[str]]) -> None:
    distinct, before = Distinct(), set[str]()
    for texts in rounds:
        assert distinct.add(texts) == list(dict.fromkeys(text for text in texts if text not in before))
        before.update(texts)
        assert len(distinct) == len(before)
