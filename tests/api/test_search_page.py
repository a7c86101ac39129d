import pytest

from carscraper.api.deviations import MOST_PATHS, add, departures
from carscraper.api.endpoints import spec_url
from carscraper.api.search_page import ATTRIBUTE_TYPES, parse_search_page
from carscraper.exceptions import ApiError
from tests.api.samples import body, listing, page

IMAGE = listing()["attributes"]["image"]


def new_fields(parsed):
    return {path for path, found in parsed.deviations.items() if "new field" in found["types"]}


def test_a_page_holds_meta_links_and_listings():
    parsed = parse_search_page(body(page(listing(1), listing(2))))
    assert (parsed.meta.total, parsed.meta.total_pages, parsed.meta.current_page) == (71290, 3564, 0)
    assert parsed.links.self.endswith("=0")
    assert parsed.links.next.endswith("=20")
    assert parsed.links.prev is None
    assert [(one.id, one.code, one.year) for one in parsed.listings] == [
        ("1", "pJyZp5uopZ0=", 2017),
        ("2", "pJyZp5uopZ0=", 2017),
    ]
    assert parsed.listings[0].url.endswith("/1/")
    assert parsed.listings[0].attributes == listing(1)["attributes"]
    assert not parsed.rejected
    assert not parsed.featured
    assert not [path for path in parsed.deviations if parsed.deviations[path]["types"].keys() != {"missing"}]


def test_an_empty_page_is_a_page():
    assert parse_search_page(body(page(total=0))).listings == ()


def test_only_id_code_and_year_must_be_there():
    bare = {"id": "7", "attributes": {"code": "ab", "year": 2020}}
    (found,) = parse_search_page(body(page(bare))).listings
    assert (found.id, found.url) == ("7", "")


@pytest.mark.parametrize(
    "name",
    ["agent_locality", "colour", "fuel_type", "mileage", "province", "price", "transmission", "website_url"],
)
def test_what_may_be_null_may_be_null(name):
    parsed = parse_search_page(body(page(listing(1, **{name: None}))))
    assert parsed.listings[0].attributes[name] is None
    assert not parsed.rejected


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"code": ""}, "code"),
        ({"code": ".."}, "code"),
        ({"code": None}, "code"),
        ({"code": 12.0}, "code"),
        ({"code": "a\nb"}, "code"),
        ({"year": "17"}, "year"),
        ({"year": "2017a"}, "year"),
        ({"year": 2017.5}, "year"),
        ({"year": True}, "year"),
        ({"year": 20170}, "year"),
    ],
)
def test_a_listing_whose_key_cannot_be_used_is_rejected_with_its_path_and_its_neighbours_stay(change, path):
    parsed = parse_search_page(body(page(listing(1), listing(2, **change), listing(3))))
    assert [one.id for one in parsed.listings] == ["1", "3"]
    (reject,) = parsed.rejected
    assert (reject.id, reject.path) == ("2", f"data[1].attributes.{path}")
    assert "\n" not in reject.problem


@pytest.mark.parametrize(
    ("changes", "path", "kind"),
    [
        ({"year": "2017"}, "attributes.year", "string"),
        ({"year": 2017.0}, "attributes.year", "number"),
        ({"code": 123}, "attributes.code", "integer"),
        ({"title": None}, "attributes.title", "null"),
        ({"price": "R 1"}, "attributes.price", "string"),
        ({"price": True}, "attributes.price", "boolean"),
        ({"mileage": 0}, "attributes.mileage", "integer"),
        ({"image": []}, "attributes.image", "array"),
        ({"image": {**IMAGE, "version": "1"}}, "attributes.image.version", "string"),
        ({"seller_types": "Dealer"}, "attributes.seller_types", "string"),
        ({"seller_types": ["a", None]}, "attributes.seller_types[]", "null"),
        ({"website_url": 5}, "attributes.website_url", "integer"),
        ({"turbo": {"a": 1}}, "attributes.turbo", "new field"),
    ],
)
def test_what_departs_from_the_known_shape_is_kept_as_it_came_and_counted(changes, path, kind):
    parsed = parse_search_page(body(page(listing(1), listing(2, **changes), listing(3, **changes))))
    assert not parsed.rejected
    assert parsed.listings[1].attributes == listing(2, **changes)["attributes"]
    assert parsed.deviations[f"data[].{path}"]["types"] == {kind: 2}
    assert parsed.deviations[f"data[].{path}"]["count"] == 2


def test_needed_values_are_coerced_where_nothing_is_lost():
    entry = {**listing(2, code=55, year="2017"), "id": 123}
    (found,) = parse_search_page(body(page(entry))).listings
    assert (found.id, found.code, found.year) == ("123", "55", 2017)
    assert (found.attributes["code"], found.attributes["year"]) == (55, "2017")


@pytest.mark.parametrize("name", ["code", "year"])
def test_a_listing_without_its_key_is_set_aside(name):
    broken = listing(2)
    del broken["attributes"][name]
    (reject,) = parse_search_page(body(page(listing(1), broken))).rejected
    assert (reject.id, reject.path, reject.problem) == ("2", f"data[1].attributes.{name}", "is missing")


