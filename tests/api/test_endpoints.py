from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.api.endpoints import (
    PROVINCES,
    SearchFilters,
    SpecKey,
    check_base_url,
    page_offset,
    search_url,
    spec_url,
    web_url,
)
from carscraper.exceptions import ApiError
from scrapy_durable.exceptions import ConfigurationError

BASE = "https://api.cars.co.za/fw/public"


def test_a_search_url_is_written_as_the_api_writes_its_links():
    assert search_url(BASE, offset=20, limit=20) == (
        f"{BASE}/v3/vehicle?page%5Boffset%5D=20&page%5Blimit%5D=20&include_featured=true&sort%5Bdate%5D=desc"
    )


def test_filters_follow_in_a_fixed_order_so_that_equal_searches_have_equal_urls():
    one = SearchFilters.from_arguments(
        {"make": "Toyota", "model": "Hilux", "year": "2015", "keyword": "4x4 & more"}
    )
    other = SearchFilters.from_arguments(
        {"keyword": "4x4 & more", "year": "2015-2015", "model": "Hilux", "make": "Toyota"}
    )
    url = search_url(BASE, offset=0, limit=100, filters=one)
    assert url == search_url(BASE, offset=0, limit=100, filters=other)
    assert url.endswith(
        "&make_model_variant%5BToyota%5D%5BHilux%5D%5BAll%5D=&year%5B0%5D=2015-2015&keyword=4x4%20%26%20more"
    )


def test_a_base_url_loses_one_trailing_slash():
    assert check_base_url("https://host/fw/") == "https://host/fw"
    assert check_base_url("http://127.0.0.1:8000") == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    "text",
    [
        "nonsense", "", "ftp://host/x", "//host/x", "https://", "https:///x", "http://host:99999", "http://host:0",
        "http://[::1", "http://host/a?b=1", "http://host/a?", "http://host/a#b", "http://host /", "http://ho\nst/",
        "http://hôst/", "http://host\\other/", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_a_base_url_that_cannot_be_one_is_refused_by_name(text):
    with pytest.raises(ConfigurationError) as refusal:
        check_base_url(text)
    assert str(refusal.value).startswith(f"CARS_API_URL={text!r}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["https://me:canary@host/", "me:canary@host", "https://me:cana/canary@host"])
def test_a_base_url_with_a_password_is_refused_without_showing_it(text):
    with pytest.raises(ConfigurationError) as refusal:
        check_base_url(text)
    assert "canary" not in str(refusal.value)


def test_a_code_is_one_quoted_segment_of_the_path():
    assert spec_url(BASE, "pJyZp5uopZ0=", 2017) == f"{BASE}/v2/specs/pJyZp5uopZ0%3D/2017"
    assert spec_url(BASE, "a+/_-=", 1900) == f"{BASE}/v2/specs/a%2B%2F_-%3D/1900"


@given(st.text("AZaz09+/_=-", min_size=1, max_size=128))
def test_a_code_is_quoted_as_one_segment_of_a_path(code):
    assert spec_url(BASE, code, 2017) == f"{BASE}/v2/specs/{quote(code, safe='')}/2017"


@pytest.mark.parametrize(
    "code",
    ["", ".", "..", "a b", "a%2F", "a?b", "a#b", "é", "a\x00", "a\n", "../..", "x" * 129, None, 5, b"ab"],
)
def test_a_code_that_is_not_one_is_refused_by_name(code):
    with pytest.raises(ApiError) as refusal:
        spec_url(BASE, code, 2017)
    assert refusal.value.path == "code"
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("year", [1899, 2101, -1, 2017.0, "2017", True, None, 10**30])
def test_a_year_that_is_not_one_is_refused_by_name(year):
    with pytest.raises(ApiError) as refusal:
        spec_url(BASE, "abc", year)
    assert refusal.value.path == "year"


@given(st.text(), st.integers())
def test_whatever_the_code_a_spec_url_stays_below_the_api_or_is_refused(code, year):
    try:
        url = spec_url(BASE, code, year)
    except ApiError:
        return
    parts = urlsplit(url)
    assert url.startswith(f"{BASE}/v2/specs/")
    assert parts.path.count("/") == 6
    assert ".." not in url
    assert not parts.query


def test_different_keys_have_different_texts():
    assert SpecKey("a/2", 2017).text == "a/2/2017"
    assert len({SpecKey(code, year).text for code in ("a", "a/2017", "a/20") for year in (2017, 2018)}) == 6


def test_the_offset_is_read_from_a_link_of_the_api():
    assert page_offset(search_url(BASE, offset=71270, limit=20)) == 71270
    assert page_offset("https://h/v3/vehicle?page[offset]=5") == 5


@pytest.mark.parametrize(
    "url",
    [
        "", "https://h/", "https://h/?page[offset]=", "https://h/?page[offset]=-1", "https://h/?page[offset]=1.5",
        "https://h/?page[offset]=٣", "https://h/?page[offset]=1&page[offset]=2", "http://[::1?page[offset]=2",
    ],
)  # fmt: skip
def test_a_link_without_one_offset_is_refused(url):
    with pytest.raises(ApiError):
        page_offset(url)


def test_ranges_may_be_one_number_and_provinces_any_case():
    filters = SearchFilters.from_arguments({"year": "2015", "price": " 100000-250000", "province": "gauteng"})
    assert filters == SearchFilters(year="2015-2015", price="100000-250000", province="Gauteng")
    assert all(SearchFilters.from_arguments({"province": name}).province == name for name in PROVINCES)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"makes": "Audi"}, "'makes'"),
        ({"make": ""}, "make=''"),
        ({"make": "A[udi"}, "make="),
        ({"make": "A\r\nforged"}, "make="),
        ({"keyword": "\udcff"}, "keyword="),
        ({"keyword": "x" * 101}, "keyword="),
        ({"model": "A4"}, "model needs make"),
        ({"make": "Audi", "variant": "TFSI"}, "variant needs model"),
        ({"year": "abc"}, "year='abc'"),
        ({"year": "2020-2015"}, "year='2020-2015'"),
        ({"year": "99-2000"}, "year='99-2000'"),
        ({"price": "-5"}, "price='-5'"),
        ({"mileage": "1-2-3"}, "mileage='1-2-3'"),
        ({"province": "Atlantis"}, "province='Atlantis'"),
    ],
)
def test_a_bad_argument_is_refused_by_name_in_one_line(arguments, named):
    with pytest.raises(ConfigurationError) as refusal:
        SearchFilters.from_arguments(arguments)
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(st.dictionaries(st.sampled_from(["make", "model", "year", "price", "province", "keyword"]), st.text()))
def test_whatever_the_arguments_they_are_refused_or_can_be_written_as_a_url(arguments):
    try:
        filters = SearchFilters.from_arguments(arguments)
    except ConfigurationError:
        return
    assert search_url(BASE, offset=0, limit=1, filters=filters).isascii()


@pytest.mark.parametrize("address", ["https://www.cars.co.za/for-sale/1/", "HTTP://h", "http://h:80/é?a=1#b"])
def test_an_address_for_people_is_passed_on_as_it_is(address):
    assert web_url(address) == address


@pytest.mark.parametrize(
    "address",
    ["", "javascript:alert(1)", "data:text/html,x", "//h/1", "/1", "h", "https://", "https:///1", " https://h/",
     "https://h/a b", "https://h/\n", "https://h/\x00", "ftp://h/", None, 5, True, ["https://h/"]],
)  # fmt: skip
def test_what_is_no_address_for_people_is_empty(address):
    assert web_url(address) == ""
