"""What is kept of a listing page, which pages follow from it, and which are absent; without any crawl."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.api.endpoints import search_url
from carscraper.catalogue.pages import ListingPage, Walks, read_page, read_specs, time_text
from carscraper.demo.catalogue import Catalogue
from carscraper.exceptions import ApiError
from carscraper.items import PageRead
from tests.api import samples

BASE = "http://site/fw/public"
QUERY = (("include_featured", "true"), ("sort[date]", "desc"))


def address(offset: int, limit: int = 20) -> str:
    return search_url(BASE, offset=offset, limit=limit)


def body_of(catalogue: Catalogue, offset: int, limit: int = 20) -> bytes:
    return orjson.dumps(catalogue.page(offset, limit, BASE, QUERY))


def page_of(catalogue: Catalogue, offset: int, pass_number: int = 1, limit: int | None = None) -> ListingPage:
    return read_page(body_of(catalogue, offset), address(offset), pass_number=pass_number, limit=limit)


def test_an_attribute_that_was_left_out_on_purpose_is_no_deviation() -> None:
    document = Catalogue(20).page(0, 20, BASE, QUERY)
    for listing in document["data"]:
        del listing["attributes"]["agent_name"], listing["attributes"]["colour"]
    body = orjson.dumps(document)
    page = read_page(body, address(0), pass_number=1, limit=None, left_out=("agent_*",))
    assert "data[].attributes.colour" in page.read.deviations
    assert "data[].attributes.agent_name" not in page.read.deviations
    assert (
        "data[].attributes.agent_name"
        in read_page(body, address(0), pass_number=1, limit=None).read.deviations
    )


def test_a_page_names_its_listings_and_keeps_each_once() -> None:
    page = page_of(Catalogue(100), 20)
    assert (page.read.pass_number, page.read.offset, page.read.limit, page.read.total) == (1, 20, 20, 100)
    ids = [listing.id for listing in page.listings]
    assert len(ids) == len(set(ids)) >= 20
    assert set(page.read.ids) <= set(ids)
    assert page.next is not None
    assert page_of(Catalogue(100), 80).next is None


@pytest.mark.parametrize("links", [{}, {"self": 5}, {"self": address(0)}, {"next": "x"}, None])
def test_pages_without_a_next_that_can_be_followed_are_as_far_apart_as_was_asked(links: Any) -> None:
    """Whatever they say of their own place, and however many featured ones they show in front."""
    document = Catalogue(100, 2).page(40, 20, BASE, QUERY)
    document["links"] = links
    page = read_page(orjson.dumps(document), address(40), pass_number=1, limit=None)
    assert (page.read.offset, page.read.limit, page.next) == (40, 20, None)
    assert len(document["data"]) == len(page.read.ids)


def test_another_page_than_the_one_that_was_asked_for_is_no_answer() -> None:
    with pytest.raises(ApiError, match="answers offset 20 instead of 40"):
        read_page(body_of(Catalogue(100), 20), address(40), pass_number=1, limit=None)


@pytest.mark.parametrize("to", [0, 20, 40, 41, 65, 161, 10**6, 10**9 - 1, 10**9, 2**63])
def test_a_next_that_leads_astray_is_not_followed(to: int) -> None:
    document = Catalogue(100).page(40, 20, BASE, QUERY)
    document["links"]["next"] = address(to)
    page = read_page(orjson.dumps(document), address(40), pass_number=1, limit=None)
    assert (page.next, page.astray) == (None, address(to))
    assert (page.read.limit, page.read.last) == (20, False)
    assert len(page.listings) >= 20


@pytest.mark.parametrize("link", ["http://site/", "nonsense", "http://[", address(20) + "&page[offset]=60"])
def test_a_next_that_is_no_page_is_not_followed(link: str) -> None:
    document = Catalogue(100).page(40, 20, BASE, QUERY)
    document["links"]["next"] = link
    page = read_page(orjson.dumps(document), address(40), pass_number=1, limit=None)
    assert (page.next, page.astray, page.read.limit, page.read.last) == (None, link, 20, False)
    document["meta"]["total"] = 60
    assert read_page(orjson.dumps(document), address(40), pass_number=1, limit=None).read.last


def test_pages_are_as_far_apart_as_the_api_itself_counts() -> None:
    for asked in (7, 20, 120, 500):  # it gives 120 at most
        page = read_page(
            body_of(Catalogue(900), 0, min(asked, 120)), address(0, asked), pass_number=1, limit=None
        )
        assert (page.read.limit, page.astray) == (min(asked, 120), None)


def test_a_first_page_without_a_next_one_has_as_many_rows_as_there_are() -> None:
    document = Catalogue(100).page(0, 20, BASE, QUERY)
    del document["links"]["next"], document["meta"]["featured_listings"]
    assert read_page(orjson.dumps(document), address(0), pass_number=1, limit=None).read.limit == 20
    document["data"] = document["data"][:5]
    assert read_page(orjson.dumps(document), address(0), pass_number=1, limit=None).read.limit == 5
    document["data"] = []
    assert read_page(orjson.dumps(document), address(0), pass_number=1, limit=None).read.limit == 20


def test_what_does_not_fit_is_set_aside_and_named() -> None:
    wrong = samples.listing(1, year="17")
    page = read_page(
        samples.body(samples.page(wrong, samples.listing(2))),
        "http://h/?page[offset]=0",
        pass_number=1,
        limit=None,
    )
    [item] = page.set_aside
    assert (item.id, item.path) == ("1", "data[0].attributes.year")
    assert [listing.id for listing in page.listings] == ["2"]
    assert page.read.ids == ["2", "1"]


@pytest.mark.parametrize(("offset", "kept"), [(0, 20), (20, 10), (40, 0)])
def test_a_limit_leaves_out_what_lies_beyond_and_what_is_featured(offset: int, kept: int) -> None:
    assert len(page_of(Catalogue(100), offset, limit=30).listings) == kept


def walk(catalogue: Catalogue, offsets: list[int], pass_number: int = 1, limit: int | None = None) -> Walks:
    walks = Walks(limit=limit, most=10**6)
    for offset in offsets:
        walks.add(page_of(catalogue, offset, pass_number, limit), address(offset))
    return walks


@given(st.integers(0, 150), st.sampled_from([None, 1, 45, 1000]), st.data())
def test_exactly_the_pages_that_are_gone_are_absent(
    total: int, limit: int | None, data: st.DataObject
) -> None:
    """But for the first, without which nobody knows of the others."""
    catalogue = Catalogue(total)
    wanted = list(range(20, min(total, limit or total), 20))
    there = data.draw(st.lists(st.sampled_from(wanted), unique=True)) if wanted else []
    absent = walk(catalogue, [*there, 0], limit=limit).absent()
    assert absent == [f"pass 1, offset {offset}" for offset in wanted if offset not in there]
    assert walk(catalogue, there, limit=limit).absent()[0] == "pass 1, offset 0"


def test_of_a_first_page_that_was_fetched_twice_the_later_one_counts() -> None:
    walks = walk(Catalogue(80), [20, 40, 60])
    walks.add(page_of(Catalogue(90), 0), address(0))
    assert walks.absent() == ["pass 1, offset 80"]
    walks.add(page_of(Catalogue(80), 0), address(0))
    assert walks.absent() == []


def test_a_pass_that_is_not_there_at_all_is_absent() -> None:
    walks = walk(Catalogue(20), [0])
    walks.add(page_of(Catalogue(20), 0, pass_number=3), address(0))
    assert walks.absent() == ["pass 2, offset 0"]


def test_a_pushed_page_is_followed_by_its_next_alone() -> None:
    walks = walk(Catalogue(20), [0])
    pushed = page_of(Catalogue(100), 60, pass_number=0)
    walks.add(pushed, address(60))
    assert walks.absent() == [pushed.next]
    assert pushed.next is not None
    last = read_page(body_of(Catalogue(100), 80), pushed.next, pass_number=0, limit=None)
    walks.add(last, pushed.next)
    assert walks.absent() == []


def test_a_specification_that_the_api_does_not_have_is_empty() -> None:
    nothing, deviations = read_specs(404, b"<html>")
    assert (nothing.groups, nothing.json, deviations) == ([], b"[]", {})
    specification, deviations = read_specs(200, samples.body(samples.specs()))
    assert (specification.groups, deviations) == (samples.specs()["data"][0], {})
    assert json.loads(specification.json) == samples.specs()["data"][0]
    with pytest.raises(ApiError):
        read_specs(200, b"{}")


@given(st.integers(0, 4 * 10**12))
def test_a_time_is_cut_to_milliseconds_and_sorts_as_text(milliseconds: int) -> None:
    text = time_text(milliseconds / 1000 + 0.0005)
    assert text.endswith("Z")
    assert len(text) == len("2026-11-20T10:15:00.123Z")
    found = datetime.fromisoformat(text)
    assert found.tzinfo == UTC
    assert abs(found.timestamp() * 1000 - milliseconds) < 1
    assert time_text(milliseconds / 1000 + 1) > text


def test_a_page_read_is_what_the_verdict_needs() -> None:
    read = page_of(Catalogue(45), 40).read
    assert len(read.specs) == len(set(read.specs)) > 0
    assert read == PageRead(1, 40, read.limit, 45, read.ids, 0, True, 0, read.specs, read.deviations)