@pytest.mark.parametrize("bad", [5.5, True, None, "", "a b", "../x", "x" * 65, "1\n", ["1"]])
def test_an_id_is_never_guessed(bad):
    (reject,) = parse_search_page(body(page({**listing(1), "id": bad}))).rejected
    assert (reject.id, reject.path) == (None, "data[0].id")


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (None, "data[0]"),
        ([], "data[0]"),
        ("x", "data[0]"),
        ({}, "data[0].id"),
        ({"id": "1"}, "data[0].attributes"),
        ({"id": "1", "attributes": []}, "data[0].attributes"),
        ({"id": "1", "attributes": {}}, "data[0].attributes.code"),
    ],
)
def test_an_entry_of_another_shape_is_set_aside(entry, path):
    (reject,) = parse_search_page(body(page(entry))).rejected
    assert reject.path == path


@pytest.mark.parametrize("value", [True, [1], {"a": [None]}, -1.5, "x" * 5_000])
def test_no_value_of_an_optional_attribute_costs_the_listing(value):
    changes = {name: value for name in ATTRIBUTE_TYPES if name not in ("code", "year")}
    parsed = parse_search_page(body(page(listing(1, **changes))))
    assert not parsed.rejected
    for name in changes:
        known = type(value) in ATTRIBUTE_TYPES[name]
        assert known or f"data[].attributes.{name}" in parsed.deviations, name
    assert all(len(str(one["example"])) < 100 for one in parsed.deviations.values())


def test_a_listing_that_departs_among_many_that_do_not_is_counted_each_time():
    usual = {**dict.fromkeys(ATTRIBUTE_TYPES, "text"), **listing()["attributes"], "image": IMAGE}
    usual |= dict.fromkeys(("agent_coords_0_coord", "agent_coords_1_coord", "monthly_price"), 1.5)
    same = [{"id": str(number), "type": "vehicle", "attributes": usual} for number in range(3)]
    odd = [
        {"id": "a", "type": "vehicle", "attributes": {**usual, "make": 5}},
        {"id": "b", "type": "vehicle", "attributes": {**usual, "new": "x"}},
        {"id": "c", "type": "vehicle", "attributes": {**usual, "image": {**IMAGE, "count": "many"}}},
        {"id": "d", "type": "vehicle", "attributes": {**usual, "image": usual}},
        {"id": "e", "type": "vehicle", "attributes": {**usual, "seller_types": [1]}},
    ]
    for _ in range(2):
        assert not parse_search_page(body(page(*same))).deviations
        for one in odd:
            assert parse_search_page(body(page(*same, one))).deviations, one["id"]


def test_an_attribute_that_is_missing_is_counted():
    bare = {"type": "vehicle", "id": "7", "attributes": {"code": "ab", "year": 2020}}
    deviations = parse_search_page(body(page(bare))).deviations
    assert {path.rpartition(".")[2] for path in deviations} >= ATTRIBUTE_TYPES.keys() - {"code", "year"}
    assert {kind for one in deviations.values() for kind in one["types"]} == {"missing"}


def test_only_some_attributes_may_be_missing_without_a_change_of_the_api():
    bare = listing(1)
    del bare["attributes"]["colour"]
    odd = list(departures(parse_search_page(body(page(bare))).deviations))
    assert "data[].attributes.colour: missing" in odd
    assert not [words for words in odd if "options" in words]


def test_no_more_paths_than_a_bound_are_counted_apart():
    wild = {f"field{number}": number for number in range(1000)}
    deviations = parse_search_page(body(page(listing(1, **wild)))).deviations
    assert len(deviations) == MOST_PATHS + 1
    assert sum(one["types"].get("new field", 0) for one in deviations.values()) == 1000
    add(more := {}, deviations)
    add(more, deviations)
    assert len(more) == MOST_PATHS + 1
    assert sum(one["count"] for one in more.values()) == 2 * sum(one["count"] for one in deviations.values())


def test_unknown_fields_are_named_without_positions_and_change_nothing():
    content = page(listing(1, sunroof="yes"), listing(2, sunroof="no", image={"count": 1, "blur": "x"}))
    content["jsonapi"] = {}
    content["meta"]["took"] = 5
    content["links"]["related"] = "x"
    content["data"][0]["relationships"] = {}
    parsed = parse_search_page(body(content))
    assert len(parsed.listings) == 2
    assert new_fields(parsed) == {
        "jsonapi",
        "meta.took",
        "links.related",
        "data[].relationships",
        "data[].attributes.sunroof",
        "data[].attributes.image.blur",
    }


def test_the_name_of_an_unknown_field_cannot_forge_a_log_line():
    (name,) = new_fields(parse_search_page(body(page(listing(1, **{"x\r\nERROR": 1})))))
    assert "\n" not in name


