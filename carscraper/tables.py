"""Cars as a table: one flat, typed row each, with the same columns in the same order in every format."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import orjson

from carscraper.api.units import COLUMNS, SpecColumns, spec_columns, typed_row
from carscraper.items import Car

Kind: TypeAlias = Literal["string", "int64", "float64", "timestamp"]
"""The type of a column; a timestamp is in UTC, to the microsecond."""

Cell: TypeAlias = str | int | float | datetime | None
Row: TypeAlias = tuple[Cell, ...]

_KINDS: dict[type, Kind] = {str: "string", int: "int64", float: "float64"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that a spreadsheet takes for a formula."""
_SPECS = 512
"""Specifications kept ready: as many as the spider keeps parsed, whose cars come soon after each other."""


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
_RAW = (Column("car_attrs", "string", False), Column("car_specs", "string", False))


def columns(*, seen: bool = False, raw: bool = False) -> tuple[Column, ...]:
    """The table's columns: with `seen` those that only a database knows, with `raw` the record as it came."""
    return (*_LISTING, *(_SEEN if seen else ()), *_TYPED, *_UNREAD, *(_RAW if raw else ()))


class Rows:
    """Makes the rows of a table, of the given `columns`."""

    def __init__(self, *, seen: bool = False, raw: bool = False) -> None:
        self.columns = columns(seen=seen, raw=raw)
        self._raw = raw
        self._typed = attrgetter(*COLUMNS)
        self._ready: OrderedDict[int, tuple[list[dict[str, Any]], SpecColumns]] = OrderedDict()

    def of(self, car: Car, seen: Sequence[datetime | None] = ()) -> Row:
        """The row of a car. `seen` are the values of `first_seen`, `last_seen` and `removed_at`, when they are
        columns.
        """
        typed = typed_row(car.car_attrs, self._specs(car.car_specs))
        return (
            car.id,
            car.url or None,
            datetime.fromisoformat(car.scraped_at),
            *seen,
            *self._typed(typed),
            orjson.dumps(typed.unread).decode() if typed.unread else None,
            *((orjson.dumps(part).decode() for part in (car.car_attrs, car.car_specs)) if self._raw else ()),
        )

    def _specs(self, groups: list[dict[str, Any]]) -> SpecColumns:
        # By identity, which is safe while the groups are held here: cars of one specification share one list.
        ready = self._ready.get(id(groups))
        if ready is None:
            ready = self._ready[id(groups)] = groups, spec_columns(groups)
            if len(self._ready) > _SPECS:
                self._ready.popitem(last=False)
        return ready[1]


def csv_cell(cell: Cell) -> str | int | float:
    """The cell as a CSV file has it: nothing for null, and a text that would be run as a formula made harmless
    by an apostrophe. Numbers stay numbers.
    """
    if type(cell) is str:
        return f"'{cell}" if cell.startswith(_FORMULA) else cell
    if cell is None:
        return ""
    return utc_text(cell) if isinstance(cell, datetime) else cell


def utc_text(time: datetime) -> str:
    """ISO 8601 in UTC: `2026-11-20T10:15:00Z`, with a fraction only when there is one."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
