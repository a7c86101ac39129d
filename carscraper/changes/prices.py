"""Which prices each listing has had, and when, from `changes.jsonl` and the `cars.json` that it leads to.

A listing has one row for each price. The lines tell of those that come, go and change; what was there from the
beginning and never changed stands in `cars.json` alone. Rows are gathered in a file of SQLite without a name: they may
be more than memory holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from carscraper.api.rows import spec_columns, typed_row
from carscraper.changes.comparison import Snapshot
from carscraper.changes.lines import ADDED, ERASED, PRICE, REMOVED, RETURNED, RUN, Head, head_of
from carscraper.output.cars_json import published_lines
from scrapy_durable.exceptions import ConfigurationError, DurableError

FIRST = "first"
"""How a row begins that was there when the lines begin; the others are as kinds of lines: added, returned, price."""

_SCHEMA = """
PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;
CREATE TABLE prices (
  place INTEGER PRIMARY KEY, chapter INTEGER, listing TEXT, make TEXT, model TEXT, year INTEGER, price INTEGER,
  kind TEXT, since TEXT, run TEXT, until TEXT, removed_at TEXT
);
CREATE INDEX of_listing ON prices (listing, place);
"""
_INSERT = """
INSERT INTO prices (chapter, listing, make, model, year, price, kind, since, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ROWS = """
SELECT listing, make, model, year, price, kind, since, run, until, removed_at FROM prices ORDER BY listing, place
"""
_OF_NO_SPECIFICATION = spec_columns(None)


class Price(NamedTuple):
    """One price of one listing, from when to when."""

    listing: str
    make: str | None
    model: str | None
    year: int | None
    price_zar: int | None
    """None where the API gave none that can be read."""
    kind: str
    since: datetime | None
    """When the first catalogue with it was published; None when that is older than the lines."""
    run: str | None
    """The crawl of that catalogue."""
    until: datetime | None
    """When the first catalogue without it was published, or one that nothing leads to; None: it is asked for now."""
    removed_at: datetime | None
    """The same time, where the listing went with it."""


def price_history(changes: Path, cars: Path) -> Iterator[Price]:
    """All prices, in the order of the listings' ids and of time; listings that were erased are not there.

    Raises `ConfigurationError` when there are no changes or a line is damaged, `DurableError` when `cars.json` is not
    where they lead to, and `OSError`.
    """
    try:
        file = changes.open("rb")
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{changes}: there is no such file; a complete crawl of the whole catalogue makes it"
        ) from error
    try:
        with file, closing(sqlite3.connect("", isolation_level=None)) as index:
            index.executescript(_SCHEMA)
            history = _History(index)
            history.read_lines(file, _Outline.of(file), changes)
            history.read_cars(cars, changes)
            for listing, make, model, year, price, kind, since, run, until, removed in index.execute(_ROWS):
                times = _time(since), run, _time(until), _time(removed)
                yield Price(listing, make, model, year, price, kind, *times)
    except sqlite3.Error as error:
        raise OSError(f"the prices do not fit on the disk: {error}") from error


@dataclass(frozen=True, slots=True)
class _Outline:
    """What has to be known of a file before its lines are read."""

    begin_anew: frozenset[str]
    """Runs that follow none, but for the first in the file: between them and the run before, nothing is known."""
    end: int
    """Bytes up to the end of the last run, and what was erased after it. What follows is being written."""

    @classmethod
    def of(cls, file: IO[bytes]) -> _Outline:
        """Leaves the file at its beginning."""
        runs: list[tuple[str, bool]] = []
        at = end = 0
        for line in file:
            at += len(line)
            head = head_of(line)
            if head and head.kind in (RUN, ERASED) and line.endswith(b"\n"):
                end = at
                if head.kind == RUN:
                    runs.append((head.run, b',"previous":null,' in line))
        file.seek(0)
        return cls(frozenset(run for run, follows_none in runs[1:] if follows_none), end)


