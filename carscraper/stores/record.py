"""A car made ready for a database: its raw parts as JSON, its typed row, and a digest of all."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from carscraper.api.units import SpecColumns, TypedRow, spec_columns, typed_row
from carscraper.items import Car, SpecGroups

_SPECS = 8192
"""Specifications of which the columns are kept, about 1.5 KB each: most cars have one that came before."""
_DIGEST = 16
"""Bytes of a digest: enough that no two readings of a listing ever share one by chance."""


@dataclass(frozen=True, slots=True)
class Specs:
    """A specification made ready."""

    json: bytes
    digest: bytes
    """Of the JSON, `_DIGEST` bytes."""
    columns: SpecColumns


@dataclass(frozen=True, slots=True)
class Record:
    """What a database is given of one reading of a listing."""

    car: Car
    attrs_json: bytes
    specs: Specs
    row: TypedRow
    digest: bytes
    """Differs when URL, raw parts, or the typed row made of them do; the time of the reading is no part of it."""

    @property
    def read_at(self) -> datetime:
        """When the listing was read, in UTC."""
        return datetime.fromisoformat(self.car.scraped_at)


class Records:
    """Makes records of cars, each specification once for the cars that share it."""

    def __init__(self) -> None:
        self._columns: OrderedDict[bytes, SpecColumns] = OrderedDict()

    def of(self, car: Car) -> Record:
        """Raises `orjson.JSONEncodeError` for a car that JSON cannot hold."""
        specs = self._specs(car.car_specs)
        attrs = orjson.dumps(car.car_attrs)
        row = typed_row(car.car_attrs, specs.columns)
        digest = hashlib.blake2b(attrs, digest_size=_DIGEST)
        digest.update(specs.digest)
        digest.update(orjson.dumps([car.url, row]))
        return Record(car, attrs, specs, row, digest.digest())

    def _specs(self, groups: list[dict[str, Any]]) -> Specs:
        text = groups.json if isinstance(groups, SpecGroups) else orjson.dumps(groups)
        digest = hashlib.blake2b(text, digest_size=_DIGEST).digest()
        columns = self._columns.get(digest)
        if columns is None:
            columns = self._columns[digest] = spec_columns(groups)
            if len(self._columns) > _SPECS:
                self._columns.popitem(last=False)
        return Specs(text, digest, columns)
