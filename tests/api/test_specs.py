import pytest

from carscraper.api.rows import COLUMNS_OF_SPECS, spec_columns
from carscraper.api.specs import parse_specs
from carscraper.exceptions import ApiError
from tests.api.samples import body, specs


def test_groups_come_out_as_the_api_gave_them():
    assert parse_specs(body(specs())).groups == specs()["data"][0]
    assert not parse_specs(body(specs())).deviations


@pytest.mark.parametrize("empty", [{"data": []}, {"data": [[]]}])
def test_an_empty_answer_has_no_groups(empty):
    assert parse_specs(body(empty)).groups == []


@pytest.mark.parametrize("value", ["n/a", "-", ""])
def test_an_empty_value_is_a_value(value):
    groups = [{"title": "", "attrs": [{"label": "", "value": value}]}]
    assert parse_specs(body({"data": [groups]})).groups == groups


GROUP, OTHER = {"title": "a", "attrs": [{"label": "x", "value": "1"}]}, {"title": None, "attrs": []}


@pytest.mark.parametrize(
    ("data", "groups", "path"),
    [
        ([GROUP, OTHER], [GROUP, OTHER], "specs.data[]"),
        ([[GROUP], [OTHER]], [GROUP, OTHER], "specs.data"),
        ([[GROUP], OTHER], [GROUP, OTHER], "specs.data[]"),
        ([[], []], [], "specs.data"),
        ([[GROUP, None]], [GROUP, None], "specs.data[][]"),
        ([[{"attrs": []}]], [{"attrs": []}], "specs.data[][].title"),
        ([[{"title": 5, "attrs": []}]], [{"title": 5, "attrs": []}], "specs.data[][].title"),
        ([[{"title": "a"}]], [{"title": "a"}], "specs.data[][].attrs"),
        ([[{"title": "a", "attrs": {}}]], [{"title": "a", "attrs": {}}], "specs.data[][].attrs"),
        ([[{"title": "b", "attrs": [1]}]], [{"title": "b", "attrs": [1]}], "specs.data[][].attrs[]"),
        (
            [[{"title": "a", "attrs": [{"label": "x", "value": 5}]}]],
            [{"title": "a", "attrs": [{"label": "x", "value": 5}]}],
            "specs.data[][].attrs[].value",
        ),
        (
            [[{"title": "a", "attrs": [{"value": "x"}]}]],
            [{"title": "a", "attrs": [{"value": "x"}]}],
            "specs.data[][].attrs[].label",
        ),
    ],
)
def test_groups_of_another_shape_are_read_as_they_came_and_counted(data, groups, path):
    read = parse_specs(body({"data": data}))
    assert read.groups == groups
    assert list(read.deviations) == [path]
    assert len(spec_columns(read.groups).values) == len(COLUMNS_OF_SPECS)


@pytest.mark.parametrize(
    "odd",
    [
        {"title": "a", "attrs": [{"label": "x", "value": "1", "unit": "km"}]},
        {"title": "a", "attrs": [{"label": "x", "unit": "km"}]},
        {"title": "a", "attrs": [{"label": "x"}, {"label": "y", "value": "1", "unit": "km"}]},
        {"title": "a", "attrs": [{"label": 1, "value": "1"}]},
        {"title": "a", "attrs": [{"label": "x", "value": ["deep"]}]},
        {"title": "a", "attrs": ["ab"]},
        {"title": "a", "attrs": [], "more": 1},
        {"title": ["a"], "attrs": []},
        {"attrs": [], "more": 1},
        ["title", "attrs"],
    ],
)
def test_one_odd_group_among_usual_ones_is_found(odd):
    assert not parse_specs(body({"data": [[GROUP, OTHER]]})).deviations
    assert parse_specs(body({"data": [[GROUP, odd, OTHER]]})).deviations


@pytest.mark.parametrize("data", [None, {}, "x", 5, [None], [["x"]], [[[GROUP]]]])
def test_what_holds_no_group_is_refused_with_its_path(data):
    with pytest.raises(ApiError) as refusal:
        parse_specs(body({"data": data}))
    assert refusal.value.path == "data"


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
    assert parsed.deviations.keys() == {"specs.took", "specs.data[][].icon", "specs.data[][].attrs[].unit"}
    assert parsed.groups == content["data"][0]
