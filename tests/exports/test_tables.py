"""One flat, typed row per car."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.api.columns import COLUMNS
from carscraper.api.rows import spec_columns, typed_row
from carscraper.export.tables import Rows, columns, csv_cell
from tests.exports.samples import SPECS, car, titles

TYPES = {"string": str, "int64": int, "float64": float, "timestamp": datetime}
SEEN = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), None)


def test_columns_are_the_listing_then_the_typed_values_then_what_was_not_read() -> None:
    assert [column.name for column in columns()] == ["id", "url", "scraped_at", *COLUMNS, "unread"]


def test_a_database_adds_its_times_after_the_first_three_and_raw_parts_come_last() -> None:
    names = [column.name for column in columns(seen=True, raw=True)]
    assert names[:7] == ["id", "url", "scraped_at", "first_seen", "last_seen", "removed_at", "title"]
    assert names[-3:] == ["unread", "car_attrs", "car_specs"]
    assert len(names) == len(columns()) + 5


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("raw", [False, True])
def test_a_row_has_a_cell_of_its_type_for_each_column(seen: bool, raw: bool) -> None:
    table = Rows(seen=seen, raw=raw)
    assert table.columns == columns(seen=seen, raw=raw)
    for one in (
        car(),
        car(price=None, mileage="a few", title=None),
        replace(car(), url="", car_attrs={}, car_specs=[]),
    ):
        row = table.of(one, seen=SEEN if seen else ())
        for column, cell in zip(table.columns, row, strict=True):
            assert type(cell) is TYPES[column.kind] or (cell is None and column.nullable), column


def test_a_row_holds_the_values_of_the_typed_row() -> None:
    one = car(price=289900, mileage="38 329 Km")
    row = dict(zip([column.name for column in columns()], Rows().of(one), strict=True))
    typed = typed_row(one.car_attrs, one.car_specs)
    assert {name: row[name] for name in COLUMNS} == {name: getattr(typed, name) for name in COLUMNS}
    assert (row["id"], row["price_zar"], row["mileage_km"], row["power_kw"]) == ("1", 289900, 38329, 110.0)
    assert row["scraped_at"] == datetime(2026, 11, 20, 10, 15, 0, 120_000, tzinfo=UTC)
    assert row["accel_0_100_s"] is None
    assert row["unread"] is None


def test_a_specification_made_ready_before_gives_the_same_row() -> None:
    assert Rows().of(car(), spec_columns(SPECS)) == Rows().of(car())


@pytest.mark.parametrize("url", ["", "javascript:alert(1)", "/for-sale/1/", "https://"])
def test_an_address_that_is_none_is_null(url: str) -> None:
    assert Rows().of(replace(car(), url=url))[1] is None


def test_what_could_not_be_read_is_named_with_its_raw_value() -> None:
    row = dict(
        zip([column.name for column in columns()], Rows().of(car(mileage="a few", price=99.5)), strict=True)
    )
    assert (row["mileage_km"], row["price_zar"]) == (None, None)
    assert json.loads(str(row["unread"])) == {"mileage_km": "a few", "price_zar": 99.5}


@settings(deadline=None)
@given(st.floats(), st.floats())
def test_no_number_gets_into_a_row_that_is_none(price: float, monthly: float) -> None:
    row = Rows().of(car(price=price, monthly_price=monthly, agent_coords_0_coord=float("nan")))
    numbers = [cell for cell in row if isinstance(cell, float)]
    assert all(abs(number) < 10**13 for number in numbers)  # false for NaN, too


def test_raw_parts_are_the_json_of_what_the_api_gave() -> None:
    one = car(title='two\nlines, "quoted"')
    *_, attributes, specs = Rows(raw=True).of(one)
    assert json.loads(str(attributes)) == one.car_attrs
    assert json.loads(str(specs)) == one.car_specs


def test_a_listing_without_an_address_has_none_in_the_table() -> None:
    assert Rows().of(replace(car(), url=""))[1] is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "=1",
            "+1",
            "-1",
            "@a",
            "\tx",
            "\rx",
            "\nx",
            "=",
            "-",
            " =1",
            "\n=1",
            "\u00a0=1",
            "\ufeff=1",
            " \u3000@a",
        ),
        *("\u200b=1", "\x00=1", "\x1b=1", "＝1", "＋1", "－1", "＠a", " ＝1"),
    ],
)
def test_a_text_that_would_be_run_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["a=1", "1-2", " a=1", "'=1", "", " ", "x\n=1", "Ω=1"])
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert csv_cell(text) == text


@pytest.mark.parametrize("number", [-5, -5.5, 0, 7])
def test_a_number_stays_a_number(number: float) -> None:
    assert csv_cell(number) == number
    assert type(csv_cell(number)) is type(number)


def test_null_is_an_empty_cell_and_a_time_is_in_utc() -> None:
    assert csv_cell(None) == ""
    assert (
        csv_cell(datetime(2026, 11, 20, 12, 15, tzinfo=timezone(timedelta(hours=2))))
        == "2026-11-20T10:15:00.000Z"
    )
    assert csv_cell(datetime(2026, 11, 20, 12, 15, 1, 120_000, tzinfo=UTC)) == "2026-11-20T12:15:01.120Z"


@settings(deadline=None)
@given(titles)
def test_no_title_is_left_that_a_spreadsheet_would_run(title: str) -> None:
    cells = [csv_cell(cell) for cell in Rows().of(car(title=title))]
    assert not any(isinstance(cell, str) and cell.lstrip()[:1] in tuple("=+-@＝＋－＠") for cell in cells)
