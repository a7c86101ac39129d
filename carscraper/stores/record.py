"""A car made ready for a database: its raw parts as JSON, its typed row, and a digest of all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

import orjson

from carscraper.api.rows import SpecColumns, TypedRow, spec_columns, typed_row
from carscraper.items import DIGEST, Car, Specification
from carscraper.weighed import WeighedCache, compact

COLUMNS = 2 * 1024**2
"""Bytes of the columns that are kept of specifications by digest. Of usual ones, of some 700 bytes, there are 2,500."""
_OBJECTS = 600
"""Bytes around what the columns are as JSON."""
_USUAL = 2000
"""Bytes that the columns of a specification may take which are kept with it, as long as it is known."""
_LEAST = bytes(8)
"""What the digest of a record without its specification begins with: of two readings in the same millisecond the one
with the greater digest counts, so any other."""
SPEC_MISSING = Specification(None).digest
"""Digest of a specification that could not be had."""
SHAPELESS = (AttributeError, KeyError, TypeError, ValueError)
"""What it leads to when a pipeline has made something else of a car's attributes or specification."""


@dataclass(slots=True)
class Record:
    """What a database is given of one reading of a listing. Its raw parts are there as JSON only: as objects they take
    up five times as much, and thousands may wait. (Not frozen, for the time that takes.)
    """

    id: str
    url: str
    scraped_at: str
    attrs_json: bytes
    specs: Specification
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
        return Car(self.id, self.url, self.scraped_at, orjson.loads(self.attrs_json), self.specs.groups)


class Records:
    """Makes records of cars, the columns of a specification once for the cars that share it. Those of a crawl share the
    object. Of what is read from a log each has its own, so columns are kept by digest, too.
    """

    def __init__(self, most: int = COLUMNS) -> None:
        """`most` bytes of columns are kept."""
        self._made: WeighedCache[bytes, SpecColumns] = WeighedCache(most)

    def clear(self) -> None:
        """Keep nothing: no record comes for now."""
        self._made.clear()

    def columns(self, specs: Specification) -> SpecColumns:
        """Of a specification, which keeps them unless they are odd. Raises what groups without the shape of such lead
        to: one of `SHAPELESS`.
        """
        found = specs.columns or self._made.get(specs.digest)
        if found is None:
            found = spec_columns(specs.groups)
            weight = _OBJECTS + len(orjson.dumps(found, default=dict))
            self._made.put(specs.digest, found, weight)
            if weight <= _USUAL:
                specs.columns = found
        return found


class Draft:
    """A car that JSON can hold, on its way to databases. Its record is made once, when the first of them wants it: a
    batch of records takes less time than as many made one by one, between other work.
    """

    __slots__ = (
        "_attrs_json",
        "_record",
        "_records",
        "_specs",
        "id",
        "log_number",
        "scraped_at",
        "size",
        "url",
    )

    def __init__(self, car: Car, records: Records) -> None:
        """Raises `orjson.JSONEncodeError` for a car that JSON cannot hold."""
        orjson.dumps((car.id, car.url, car.scraped_at))
        self.id, self.url, self.scraped_at = car.id, car.url, car.scraped_at
        self.log_number: int = getattr(car, "log_number", 0)
        """Of the car's entry in the item log; 0 when it is in none."""
        self._specs = car.specification
        self._attrs_json = compact(orjson.dumps(car.car_attrs))
        self._records = records
        self._record: Record | None = None
        self.size = len(self._attrs_json) + len(self._specs.json)
        """Bytes of its raw parts as JSON."""

    @property
    def record(self) -> Record:
        """Raises what a car without the shape of one leads to: one of `SHAPELESS`."""
        if self._record is None:
            self._record = self._make()
        return self._record

    def _make(self) -> Record:
        specs = self._specs
        row = typed_row(orjson.loads(self._attrs_json), self._records.columns(specs))
        digest = hashlib.blake2b(self._attrs_json, digest_size=DIGEST)
        digest.update(specs.digest)
        digest.update(orjson.dumps([self.url, row.unread, row.values]))
        whole = digest.digest()
        if specs.digest == SPEC_MISSING:
            whole = _LEAST + whole[len(_LEAST) :]
        return Record(self.id, self.url, self.scraped_at, self._attrs_json, specs, row, whole)
