"""The name of a listing page says what it is, and comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.responses.pages import PageName

ARGUMENTS = st.dictionaries(st.text(min_size=1), st.text())


def name(pass_number: int = 1, offset: int = 0, fetched_at: float = 1_800_000_000.0) -> PageName:
    return PageName("20261120T101500Z-abcdef", pass_number, offset, fetched_at, 100, {})


@given(
    st.integers(0, 100),
    st.integers(0, 10**9 - 1),
    st.integers(0, 10**16),
    st.none() | st.integers(0, 10**4),
    ARGUMENTS,
    st.sampled_from(["", "https://api.cars.co.za/fw/public", "http://127.0.0.1:8000"]),
)
def test_any_name_comes_back(
    pass_number: int,
    offset: int,
    microseconds: int,
    total: int | None,
    arguments: dict[str, str],
    origin: str,
) -> None:
    given_name = PageName("crawl", pass_number, offset, microseconds / 1e6, total, arguments, origin)
    found = PageName.parse(given_name.text)
    assert found == given_name
    assert found.text == given_name.text


def test_names_sort_by_pass_then_offset_then_time() -> None:
    ordered = [
        name(pass_number=0, offset=900),
        name(pass_number=1, offset=0, fetched_at=1_800_000_000.5),
        name(pass_number=1, offset=0, fetched_at=1_800_000_000.500001),
        name(pass_number=1, offset=20),
        name(pass_number=1, offset=100),
        name(pass_number=2, offset=0, fetched_at=1_700_000_000.0),
        name(pass_number=10),
    ]
    texts = [page.text for page in ordered]
    assert sorted(set(texts)) == texts


def test_arguments_with_any_characters_stay_on_one_line() -> None:
    spoken = PageName("crawl", 1, 0, 0.0, 0, {"keyword": "a/b?c=d&é\n"})
    assert "\n" not in spoken.text
    assert PageName.parse(spoken.text).arguments == {"keyword": "a/b?c=d&é\n"}


@pytest.mark.parametrize("text", ["", "pJyZp5uopZ0=/2017", "page/crawl/1/0", "page/crawl/x/0/0/0?"])
def test_another_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the name of a listing page"):
        PageName.parse(text)
