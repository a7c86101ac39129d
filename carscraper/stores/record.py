"""A car made ready for a database: its raw parts as JSON, its typed row, and a digest of all."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from datetime import datetime

import orjson

from carscraper.api.rows import SpecColumns, TypedRow, spec_columns, typed_row
from carscraper.items import Car
from carscraper.weighed import WeighedCache, compact

_SPECS = 8 * 1024**2
"""Bytes of the columns that are kept of specifications: most cars have one that came before. Of usual ones, of some 700
bytes, 10,000.
"""
_OBJECTS = 600
"""Bytes around what the columns are as JSON."""
_DIGEST = 16
"""Bytes of a digest: enough that no two readings of a listing ever share one by chance."""
_LEAST = bytes(8)
"""What the digest of a record without its specification begins with: of two readings in the same millisecond the one
with the greater digest counts, so any other."""
SPEC_MISSING = hashlib.blake2b(b"null", digest_size=_DIGEST).digest()
"""Digest of a specification that could not be had."""
SHAPELESS = (AttributeError, KeyError, TypeError, ValueError)
"""What it leads to when a pipeline has made something else of a car's attributes or specification."""


@dataclass(frozen=True, slots=True, eq=False)
class Specs:
    """What is made of a specification once for many records."""

    digest: bytes
    """Of its JSON, `_DIGEST` bytes."""
    columns: SpecColumns


@dataclass(frozen=True, slots=True)
class Record:
    """What a database is given of one reading of a listing. Its raw parts are there as JSON only: as objects they take
    up five times as much, and thousands may wait.
    """

    id: str
    url: str
    scraped_at: str
    attrs_json: bytes
    specs_json: bytes
    specs: Specs
    row: TypedRow
    digest: bytes
    """Differs when URL, raw parts, or the typed row made of them do; the time of the reading is no part of it."""

    @property
    def read_at(self) -> datetime:
        """When the listing was read, in UTC."""
        return datetime.fromisoformat(self.scraped_at)

    @property
    def car(self) -> Car:
        """The reading again, made anew each time."""
        attrs, groups = orjson.loads(self.attrs_json), orjson.loads(self.specs_json)
        return Car(self.id, self.url, self.scraped_at, attrs, groups)


class Records:
    """Makes records of cars, each specification once for the cars that share it."""

    def __init__(self) -> None:
        self._made: WeighedCache[bytes, Specs] = WeighedCache(_SPECS)
        """By digest."""

    def clear(self) -> None:
        """Keep nothing: no record comes for now."""
        self._made.clear()

    def specs(self, text: bytes) -> Specs:
        """Of the groups of a specification as JSON. Raises what those without the shape of groups lead to: one of
        `SHAPELESS`.
        """
        digest = hashlib.blake2b(text, digest_size=_DIGEST).digest()
        specs = self._made.get(digest)
        if specs is None:
            specs = Specs(digest, spec_columns(orjson.loads(text)))
            self._made.put(digest, specs, _OBJECTS + len(orjson.dumps(specs.columns, default=dict)))
        return specs


class Draft:
    """A car that JSON can hold, on its way to databases. Its record is made once, when the first of them wants it: a
    batch of records takes less time than as many made one by one, between other work.
    """

    __slots__ = (
        "_attrs_json",
        "_record",
        "_records",
        "_specs",
        "_specs_json",
        "id",
        "log_number",
        "scraped_at",
        "url",
    )

    def __init__(self, car: Car, records: Records) -> None:
        """Raises `orjson.JSONEncodeError` for a car that JSON cannot hold."""
        orjson.dumps((car.id, car.url, car.scraped_at))
        self.id, self.url, self.scraped_at = car.id, car.url, car.scraped_at
        self.log_number: int = getattr(car, "log_number", 0)
        """Of the car's entry in the item log; 0 when it is in none."""
        self._specs_json = car.specs_json
        self._attrs_json = compact(orjson.dumps(car.car_attrs))
        self._records = records
        self._specs: Specs | None = None
        self._record: Record | None = None
        with contextlib.suppress(*SHAPELESS):  # then `record` says so
            self._specs = records.specs(self._specs_json)

    @property
    def size(self) -> int:
        """Bytes of its raw parts as JSON."""
        return len(self._attrs_json) + len(self._specs_json)

    @property
    def record(self) -> Record:
        """Raises what a car without the shape of one leads to: one of `SHAPELESS`."""
        if self._record is None:
            self._record = self._make()
        return self._record

    def _make(self) -> Record:
        specs = self._specs or self._records.specs(self._specs_json)
        row = typed_row(orjson.loads(self._attrs_json), specs.columns)
        digest = hashlib.blake2b(self._attrs_json, digest_size=_DIGEST)
        digest.update(specs.digest)
        digest.update(orjson.dumps([self.url, row.unread, row.values]))
        whole = digest.digest()
        if specs.digest == SPEC_MISSING:
            whole = _LEAST + whole[len(_LEAST) :]
        reading = self.id, self.url, self.scraped_at, self._attrs_json, self._specs_json
        return Record(*reading, specs, row, whole)
