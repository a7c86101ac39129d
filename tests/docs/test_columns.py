"""docs/columns.md has the columns of the code: names, types, sources, in order, and what they cover."""

from __future__ import annotations

import re

import pytest

from benchmarks.columns import row as row_of
from benchmarks.columns import with_rows
from benchmarks.coverage import BEGIN, END
from carscraper.api.columns import COLUMNS, DECLARED
from carscraper.export.encoders import ParquetEncoder
from carscraper.export.tables import columns
from tests.standin import ROOT

PAGE = (ROOT / "docs" / "columns.md").read_text(encoding="utf-8")
UNITS = {
    "zar": "rand", "km": "km", "l": "l", "kw": "kW", "nm": "Nm", "s": "s", "kmh": "km/h", "100km": "l/100km",
    "mm": "mm", "kg": "kg",
}  # fmt: skip
"""What the end of a column's name stands for."""


def rows(text: str) -> list[list[str]]:
    """The cells of the lines of a table that begin with a name in backticks."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("| `")
    ]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


DOCUMENTED = rows(section("The table"))


def test_the_page_names_the_columns_of_the_code_in_their_order() -> None:
    documented = [(row[0].strip("`"), row[1], row[4]) for row in DOCUMENTED]
    assert documented == [
        (column.name, column.kind, "yes" if column.nullable else "never")
        for column in columns(seen=True, raw=True)
    ]


def test_the_page_has_what_make_columns_makes_of_the_declarations() -> None:
    assert with_rows(PAGE, map(row_of, DECLARED)) == PAGE


@pytest.mark.parametrize("row", DOCUMENTED, ids=lambda row: row[0].strip("`"))
def test_a_name_that_ends_in_a_unit_has_that_unit(row: list[str]) -> None:
    name = row[0].strip("`")
    unit = "g/km" if name == "co2_g_km" else UNITS.get(name.rpartition("_")[2])
    if name in COLUMNS and unit:
        assert row[2].partition(" a ")[0] == unit


def test_the_page_tells_how_many_rows_a_row_group_has() -> None:
    assert f"row groups of {ParquetEncoder.at_once:,} cars" in section("The formats")


def test_the_coverage_has_every_typed_column() -> None:
    made = PAGE.partition(BEGIN)[2].partition(END)[0]
    found = rows(made)
    assert [row[0].strip("`") for row in found] == list(COLUMNS)
    for row in found:
        told, read = (int(cell.replace(",", "")) for cell in row[1:3])
        assert 0 < read <= told
        # Whatever is not read is shown.
        assert (read == told) == (row[4] == "")
