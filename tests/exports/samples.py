"""Cars as records, made up for tests, and `cars.json` made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from carscraper.export.tables import columns
from carscraper.items import Car
from tests.api.samples import listing

SPECS = [
    {
        "title": "Engine",
        "attrs": [
            {"label": "Power Max", "value": "110 kW"},
            {"label": "Engine Capacity", "value": "1 395 cc"},
            {"label": "Driven Wheels", "value": "front"},
        ],
    },
    {"title": None, "attrs": [{"label": "0-100Kph", "value": "n/a"}]},
]

HOSTILE = [
    "=1+2",
    "=cmd|' /C calc'!A0",
    "+27 11 555 0100",
    "-5 left",
    "@SUM(A1:A9)",
    'a "quoted" one, with a comma',
    "two\nlines",
    "two\r\nlines",
    "one\rreturn",
    "nul \x00 bell \x07 escape \x1b",
    "line \u2028 paragraph \u2029 next \x85 end",
    "Mégane 🚗 \ufeff mark",
    "'=already",
    "NaN",
    "1e5",
    "007",
    "]\n",
    '{"id":"1"},',
]
"""Titles that a format or a spreadsheet may trip over."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Any text that UTF-8 can hold."""
titles = st.sampled_from(HOSTILE) | st.builds(
    lambda first, rest: first + rest, st.sampled_from(["", "=", "+", "-", "@", "\t", "\r", " ", "'"]), texts
)


def car(number: int = 1, specs: list[dict[str, Any]] | None = None, **changes: Any) -> Car:
    """A car like any other, but for the attributes in `changes`."""
    resource = listing(number, **changes)
    return Car(
        id=str(number),
        url=f"https://www.cars.co.za/for-sale/{number}/",
        scraped_at="2026-11-20T10:15:00.120Z",
        car_attrs=resource["attributes"],
        car_specs=SPECS if specs is None else specs,
    )


def write_cars_json(path: Path, cars: list[Car]) -> None:
    """As `archive.py` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record_of(one), separators=(",", ":")) for one in cars]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n")


def record_of(one: Car) -> dict[str, Any]:
    """The record as it is in `cars.json`."""
    return {
        "id": one.id,
        "url": one.url,
        "scraped_at": one.scraped_at,
        "car_attrs": one.car_attrs,
        "car_specs": one.car_specs,
    }


NOT_SEEN = {
    *range(0x20),
    *range(0x7F, 0xA0),
    0xAD,
    0x180E,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
}
"""Controls and marks that a spreadsheet may skip, as white space."""


def may_be_run(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula."""
    seen = next((mark for mark in text if not (mark.isspace() or ord(mark) in NOT_SEEN)), "")
    return text[:1] in ("\t", "\r", "\n") or seen in tuple("=+-@＝＋－＠")


def as_csv_has_it(cells: tuple[Any, ...]) -> list[str]:
    """What a CSV reader is to find of a row: written down here by itself, without our code."""
    found = []
    for cell in cells:
        if cell is None:
            found.append("")
        elif isinstance(cell, str):
            found.append("'" + cell if may_be_run(cell) else cell)
        elif hasattr(cell, "isoformat"):
            found.append(f"{cell:%Y-%m-%dT%H:%M:%S}.{cell.microsecond // 1000:03}Z")
        else:
            found.append(repr(cell))
    return found


NAMES = [column.name for column in columns()]
