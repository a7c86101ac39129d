"""A car made ready for a database: its raw parts as JSON, its typed row, and a digest of all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from carscraper.api.units import COLUMNS, SpecColumns, TypedRow, spec_columns, typed_row
from carscraper.items import Car, SpecGroups
from carscraper.weighed import WeighedCache

_SPECS = 64 * 1024**2
"""Bytes of the specifications of which something is kept: most cars have one that came before."""
_DIGEST = 16
"""Bytes of a digest: enough that no two readings of a listing ever share one by chance."""
_LEAST = bytes(8)
"""What the digest of a record without its specification begins with: of two readings in the same millisecond the one
with the greater digest counts, so any other."""
SPEC_MISSING = hashlib.blake2b(b"null", digest_size=_DIGEST).digest()
"""Digest of a specification that could not be had."""
SHAPELESS = (AttributeError, KeyError, TypeError, ValueError)
"""What it leads to when a pipeline has made something else of a car's attributes or specification."""
_values = attrgetter(*COLUMNS)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Specs:
    """What is made of a specification once for many records; a key to what others make of it."""

    digest: bytes
    """Of its JSON, `_DIGEST` bytes."""
    columns: SpecColumns


@dataclass(frozen=True, slots=True)
class Record:
    """What a database is given of one reading of a listing."""

    car: Car
    attrs_json: bytes
    specs_json: bytes
    specs: Specs
    row: TypedRow
    values: tuple[Any, ...]
    """The row's, in the order of `COLUMNS`."""
    digest: bytes
    """Differs when URL, raw parts, or the typed row made of them do; the time of the reading is no part of it."""

    @property
    def read_at(self) -> datetime:
        """When the listing was read, in UTC."""
        return datetime.fromisoformat(self.car.scraped_at)


class Records:
    """Makes records of cars, each specification once for the cars that share it."""

    def __init__(self) -> None:
        self._made: WeighedCache[bytes, Specs] = WeighedCache(_SPECS)
        """By digest."""

    def make(self, car: Car, attrs_json: bytes, specs_json: bytes) -> Record:
        """Raises what a car without the shape of one leads to: one of `SHAPELESS`."""
        specs = self._specs(car.car_specs, specs_json)
        row = typed_row(car.car_attrs, specs.columns)
        values = _values(row)
        digest = hashlib.blake2b(attrs_json, digest_size=_DIGEST)
        digest.update(specs.digest)
        digest.update(orjson.dumps([car.url, row.unread, values]))
        whole = digest.digest()
        if car.car_specs is None:
            whole = _LEAST + whole[len(_LEAST) :]
        return Record(car, attrs_json, specs_json, specs, row, values, whole)

    def _specs(self, groups: list[dict[str, Any]] | None, text: bytes) -> Specs:
        digest = hashlib.blake2b(text, digest_size=_DIGEST).digest()
        specs = self._made.get(digest)
        if specs is None:
            specs = Specs(digest, spec_columns(groups))
            self._made.put(digest, specs, len(text))
        return specs


class Draft:
    """A car that JSON can hold, on its way to databases. Its record is made once, when the first of them wants it: a
    batch of records takes less time than as many made one by one, between other work.
    """

    __slots__ = ("_attrs_json", "_record", "_records", "_specs_json", "car")

    def __init__(self, car: Car, records: Records) -> None:
        """Raises `orjson.JSONEncodeError` for a car that JSON cannot hold."""
        groups = car.car_specs
        orjson.dumps((car.id, car.url, car.scraped_at))
        self.car = car
        self._specs_json = groups.json if isinstance(groups, SpecGroups) else orjson.dumps(groups)
        self._attrs_json = orjson.dumps(car.car_attrs)
        self._records = records
        self._record: Record | None = None

    @property
    def size(self) -> int:
        """Bytes of its raw parts as JSON."""
        return len(self._attrs_json) + len(self._specs_json)

    @property
    def record(self) -> Record:
        """As of `Records.make`."""
        if self._record is None:
            self._record = self._records.make(self.car, self._attrs_json, self._specs_json)
        return self._record