class _History:
    """Rows as the lines make them. A line may come twice, and changes nothing then."""

    def __init__(self, index: sqlite3.Connection) -> None:
        self._index = index
        self._chapter = 0
        self._begun_anew = ""
        self._first: tuple[str, str] | None = None
        """When the catalogue was published that this chapter begins with, and its run."""
        self._leads_to = ""
        """Digest of the catalogue of the last run."""
        self._erased: set[str] = set()

    def read_lines(self, file: IO[bytes], outline: _Outline, path: Path) -> None:
        """Take in the lines of a file that stands at its beginning."""
        at = 0
        for number, line in enumerate(file, 1):
            at += len(line)
            if at > outline.end:
                return
            try:
                self._take(line, outline.begin_anew)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigurationError(f"{path}: line {number}: damaged") from error

    def read_cars(self, path: Path, changes: Path) -> None:
        """Take in what is there and no line has told of."""
        snapshot = Snapshot()
        try:
            for line in published_lines(path):
                if line.listing in self._erased:
                    continue
                snapshot.add(line.text)
                if self._row_of(line.listing) is None:
                    self._begin(line.listing, orjson.loads(line.text)["car_attrs"], FIRST)
            found: str | None = snapshot.digest
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            found = None
        if found != self._leads_to:
            raise DurableError(
                f"{path} is not the catalogue that {changes} leads to; try again when no crawl publishes, or after"
                " the next complete one"
            )

    def _take(self, line: bytes, begin_anew: Collection[str]) -> None:
        """Raises what reading a line leads to that is none of ours."""
        head = head_of(line)
        if head is None or _time(head.at) is None:
            raise ValueError("it does not begin as a line does")
        if head.run in begin_anew and head.run != self._begun_anew:
            self._begin_anew(head)
        match head.kind:
            case "added" | "returned" | "price" | "removed":
                self._take_change(head, orjson.loads(line))
            case "erased":
                self._index.execute("DELETE FROM prices WHERE listing = ?", (head.listing,))
                self._erased.add(head.listing)
            case "run":
                self._leads_to = orjson.loads(line)["after"]
                self._first = self._first or (head.at, head.run)
                self._erased.clear()

    def _take_change(self, head: Head, change: Mapping[str, Any]) -> None:
        row, car = self._row_of(head.listing), change["car"]
        if head.kind in (ADDED, RETURNED):
            if row is None or row.is_over:
                self._begin(head.listing, car, head.kind, (head.at, head.run))
            return
        values = change["fields"]["car_attrs.price"] if head.kind == PRICE else {}
        if row is None:
            before = {"price": values.get("before")} if head.kind == PRICE else {}
            row = self._begin(head.listing, {**car, **before}, FIRST)
        if row.is_over:
            return
        if head.kind == REMOVED:
            self._end(row, head.at, removed_at=head.at)
        elif row.price != told_of({"price": values.get("after")})[-1]:
            self._end(row, head.at)
            self._begin(head.listing, {**car, "price": values.get("after")}, PRICE, (head.at, head.run))

    def _begin_anew(self, head: Head) -> None:
        """What is asked for in the catalogue that this line belongs to, no line before tells."""
        self._index.execute("UPDATE prices SET until = ? WHERE until IS NULL", (head.at,))
        self._chapter += 1
        self._begun_anew, self._first = head.run, None

    def _row_of(self, listing: str) -> _Row | None:
        """The last of this chapter."""
        found = self._index.execute(
            "SELECT place, price, until, chapter FROM prices WHERE listing = ? ORDER BY place DESC LIMIT 1",
            (listing,),
        ).fetchone()
        if found is None or found[3] != self._chapter:
            return None
        return _Row(found[0], found[1], found[2] is not None)

    def _begin(
        self, listing: str, car: Mapping[str, Any], kind: str, when: tuple[str, str] | None = None
    ) -> _Row:
        cells = told_of(car)
        since, run = when or self._first or (None, None)
        place = self._index.execute(_INSERT, (self._chapter, listing, *cells, kind, since, run)).lastrowid
        return _Row(place or 0, cells[-1], is_over=False)

    def _end(self, row: _Row, at: str, removed_at: str | None = None) -> None:
        self._index.execute(
            "UPDATE prices SET until = ?, removed_at = ? WHERE place = ?", (at, removed_at, row.place)
        )


class _Row(NamedTuple):
    place: int
    price: int | None
    is_over: bool


def told_of(car: Mapping[str, Any]) -> tuple[str | None, str | None, int | None, int | None]:
    """Make, model, year and price in rand, read as those of any row."""
    row = typed_row(car, _OF_NO_SPECIFICATION)
    return row.make, row.model, row.year, row.price_zar


@lru_cache(maxsize=64)
def _time(text: str | None) -> datetime | None:
    """Raises `ValueError` for what is no time."""
    return datetime.fromisoformat(text) if text else None
