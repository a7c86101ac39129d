"""The catalogue has the shape, the oddities and the proportions of the API's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from statistics import mean
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from carscraper.demo.catalogue import Catalogue
from carscraper.demo.search import BadSearchError

BASE = "http://site/fw/public"
FEATURED = [("include_featured", "true"), ("sort[date]", "desc")]


def ids_of(page: dict[str, Any]) -> list[str]:
    return [listing["id"] for listing in page["data"]]


def test_same_seed_gives_the_same_bytes_in_another_process() -> None:
    program = (
        "import json; from carscraper.demo.catalogue import Catalogue; c = Catalogue(500, seed=7)\n"
        "page = c.page(480, 20, '', [('include_featured', 'true')])\n"
        "print(json.dumps([page, [c.spec(*key) for key in sorted(c.keys)]]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=30,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_another_seed_gives_another_catalogue() -> None:
    assert Catalogue(50, seed=1).ids != Catalogue(50, seed=2).ids


def test_pages_cover_every_listing_once_newest_first() -> None:
    catalogue = Catalogue(107)
    read = [listing for offset in range(0, 107, 20) for listing in ids_of(catalogue.page(offset, 20, BASE))]
    assert read == catalogue.ids
    assert len(set(read)) == 107
    assert [int(listing) for listing in read] == sorted(map(int, read), reverse=True)


def test_meta_floors_the_pages_and_counts_from_zero() -> None:
    meta = Catalogue(107).page(40, 20, BASE)["meta"]
    assert (meta["total"], meta["totalPages"], meta["currentPage"]) == (107, 5, 2)


def test_links_are_absolute_quoted_and_as_odd_as_the_sites() -> None:
    catalogue = Catalogue(107)
    first, middle, last = (catalogue.page(offset, 20, BASE, FEATURED)["links"] for offset in (0, 40, 100))
    assert list(first) == ["self", "next", "last"]
    assert list(middle) == ["self", "first", "prev", "next", "last"]
    assert list(last) == ["self", "first", "prev", "last"]
    assert middle["next"] == (
        f"{BASE}/v3/vehicle?page%5Boffset%5D=60&page%5Blimit%5D=20&include_featured=true&sort%5Bdate%5D=desc"
    )
    assert parse_qs(urlsplit(middle["prev"]).query)["page[offset]"] == ["20"]
    assert parse_qs(urlsplit(middle["last"]).query)["page[offset]"] == ["87"]


def test_a_page_behind_the_end_is_empty() -> None:
    page = Catalogue(107).page(120, 20, BASE, FEATURED)
    assert page["data"] == []
    assert "next" not in page["links"]


def test_featured_listings_come_in_addition_on_pages_that_are_not_theirs() -> None:
    catalogue = Catalogue(1_000)
    alive = catalogue.ids
    extra = 0
    for offset in range(0, 1_000, 100):
        ids = ids_of(catalogue.page(offset, 100, BASE, FEATURED))
        assert [listing for listing in ids if listing in alive[offset : offset + 100]] == alive[
            offset : offset + 100
        ]
        assert len(ids) == len(set(ids))
        assert set(ids) <= set(alive)
        extra += len(ids) - 100
    assert extra > 10
    assert catalogue.page(0, 100, BASE, FEATURED)["meta"]["featured_listings"]["data"]
    assert len(catalogue.page(0, 100, BASE)["data"]) == 100


DECLARED: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("agent_coords_0_coord", "agent_coords_1_coord", "monthly_price"), (int, float)),
    **dict.fromkeys(
        (
            *("agent_featured", "agent_name", "agent_vin_required", "body_type", "body_type_code", "code"),
            *("commercial_type", "condition", "description", "make", "model", "new_or_used", "options"),
            *("reference", "search_type", "seats", "seller_type", "title", "variant", "variant_short"),
            *("vehicle_axle_config", "website_url"),
        ),
        (str,),
    ),
    **dict.fromkeys(
        ("agent_locality", "colour", "fuel_type", "mileage", "province", "transmission"), (str, type(None))
    ),
    "price": (int, float, type(None)),
    "year": (int,),
    "image": (dict,),
    "seller_types": (list,),
}


def test_every_attribute_has_its_declared_type_and_some_are_null_or_missing() -> None:
    catalogue = Catalogue(3_000)
    rows = [row for offset in range(0, 3_000, 100) for row in catalogue.page(offset, 100, BASE)["data"]]
    missing: Counter[str] = Counter()
    null: Counter[str] = Counter()
    for row in rows:
        attributes = row["attributes"]
        assert row["type"] == "vehicle"
        assert attributes.keys() <= DECLARED.keys()
        for name, kinds in DECLARED.items():
            if name not in attributes:
                missing[name] += 1
            else:
                assert isinstance(attributes[name], kinds), name
                null[name] += attributes[name] is None
        assert re.fullmatch(r"(\d{1,3}( \d{3})* Km)?", attributes["mileage"] or "")
        assert attributes["website_url"].endswith(f"/{row['id']}/")
    assert missing
    assert not missing.keys() & {"code", "year", "title", "price"}
    assert {name for name, count in null.items() if count} == {
        name for name, kinds in DECLARED.items() if type(None) in kinds
    }
    assert 1_300 < mean(len(json.dumps(row, ensure_ascii=False)) for row in rows) < 1_800


def test_the_whole_catalogue_shares_some_14_231_specs_with_a_long_tail() -> None:
    catalogue = Catalogue(71_290)
    assert catalogue.total == 71_290
    assert len(catalogue.keys) == pytest.approx(14_231, rel=0.03)
    rows = [row for offset in range(0, 12_000, 100) for row in catalogue.page(offset, 100, BASE)["data"]]
    shared = Counter((row["attributes"]["code"], row["attributes"]["year"]) for row in rows)
    assert shared.keys() <= catalogue.keys
    assert max(shared.values()) > 50
    assert sum(count == 1 for count in shared.values()) > 2_000


def test_codes_need_quoting() -> None:
    codes = "".join(code for code, _ in Catalogue(2_000).keys)
    assert set("+/=") <= set(codes)


@pytest.mark.parametrize("listings", [300, 2_000])
def test_specs_are_full_empty_or_missing(listings: int) -> None:
    catalogue = Catalogue(listings)
    answers = [catalogue.spec(*key) for key in catalogue.keys]
    full = [answer for answer in answers if answer and answer["data"] not in ([], [[]])]
    assert None in answers
    assert {"data": [[]]} in answers
    assert {"data": []} in answers
    assert len(full) > 0.9 * len(answers)
    groups = [group for answer in full for group in answer["data"][0]]
    assert {group["title"] for group in groups} > {None, "Engine", "Summary"}
    assert {"n/a", "-", ""} < {attr["value"] for group in groups for attr in group["attrs"]}
    labels = [sum(len(group["attrs"]) for group in answer["data"][0]) for answer in full]
    assert min(labels) >= 40
    assert max(labels) <= 63
    assert 2_400 < mean(len(json.dumps(answer)) for answer in full) < 4_000


def test_a_spec_nobody_sells_is_missing() -> None:
    catalogue = Catalogue(100)
    code, year = max(catalogue.keys)
    assert catalogue.spec("nosuchcode=", year) is None
    assert catalogue.spec(code, year + 50) is None


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        (
            [("make_model_variant[Toyota][Hilux][All]", "")],
            lambda a: (a["make"], a["model"]) == ("Toyota", "Hilux"),
        ),
        ([("make_model_variant[Toyota][All][All]", "")], lambda a: a["make"] == "Toyota"),
        ([("keyword", "toyota auto")], lambda a: "Toyota" in a["title"] and "Auto" in a["title"]),
        ([("province[0]", "Limpopo")], lambda a: a["province"] == "Limpopo"),
        (
            [("province[0]", "Limpopo"), ("province[1]", "Gauteng")],
            lambda a: a["province"] in ("Limpopo", "Gauteng"),
        ),
        ([("year[0]", "2015-2017")], lambda a: 2015 <= a["year"] <= 2017),
        (
            [("price[0]", "100000-200000")],
            lambda a: a["price"] is not None and 100_000 <= a["price"] <= 200_000,
        ),
        (
            [("mileage[0]", "0-50000")],
            lambda a: a["mileage"] is not None and int(a["mileage"][:-3].replace(" ", "")) <= 50_000,
        ),
        (
            [("new_or_used[0]", "New"), ("year[0]", "2025-")],
            lambda a: a["new_or_used"] == "New" and a["year"] == 2025,
        ),
    ],
)
def test_filters_let_through_exactly_what_fits(query: list[tuple[str, str]], fits: Any) -> None:
    catalogue = Catalogue(1_200)
    everything = [row for offset in range(0, 1_200, 100) for row in catalogue.page(offset, 100, BASE)["data"]]
    expected = [row["id"] for row in everything if fits(row["attributes"])]
    page = catalogue.page(0, 1_200, BASE, query)
    assert ids_of(page) == expected
    assert 0 < page["meta"]["total"] == len(expected) < 1_200


def test_links_repeat_the_filters() -> None:
    page = Catalogue(1_200).page(0, 10, BASE, [("province[0]", "Free State"), ("fault", "delay")])
    assert page["links"]["next"].endswith("&province%5B0%5D=Free+State")


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(BadSearchError, match=r"year\[0\]"):
        Catalogue(10).page(0, 10, BASE, [("year[0]", "soon")])


def test_new_listings_come_in_front_and_shift_the_pages() -> None:
    catalogue = Catalogue(100)
    before = catalogue.ids
    added = catalogue.add(3)
    assert catalogue.ids == added + before
    assert ids_of(catalogue.page(20, 20, BASE)) == before[17:37]
    assert Catalogue(100).keys <= catalogue.keys


def test_removed_listings_are_gone_and_shift_the_pages_back() -> None:
    catalogue = Catalogue(100)
    before = catalogue.ids
    assert catalogue.remove(2) == before[:2]
    assert catalogue.remove([before[10], "no such id", before[0]]) == [before[10]]
    assert catalogue.ids == before[2:10] + before[11:]
    assert catalogue.listing(before[10]) is None
    assert catalogue.page(0, 20, BASE)["meta"]["total"] == 97


def test_a_changed_price_shows_wherever_the_listing_does() -> None:
    catalogue = Catalogue(100)
    changed = catalogue.ids[5]
    assert catalogue.change_price(changed, 123_456)
    assert not catalogue.change_price("1", 5)
    listing = catalogue.listing(changed)
    assert listing is not None
    assert listing["attributes"]["price"] == 123_456
    assert catalogue.page(5, 1, BASE)["data"] == [listing]
    assert ids_of(catalogue.page(0, 20, BASE, [("price[0]", "123456-123456")])) == [changed]
