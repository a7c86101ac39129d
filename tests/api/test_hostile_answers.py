"""Whatever a server sends, parsing ends in a model or an `ApiError`, never in another exception."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.api.search_page import SearchPage, parse_search_page
from carscraper.api.specs import Specs, parse_specs
from carscraper.exceptions import ApiError
from tests.api.samples import listing, page, specs

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["data", "\ud800", "2017", 2017, "../..", 10**400]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

PARSERS = pytest.mark.parametrize(("parse", "model"), [(parse_search_page, SearchPage), (parse_specs, Specs)])


def places(value, path=()):
    """The path to every value inside."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


def full_page():
    content = page(listing(1), listing(2))
    content["meta"]["featured_listings"] = {"data": [listing(3)]}
    return content


@st.composite
def mutations(draw, original):
    """The original with up to three values replaced, dropped, renamed or doubled."""
    value = deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(value))))
        if not path:
            return draw(VALUES)
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        change = draw(st.sampled_from(["replace", "drop", "rename", "double"]))
        if change == "replace":
            holder[path[-1]] = draw(VALUES)
        elif change == "drop":
            del holder[path[-1]]
        elif isinstance(holder, list):
            holder.append(deepcopy(holder[path[-1]]))
        else:
            holder[draw(st.text(max_size=8))] = holder[path[-1]]
            if change == "rename":
                holder.pop(path[-1], None)
    return value


def only_api_errors(parse, model, answer):
    try:
        outcome = parse(answer)
    except ApiError as error:
        outcome = error
    assert isinstance(outcome, model | ApiError)
    assert "\n" not in str(outcome) or isinstance(outcome, model)


@PARSERS
@given(answer=st.binary())
def test_random_bytes(parse, model, answer):
    only_api_errors(parse, model, answer)


@PARSERS
@given(value=VALUES)
def test_random_json(parse, model, value):
    only_api_errors(parse, model, json.dumps(value).encode())


@given(value=mutations(full_page()))
def test_mutated_pages(value):
    only_api_errors(parse_search_page, SearchPage, json.dumps(value).encode())


@given(value=mutations(specs()))
def test_mutated_specs(value):
    only_api_errors(parse_specs, Specs, json.dumps(value).encode())


@PARSERS
def test_every_cut_of_a_good_answer(parse, model):
    whole = json.dumps(specs() if model is Specs else page(listing(1))).encode()
    for length in range(len(whole)):
        with pytest.raises(ApiError):
            parse(whole[:length])


@given(entries=st.lists(st.one_of(st.just(listing(1)), VALUES, mutations(listing(2))), max_size=6))
def test_every_entry_of_a_page_comes_out_as_a_listing_or_a_reject(entries):
    try:
        answer = json.dumps(page(*entries), allow_nan=False).encode()
        parsed = parse_search_page(answer)
    except (ValueError, ApiError):  # what JSON itself cannot hold
        return
    assert len(parsed.listings) + len(parsed.rejected) == len(entries)
    assert len({reject.path.split("]")[0] for reject in parsed.rejected}) == len(parsed.rejected)
