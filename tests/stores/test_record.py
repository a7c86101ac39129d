"""Cars made ready for databases: what is made of a specification, for how long, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from carscraper.api.rows import SpecColumns, spec_columns
from carscraper.items import Car, Specification
from carscraper.stores import record
from carscraper.stores.record import SHAPELESS, Draft, Record, Records

GROUPS = [{"title": "Engine", "attrs": [{"label": "Cylinders", "value": "4"}]}]
ODD = [{"title": "Engine", "attrs": [{"label": "Cylinders", "value": [["four"] * 400]}]}]


def made_of(specs: Any, records: Records) -> Record:
    return Draft(Car("1", "", "2026-11-20T10:15:00.123Z", {"price": 5}, specs), records).record


@pytest.fixture(name="looked_into")
def the_specifications_that_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The groups of each."""
    found = []

    def noted(groups: Any) -> SpecColumns:
        found.append(groups)
        return spec_columns(groups)

    monkeypatch.setattr(record, "spec_columns", noted)
    return found


def test_a_specification_that_cars_share_is_looked_into_once(looked_into: list[Any]) -> None:
    """Whatever else there is meanwhile."""
    records, shared = Records(), Specification(GROUPS)
    for number in range(3):
        assert made_of(shared, records).row.cylinders == 4
        made_of([{"title": str(number), "attrs": []}], records)
        records.clear()
    assert looked_into.count(GROUPS) == 1


def test_equal_specifications_are_looked_into_once(looked_into: list[Any]) -> None:
    """As those that are read from a log, and those that a pipeline has looked at."""
    records = Records()
    for specs in (Specification(GROUPS), Specification(GROUPS), [dict(group) for group in GROUPS]):
        assert made_of(specs, records).row.cylinders == 4
    assert looked_into == [GROUPS]


def test_what_is_made_of_an_odd_specification_is_kept_by_weight_alone(looked_into: list[Any]) -> None:
    """It may take many times the memory of its JSON, which is what known specifications are weighed by."""
    records, shared = Records(), Specification(ODD)
    for _ in range(3):
        assert made_of(shared, records).row.unread == {"cylinders": [["four"] * 400]}
    assert looked_into == [ODD]
    assert shared.columns is None
    records.clear()
    made_of(shared, records)
    assert looked_into == [ODD, ODD]


def test_what_has_not_the_shape_of_a_specification_says_so_each_time() -> None:
    records = Records()
    draft = Draft(Car("1", "", "2026-11-20T10:15:00.123Z", {}, 5), records)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(SHAPELESS):
            _ = draft.record
