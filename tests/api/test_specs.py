import pytest

from carscraper.api.specs import parse_specs
from carscraper.exceptions import ApiError
from tests.api.samples import body, specs


def test_groups_come_out_as_the_api_gave_them():
    assert parse_specs(body(specs())).groups == specs()["data"][0]
    assert not parse_specs(body(specs())).unknown


@pytest.mark.parametrize("empty", [{"data": []}, {"data": [[]]}])
def test_an_empty_answer_has_no_groups(empty):
    assert parse_specs(body(empty)).groups == []


@pytest.mark.parametrize("value", ["n/a", "-", ""])
def test_an_empty_value_is_a_value(value):
    groups = [{"title": "", "attrs": [{"label": "", "value": value}]}]
    assert parse_specs(body({"data": [groups]})).groups == groups


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (None, "data"),
        ({}, "data"),
        ([None], "data[0]"),
        ([{}], "data[0]"),
        ([[], []], "data"),
        ([["x"]], "data[0][0]"),
        ([[{"attrs": []}]], "data[0][0].title"),
        ([[{"title": 5, "attrs": []}]], "data[0][0].title"),
        ([[{"title": "a"}]], "data[0][0].attrs"),
        ([[{"title": "a", "attrs": {}}]], "data[0][0].attrs"),
        ([[{"title": "a", "attrs": []}, {"title": "b", "attrs": [1]}]], "data[0][1].attrs[0]"),
        ([[{"title": "a", "attrs": [{"label": "x"}]}]], "data[0][0].attrs[0].value"),
        ([[{"title": "a", "attrs": [{"value": "x"}]}]], "data[0][0].attrs[0].label"),
        ([[{"title": "a", "attrs": [{"label": "x", "value": 5}]}]], "data[0][0].attrs[0].value"),
        ([[{"title": "a", "attrs": [{"label": None, "value": "x"}]}]], "data[0][0].attrs[0].label"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(data, path):
    with pytest.raises(ApiError) as refusal:
        parse_specs(body({"data": data}))
    assert refusal.value.path == path


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b"[]", b"<html>", b"\xef\xbb\xbf{}", b'{"data": [[{"title": "\\ud800"}]]}']
)
def test_an_answer_that_is_no_specification_is_refused(answer):
    with pytest.raises(ApiError):
        parse_specs(answer)


def test_unknown_fields_are_named_and_kept():
    content = {
        "data": [[{"title": "a", "icon": 1, "attrs": [{"label": "x", "value": "1", "unit": "kW"}]}]],
        "took": 3,
    }
    parsed = parse_specs(body(content))
    assert parsed.unknown == {"took", "data[][].icon", "data[][].attrs[].unit"}
    assert parsed.groups == content["data"][0]