def test_featured_listings_are_parsed_like_the_others():
    content = page(listing(1))
    content["meta"]["featured_listings"] = {"data": [listing(2), listing(3, year="x"), listing(4, turbo=1)]}
    parsed = parse_search_page(body(content))
    assert [one.id for one in parsed.featured] == ["2", "4"]
    assert [(one.id, one.path) for one in parsed.featured_rejected] == [
        ("3", "meta.featured_listings.data[1].attributes.year")
    ]
    assert new_fields(parsed) == {"meta.featured_listings.data[].attributes.turbo"}


@pytest.mark.parametrize("empty", [None, [], {"data": []}])
def test_there_may_be_no_featured_listings(empty):
    content = page(listing(1))
    content["meta"]["featured_listings"] = empty
    assert parse_search_page(body(content)).featured == ()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"meta": None}, "meta"),
        ({"meta": {}}, "meta.total"),
        ({"meta": {"total": "5"}}, "meta.total"),
        ({"meta": {"total": 5, "totalPages": "1"}}, "meta.totalPages"),
        ({"meta": {"total": 5, "currentPage": -1}}, "meta.currentPage"),
        ({"meta": {"total": 5, "featured_listings": 1}}, "meta.featured_listings"),
        ({"meta": {"total": 5, "featured_listings": {}}}, "meta.featured_listings.data"),
        ({"links": []}, "links"),
        ({"links": {}}, "links.self"),
        ({"links": {"self": 5}}, "links.self"),
        ({"links": {"self": "x", "next": 20}}, "links.next"),
        ({"links": {"self": "x", "next": ""}}, "links.next"),
    ],
)
def test_an_odd_envelope_costs_nothing_and_is_counted(change, path):
    parsed = parse_search_page(body({**page(listing(1)), **change}))
    assert [one.id for one in parsed.listings] == ["1"]
    assert path in parsed.deviations


@pytest.mark.parametrize("data", [None, {}, "x", 5])
def test_a_page_without_a_list_of_listings_is_refused_with_its_path(data):
    with pytest.raises(ApiError) as refusal:
        parse_search_page(body({**page(), "data": data}))
    assert refusal.value.path == "data"


@pytest.mark.parametrize(
    ("meta", "total"),
    [
        ({}, None),
        ({"total": None}, None),
        ({"total": -1}, None),
        ({"total": True}, None),
        ({"total": 5.5}, None),
        ({"total": "many"}, None),
        ({"total": "5"}, 5),
        ({"total": 5}, 5),
    ],
)
def test_a_total_is_read_from_text_too_and_one_that_is_unusable_is_none(meta, total):
    assert parse_search_page(body({**page(listing(1)), "meta": meta})).meta.total == total


def test_a_page_that_lacks_its_listings_says_so():
    content = page(listing(1))
    del content["data"]
    with pytest.raises(ApiError, match="missing") as refusal:
        parse_search_page(body(content))
    assert refusal.value.path == "data"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><title>Just a moment", "<!DOCTYPE"),
        (b"[]", "a list, not an object"),
        (b"null", "null"),
        (b"\xef\xbb\xbf" + body(page()), "byte order mark"),
        (body(page())[:-9], "not JSON"),
        (b'{"meta": NaN}', "not JSON"),
        (b'{"meta": {"total": 1e999}, "a": NaN}', "not JSON"),
        (b'{"meta": {"total": 1e999}, "a": 1-2}', "not JSON"),
        (b'{"a": "\\ud800"}', "surrogate"),
        ('{"a": "é"}'.encode("latin-1"), "UTF-8"),
        (b"[" * 100_000, "depth"),
    ],
)
def test_a_body_that_is_not_a_json_object_says_what_it_is(answer, said):
    with pytest.raises(ApiError, match=said) as refusal:
        parse_search_page(answer)
    assert refusal.value.path == ""
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("number", ["1e999", "-1E+999", "9" * 400, "-" + "9" * 5000])
def test_a_number_that_is_no_float_is_read_as_its_text_and_costs_its_field(number: str) -> None:
    odd = listing(2, price=-424242, title='"1e999" and \\')
    answer = body(page(listing(1, price=5), odd)).replace(b"-424242", number.encode())
    read = parse_search_page(answer)
    assert [one.id for one in read.listings] == ["1", "2"]
    assert read.listings[1].attributes["price"] == number
    assert read.listings[1].attributes["title"] == odd["attributes"]["title"]
    assert read.listings[0].attributes["price"] == 5


def test_a_number_that_is_no_float_where_one_is_needed_rejects_that_listing_alone() -> None:
    answer = body(page(listing(1), listing(2, year=-424242))).replace(b"-424242", b"1e999")
    read = parse_search_page(answer)
    assert [one.id for one in read.listings] == ["1"]
    assert [one.path for one in read.rejected] == ["data[1].attributes.year"]


def test_every_listing_that_passes_can_be_asked_for_its_specification():
    for one in parse_search_page(body(page(listing(1), listing(2, code="a+/=")))).listings:
        assert spec_url("https://h", one.code, one.year)
