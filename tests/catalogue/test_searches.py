"""Two searches never share a name on disk, and every name is readable, safe and short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.catalogue.searches import EVERYTHING, Search
from scrapy_durable.exceptions import ConfigurationError

OUT = Path("/data")
SITE = "https://api.cars.co.za/fw/public"


def name(**arguments: str) -> str:
    directory = Search.from_arguments(arguments).directory(OUT)
    assert directory.parent == OUT / "searches"
    return directory.name


@pytest.mark.parametrize(
    ("arguments", "words", "directory"),
    [
        ({"make": "Toyota", "limit": "50"}, "make=Toyota limit=50", "make=Toyota,limit=50"),
        ({"limit": "50", "make": " Toyota "}, "make=Toyota limit=50", "make=Toyota,limit=50"),
        ({"year": "2015", "limit": "007"}, "year=2015-2015 limit=7", "year=2015-2015,limit=7"),
        (
            {"province": "western cape", "_job": "6f1"},
            "province='Western Cape'",
            "province=Western_Cape",
        ),
    ],
)
def test_a_search_is_named_by_its_arguments_however_they_are_written(
    arguments: dict[str, str], words: str, directory: str
) -> None:
    search = Search.from_arguments(arguments)
    assert search.words == words
    assert search.identity(SITE) == f"{SITE} {words}"
    assert name(**arguments) == directory


def test_the_whole_catalogue_is_in_the_output_directory_itself() -> None:
    assert Search.from_arguments({}) == EVERYTHING
    assert EVERYTHING.directory(OUT) == OUT
    assert EVERYTHING.identity(SITE) == SITE


@pytest.mark.parametrize(
    "keyword", ["../../etc/passwd", ".", "a/b", "Citroën", "a,limit=1", "a_b", "x" * 100, "~", "-rf *"]
)
def test_what_a_file_system_or_a_reader_would_trip_over_is_replaced(keyword: str) -> None:
    assert re.fullmatch(r"keyword=[A-Za-z0-9._+-]{1,92}(~[0-9a-f]{10})?", name(keyword=keyword))


def test_a_name_that_had_to_be_altered_is_no_other_searchs() -> None:
    words = ["a b", "a_b", "a/b", "a-b", "a%b", "a,b", "ä b", "y" * 100, "y" * 99 + "z"]
    assert len({name(keyword=word) for word in words}) == len(words)


WORD = st.text(st.sampled_from("aA0 _-.+,=~/'ä"), min_size=1, max_size=12).filter(lambda text: text.strip())
SEARCHES = st.builds(
    lambda make, keyword, limit: Search.from_arguments(
        {
            key: value
            for key, value in (("make", make), ("keyword", keyword), ("limit", limit))
            if value is not None
        }
    ),
    st.none() | WORD,
    st.none() | WORD,
    st.none() | st.integers(1, 12).map(str),
)


@given(SEARCHES, SEARCHES)
def test_different_searches_have_different_names_and_identities(one: Search, other: Search) -> None:
    assert (one == other) == (one.directory(OUT) == other.directory(OUT))
    assert (one == other) == (one.identity(SITE) == other.identity(SITE))


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "1000000000"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="limit="):
        Search.from_arguments({"limit": text})
