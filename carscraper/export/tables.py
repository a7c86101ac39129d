"""Cars as a table: one flat, typed row each, with the same columns in the same order in every format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import orjson

from carscraper.api.columns import COLUMNS
from carscraper.api.endpoints import web_url
from carscraper.api.rows import SpecColumns, typed_row
from carscraper.items import Car

Kind: TypeAlias = Literal["string", "int64", "float64", "timestamp"]
"""The type of a column; a timestamp is in UTC, to the millisecond."""

Cell: TypeAlias = str | int | float | datetime | None
Row: TypeAlias = tuple[Cell, ...]

_KINDS: dict[type, Kind] = {str: "string", int: "int64", float: "float64"}
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a text begins with that a spreadsheet takes for a formula, as OWASP lists them, full-width signs included."""
_CONTROL = ("\t", "\r", "\n")
"""What else it begins with then: a spreadsheet may take it for the end of the cell."""
_SKIPPED = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
"""What one may skip before it looks: white space, controls, marks that nobody sees."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; `docs/columns.md` says what it holds."""

    name: str
    kind: Kind
    nullable: bool = True


_LISTING = (Column("id", "string", False), Column("url", "string"), Column("scraped_at", "timestamp", False))
_SEEN = (
    Column("first_seen", "timestamp", False),
    Column("last_seen", "timestamp", False),
    Column("removed_at", "timestamp"),
)
_TYPED = tuple(Column(name, _KINDS[kind]) for name, kind in COLUMNS.items())
_UNREAD = (Column("unread", "string"),)
PRICES = (
    Column("id", "string", False),
    *(column for column in _TYPED if column.name in ("make", "model", "year", "price_zar")),
    Column("kind", "string", False),
    Column("since", "timestamp"),
    Column("run", "string"),
    Column("until", "timestamp"),
    Column("removed_at", "timestamp"),
)
"""Of the table of prices over time: `carscraper.changes.prices.Price` is a row of it."""
_RAW = (Column("car_attrs", "string", False), Column("car_specs", "string", False))


def columns(*, seen: bool = False, raw: bool = False) -> tuple[Column, ...]:
    """The table's columns: with `seen` those that only a database knows, with `raw` the record as it came."""
    return (*_LISTING, *(_SEEN if seen else ()), *_TYPED, *_UNREAD, *(_RAW if raw else ()))


class Rows:
    """Makes the rows of a table, of the given `columns`."""

    def __init__(self, *, seen: bool = False, raw: bool = False) -> None:
        self.columns = columns(seen=seen, raw=raw)
        self._raw = raw

    def of(self, car: Car, specs: SpecColumns | None = None, seen: Sequence[datetime | None] = ()) -> Row:
        """The row of a car. `specs` are what its specification comes to, when that is known already; `seen` the
        values of `first_seen`, `last_seen` and `removed_at`, when those are columns.
        """
        typed = typed_row(car.car_attrs, car.car_specs if specs is None else specs)
        return (
            car.id,
            web_url(car.url) or None,
            datetime.fromisoformat(car.scraped_at),
            *seen,
            *typed.values,
            orjson.dumps(typed.unread).decode() if typed.unread else None,
            *((orjson.dumps(part).decode() for part in (car.car_attrs, car.car_specs)) if self._raw else ()),
        )


def csv_cell(cell: Cell) -> str | int | float:
    """The cell as a CSV file has it: nothing for null, and a text that would be run as a formula made harmless
    by an apostrophe. Numbers stay numbers.
    """
    if type(cell) is str:
        return f"'{cell}" if _is_formula(cell) else cell
    if cell is None:
        return ""
    return utc_text(cell) if isinstance(cell, datetime) else cell


def _is_formula(text: str) -> bool:
    if text[:1].isalnum():  # as almost all begin
        return False
    if text.startswith(_CONTROL):
        return True
    skipped = _SKIPPED.match(text)
    return text[skipped.end() if skipped else 0 :][:1] in _FORMULA


def utc_text(time: datetime) -> str:
    """ISO 8601 in UTC, all of one width: `2026-11-20T10:15:00.123Z`."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
