"""What a crawl keeps comes back from its item logs as it was, and what is erased leaves nothing but its length."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.items import Car, OddSpec, PageRead, SetAside
from carscraper.output.entries import decode, encode, encode_car, erased, line_begin, listing_in, replaced

TEXTS = [
    "",
    "Škoda 🚗 \u2028",
    'a "quoted" \\ \n\t\x00 end',
    '","car_specs":[]}',
    '{"id":"2","car_specs":null}',
    'P["carscraper.items:Car",',
]
"""Some that look like what stands around them."""
SPECS: list[Any] = [
    None,
    [],
    [{"title": "Summary", "attrs": [{"label": "Doors", "value": "4"}]}],
    *([{"title": text, "attrs": []}] for text in TEXTS),
]


def car(listing: str = "1", specs: Any = None, **attrs: Any) -> Car:
    return Car(
        id=listing,
        url="https://x.y/1",
        scraped_at="2026-11-20T10:15:00.000Z",
        car_attrs=attrs,
        car_specs=specs,
    )


def json_of(entry: bytes) -> Any:
    return orjson.loads(entry[line_begin(entry, 0, len(entry)) :])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("specs", SPECS)
def test_a_record_comes_back_as_it_was(text: str, specs: Any) -> None:
    kept = car(specs=specs, title=text, car_specs=text, nested={"car_specs": [text, None]})
    entry = encode_car(kept)
    assert decode(entry) == kept
    assert listing_in(entry, 0, len(entry)) == "1"
    assert json_of(entry) == {
        "id": "1",
        "url": kept.url,
        "scraped_at": kept.scraped_at,
        "car_attrs": kept.car_attrs,
        "car_specs": specs,
    }


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@given(
    attrs=st.dictionaries(st.sampled_from(["car_specs", "id", "scraped_at", "x"]), json), specs=st.lists(json)
)
def test_whatever_json_can_hold_comes_back(attrs: dict[str, Any], specs: list[Any]) -> None:
    kept = car(specs=specs)
    kept.car_attrs = attrs
    assert decode(encode_car(kept)) == kept


def test_the_json_of_a_record_is_on_one_line_and_the_last_of_it() -> None:
    entry = encode_car(car(title="a\nb"))
    assert b"\n" not in entry[line_begin(entry, 0, len(entry)) :]


@pytest.mark.parametrize("value", [object(), "\ud800", 1 << 70, {1: 2}])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    for refused in (car(title=value), car(specs=[{"title": value}])):
        with pytest.raises(orjson.JSONEncodeError):
            encode_car(refused)


def test_a_record_is_found_by_its_place_among_others() -> None:
    first, second = encode_car(car("1")), encode_car(car("23"))
    content = b"before" + first + b"between" + second
    begin = content.index(second)
    assert listing_in(content, begin, begin + len(second)) == "23"


LEDGER: list[PageRead | OddSpec | SetAside] = [
    PageRead(1, 20, 20, None, ["1", "Š"], 2, deviations={"a": 1}),
    OddSpec("a+b/2020", {"a": 1}),
    SetAside("https://x.y/1", "data[3].attributes.year", "is 'old'", "1"),
    SetAside("https://x.y/1", "", "no JSON", None),
]


@pytest.mark.parametrize("item", LEDGER)
def test_the_ledger_comes_back_as_it_was_and_is_no_record(item: PageRead | OddSpec | SetAside) -> None:
    entry = encode(item)
    assert decode(entry) == item
    assert listing_in(entry, 0, len(entry)) is None


def test_an_erased_record_is_as_long_as_it_was_and_no_record_any_more() -> None:
    entry = encode_car(car(title="secret"))
    gone = erased(entry)
    assert len(gone) == len(entry)
    assert gone.strip() == b"null"
    assert decode(gone) is None
    assert listing_in(gone, 0, len(gone)) is None


def test_what_takes_the_place_of_an_entry_is_as_long_and_the_first_that_fits() -> None:
    long, short = (SetAside("u", "", problem, "1") for problem in ("a long reason", ""))
    wide, narrow = encode(SetAside("u", "", "x" * 30, "1")), encode(SetAside("u", "", "x", "1"))
    for entry, expected in ((wide, long), (narrow, short)):
        text = replaced(entry, long, short)
        assert len(text) == len(entry)
        assert decode(text) == expected
    with pytest.raises(ValueError, match="3 bytes are too short"):
        replaced(b"abc", long, short)


def test_a_record_that_does_not_begin_as_ours_is_refused_by_its_beginning() -> None:
    entry = encode_car(car()).replace(b'{"id":', b'{"ID":')
    with pytest.raises(ValueError, match=r'not a record of ours: b.\{"ID":"1"'):
        listing_in(entry, 0, len(entry))
