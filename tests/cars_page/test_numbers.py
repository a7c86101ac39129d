"""The numbers of the page about cars: of the whole catalogue, of one model, of the last seven days."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from carscraper.api.columns import COLUMNS
from carscraper.api.rows import typed_row
from carscraper.dashboard import catalogue as module
from carscraper.dashboard.catalogue import OTHERS, UNKNOWN, Catalogue, read_catalogue
from carscraper.dashboard.charts import MOST_POINTS, price_over_age, price_over_mileage
from carscraper.dashboard.latest import AGAIN, Latest
from carscraper.dashboard.week import last_week
from carscraper.items import Car
from tests.changes.test_replay import Catalogue as Records
from tests.changes.test_replay import erase, publish
from tests.exports.samples import SPECS, car, write_cars_json

NOW = datetime(2026, 11, 12, 12, tzinfo=UTC)
"""`publish` of number n is on the day n + 1."""


def read(tmp_path: Path, *cars: Car, wanted: tuple[str, ...] = ()) -> Catalogue:
    """What is published at `NOW`."""
    path = tmp_path / "cars.json"
    write_cars_json(path, list(cars))
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    return read_catalogue(path, wanted)


def priced(prices: dict[str, Any]) -> Records:
    return {
        listing: {
            "url": f"https://a/{listing}",
            "car_attrs": {"price": price, "make": "Audi", "model": "A4", "year": 2019},
            "car_specs": [],
        }
        for listing, price in prices.items()
    }


def test_listings_are_counted_by_make_model_and_province(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        car(1, make="Audi", model="A4", province="Gauteng"),
        car(2, make="Audi", model="A3", province="Gauteng"),
        car(3, make=None, model=None, province=None),
        car(4, make="BMW", model="A4", province="Limpopo"),
    )
    assert found.listings == 4
    assert found.makes == {"Audi": 2, UNKNOWN: 1, "BMW": 1}
    assert found.provinces == {"Gauteng": 2, UNKNOWN: 1, "Limpopo": 1}
    assert found.counts("Audi") == {"A4": 1, "A3": 1}
    assert found.counts("Nobody's") == {}


@pytest.mark.parametrize("specs", [SPECS, [], None])
def test_columns_are_filled_as_in_the_table_of_cars(specs: Any, tmp_path: Path) -> None:
    cars = [
        car(1, specs, fuel_type=None, seats="5"),
        car(2, specs, transmission="", car_specs=["an attribute of that name"]),
        car(3, [{"title": "", "attrs": [{"label": "Fuel Type", "value": "Diesel"}]}], fuel_type=None),
        car(4, image={"count": 3, "car_specs": {}}),
    ]
    if specs is None:
        cars[0].car_specs = None  # type: ignore[assignment]
    rows = [typed_row(one.car_attrs, one.car_specs).values for one in cars]
    expected = [sum(row[place] is not None for row in rows) for place in range(len(COLUMNS))]
    assert read(tmp_path, *cars).filled == expected


def test_a_chart_has_the_listings_with_both_numbers_and_a_median_for_each_step(tmp_path: Path) -> None:
    year = NOW.year
    found = read(
        tmp_path,
        car(1, make="Audi", model="A4", year=year - 2, mileage="30 000 Km", price=300_000),
        car(2, make="Audi", model="A4", year=year - 2, mileage="49 999 Km", price=200_000),
        car(3, make="Audi", model="A4", year=year + 1, mileage=None, price=500_000),
        car(4, make="Audi", model="A4", year=None, mileage="60 000 Km", price=None),
        car(5, make="BMW", model="A4", year=year, mileage="1 Km", price=1),
    )
    age = price_over_age(found, "Audi", "A4")
    assert [(step["x"], step["median"], step["listings"]) for step in age["steps"]] == [
        (0, 500_000, 1),
        (2, 250_000, 2),
    ]
    mileage = price_over_mileage(found, "Audi", "A4")
    assert mileage["steps"] == [{"x": 25_000, "median": 250_000, "listings": 2}]
    assert mileage["x"] == [30_000, 37_500, 49_999]
    assert mileage["price"] == [300_000, None, 200_000]
    assert mileage["median"] == [None, 250_000, None]
    assert price_over_age(found, "Audi", "A5")["listings"] == 0


def test_a_chart_is_bounded_and_one_odd_listing_does_not_flatten_it(tmp_path: Path) -> None:
    cars = [
        car(number, make="Audi", model="A4", mileage=f"{number * 10} Km", price=100_000 + number)
        for number in range(1, 2 * MOST_POINTS)
    ]
    odd = [car(0, make="Audi", model="A4", mileage=f"{10**11} Km", price=10**11)]
    chart = price_over_mileage(read(tmp_path, *cars, *odd), "Audi", "A4")
    assert chart["listings"] == 2 * MOST_POINTS
    assert (chart["drawn"], chart["outlying"]) == (MOST_POINTS, 1)
    drawn = [x for x, price in zip(chart["x"], chart["price"], strict=True) if price]
    assert (drawn[0], drawn[-1]) == (10, (2 * MOST_POINTS - 1) * 10)
    assert chart["x"] == sorted(chart["x"])


def test_names_and_listings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MODELS", 3)
    monkeypatch.setattr(module, "MOST_CARS", 5)
    cars = [car(number, make=f"M{number}" + "x" * 999, model=f"{number}") for number in range(8)]
    found = read(tmp_path, *cars)
    assert found.listings == found.makes.total() == 8
    assert len(found.makes) == 4
    assert found.makes[OTHERS] == 5
    assert max(map(len, found.makes)) == module.LONGEST_NAME
    assert sum(len(found.of_model(make, model)) for make in found.models for model in found.models[make]) == 5


def test_links_are_those_of_pages_only(tmp_path: Path) -> None:
    bad = car(2)
    bad.url = "javascript:alert(1)"
    assert read(tmp_path, car(1), bad, car(3), wanted=("1", "2")).links == {"1": car(1).url}


def test_the_week_has_what_prices_have_come_to_with_the_largest_first(tmp_path: Path) -> None:
    prices: list[dict[str, Any]] = [
        {"1": 10, "2": 10, "3": 10, "4": 10, "5": 10, "6": 10, "7": None},
        {"1": 100, "2": 100, "3": 100, "4": 100, "5": 100, "6": 100, "7": None},
        {"1": 90, "2": 120, "3": 50, "4": 130, "5": 20, "6": 20, "7": 70},
        {"1": 80, "2": 150, "3": 100, "4": 130, "6": 20, "7": 60},
    ]
    for number, of_a_day in zip((1, 2, 8, 10), prices, strict=True):
        publish(tmp_path, number, priced(of_a_day))
    erase(tmp_path, "6", killed=False)
    week = last_week(tmp_path / "changes.jsonl", NOW)
    assert [(move.listing, move.before, move.after, move.name) for move in week.drops] == [
        ("1", 100, 80, "Audi A4 2019"),
        ("7", 70, 60, "Audi A4 2019"),
    ]
    assert [(move.listing, move.difference) for move in week.rises] == [("2", 50), ("4", 30)]
    assert (week.moved, week.runs, week.added, week.removed) == (4, 2, 0, 1)
    assert week.last_run == "2026-11-11T10:15:00Z"
    later = last_week(tmp_path / "changes.jsonl", NOW + timedelta(days=30))
    assert (later.runs, later.moved, later.last_run) == (0, 0, "2026-11-11T10:15:00Z")


def test_damaged_lines_of_the_week_are_counted_and_the_others_shown(tmp_path: Path) -> None:
    for number, price in ((8, 100), (9, 90), (10, 80)):
        publish(tmp_path, number, priced({"1": price}))
    path = tmp_path / "changes.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"\x1b[2J\n" + whole.replace(b'"after":80', b'"after"!80') + b'{"id":"being written')
    week = last_week(path, NOW)
    assert week.damaged == 2
    assert [(move.before, move.after) for move in week.drops] == [(100, 90)]


def test_of_a_huge_file_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, price in ((8, 100), (9, 90), (10, 80)):
        publish(tmp_path, number, priced({"1": price}))
    monkeypatch.setattr("carscraper.dashboard.week.MOST_BYTES", 700)
    week = last_week(tmp_path / "changes.jsonl", NOW)
    assert week.is_cut
    assert [(move.before, move.after) for move in week.drops] == [(90, 80)]


def test_files_are_read_when_they_are_published_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = Latest(tmp_path)
    nothing = latest.shown(NOW)
    assert (nothing.catalogue, nothing.catalogue_problem, nothing.week, nothing.week_problem) == (
        None,
        "",
        None,
        "",
    )
    publish(tmp_path, 9, priced({"1": 100}))
    first = latest.shown(NOW)
    assert first.catalogue is not None
    assert first.catalogue.listings == 1
    assert latest.shown(NOW + AGAIN / 2) is first
    publish(tmp_path, 10, priced({"1": 90, "2": 5}))
    second = latest.shown(NOW)
    assert second.catalogue is not None
    assert second.catalogue.listings == 2
    assert second.catalogue.links == {"1": "https://a/1"}
    assert second.week is not None
    assert second.week.moved == 1
    later = latest.shown(NOW + timedelta(days=30))
    assert later.week is not None
    assert later.week.moved == 0, "a week passes"


def test_a_damaged_catalogue_is_named_and_the_last_good_one_stays(tmp_path: Path) -> None:
    publish(tmp_path, 10, priced({"1": 100}))
    latest = Latest(tmp_path)
    good = latest.shown(NOW).catalogue
    for text in (b"", b"[\n{}\n]\n", b'[\n{"id":"1","car_attrs":[]}\n]\n', b'[\n{"id":"1",\n'):
        (tmp_path / "new").write_bytes(text)
        (tmp_path / "new").replace(tmp_path / "cars.json")
        shown = latest.shown(NOW)
        assert shown.catalogue is good
        assert "cars.json is damaged" in shown.catalogue_problem
    (tmp_path / "cars.json").unlink()
    (tmp_path / "cars.json").mkdir()
    assert "cars.json cannot be read" in latest.shown(NOW).catalogue_problem
    (tmp_path / "changes.jsonl").unlink()
    (tmp_path / "changes.jsonl").mkdir()
    assert "changes.jsonl cannot be read" in latest.shown(NOW).week_problem
