"""Rules hit the requests that they name, as often as they say, and bad ones are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from carscraper.demo.churn import parse_change
from carscraper.demo.faults import FAULTS, FaultScript, edit, fault_of_query, parse_rules
from scrapy_durable.exceptions import ConfigurationError


def hits(rule: dict[str, Any], targets: list[str], seed: int = 1) -> list[str | None]:
    script = FaultScript(parse_rules([rule]), seed)
    chosen = [script.choose(target) for target in targets]
    return [fault.kind if fault else None for fault in chosen]


def test_a_rule_hits_what_matches_and_nothing_else() -> None:
    assert hits({"match": r"/specs/a\+", "fault": "reset"}, ["/specs/a+", "/specs/b"]) == ["reset", None]


def test_times_and_after_count_over_all_targets() -> None:
    rule = {"fault": "hang", "after": 1, "times": 2}
    assert hits(rule, ["a", "b", "a", "b"]) == [None, "hang", "hang", None]


def test_per_target_every_target_has_its_own_count() -> None:
    rule = {"fault": "hang", "times": 1, "per": "target"}
    assert hits(rule, ["a", "b", "a", "b"]) == ["hang", "hang", None, None]


def test_probability_depends_on_the_seed_and_not_on_the_order() -> None:
    rule = {"fault": "empty", "probability": 0.3}
    targets = [f"/{number}" for number in range(1_000)]
    there = dict(zip(targets, hits(rule, targets), strict=True))
    back = dict(zip(targets[::-1], hits(rule, targets[::-1]), strict=True))
    assert there == back
    assert 240 < sum(kind == "empty" for kind in there.values()) < 360
    assert list(there.values()) != hits(rule, targets, seed=2)


def test_asking_again_draws_again() -> None:
    drawn = hits({"fault": "empty", "probability": 0.5}, ["/same"] * 100)
    assert 30 < drawn.count("empty") < 70


def test_the_first_rule_that_hits_decides() -> None:
    rules = [{"fault": "bom", "times": 1}, {"fault": "html"}]
    script = FaultScript(parse_rules(rules))
    chosen = [script.choose("/") for _ in range(2)]
    assert [fault.kind for fault in chosen if fault] == ["bom", "html"]


def test_options_left_out_have_the_defaults() -> None:
    fault = parse_rules([{"fault": "status", "retry_after": "soon"}])[0].fault
    assert fault.options == FAULTS["status"] | {"retry_after": "soon"}


def test_a_query_asks_for_a_fault_with_options() -> None:
    fault = fault_of_query("huge,bytes=1000,sized=false")
    assert fault.options == {"bytes": 1_000, "sized": False}


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({}, "not a list"),
        ([7], r"faults\[0\]: not an object"),
        ([{"fault": "fire"}], r"faults\[0\]: no such fault: 'fire'"),
        ([{}], r"faults\[0\]: no such fault: None"),
        ([{"fault": "reset"}, {"fault": "delay", "second": 1}], r"faults\[1\]: delay has no option 'second'"),
        ([{"fault": "delay", "seconds": "long"}], r"faults\[0\].seconds: not a number"),
        ([{"fault": "delay", "seconds": -1}], r"faults\[0\].seconds: not a number from 0 on"),
        ([{"fault": "truncate", "way": "up"}], r"faults\[0\].way: 'up' is none of"),
        ([{"fault": "redirect", "location": 5}], r"faults\[0\].location: not text"),
        ([{"fault": "reset", "match": "("}], r"faults\[0\].match: not a regular expression"),
        ([{"fault": "reset", "per": "day"}], r"faults\[0\].per"),
        ([{"fault": "edit", "path": ""}], r"faults\[0\].path"),
        ([{"fault": "edit", "do": "rename"}], r"faults\[0\].to"),
    ],
)
def test_a_bad_rule_is_refused_by_name(rules: object, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse_rules(rules)


@pytest.mark.parametrize(
    ("path", "do", "to", "expected"),
    [
        ("data[1].a.x", "drop", None, {"data": [{"a": {"x": 1}}, {"a": {}}]}),
        ("data[*].a.x", "null", None, {"data": [{"a": {"x": None}}, {"a": {"x": None}}]}),
        ("data[0].a.x", "rename", "y", {"data": [{"a": {"y": 1}}, {"a": {"x": 2}}]}),
        ("data[0].a", "set", [], {"data": [{"a": []}, {"a": {"x": 2}}]}),
        ("data[*]", "drop", None, {"data": []}),
        ("data[7].b.c", "drop", None, {"data": [{"a": {"x": 1}}, {"a": {"x": 2}}]}),
        ("data", "set", "text", {"data": "text"}),
    ],
)
def test_edit_changes_what_the_path_leads_to(path: str, do: str, to: object, expected: object) -> None:
    assert edit({"data": [{"a": {"x": 1}}, {"a": {"x": 2}}]}, path, do, to) == expected


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ([], "not an object"),
        ({"ad": 1}, "no such member: ad"),
        ({"add": -1}, "churn.add"),
        ({"remove": [1]}, "churn.remove"),
        ({"remove": {"offset": "x"}}, "churn.remove.offset"),
        ({"price": {"1": "cheap"}}, "churn.price.1"),
        ({"price": 5}, "churn.price"),
    ],
)
def test_a_bad_change_is_refused_by_name(change: object, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse_change("churn", change)
