"""What the page about cars needs of a `cars.json`: counts, and arrays of numbers, some 30 bytes a listing."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from carscraper.api.columns import COLUMNS, DECLARED
from carscraper.api.endpoints import LONGEST_LINK, web_url
from carscraper.api.rows import TypedRow, spec_columns, typed_row
from carscraper.output.cars_json import published_lines
from scrapy_durable.plain import plain

LONGEST_NAME = 80
"""Characters of a make, model or province; what is longer is no name, and cut."""
MOST_MODELS = 20_000
"""Different makes and models, and provinces; what comes after them is counted as `OTHERS`."""
MOST_CARS = 2_000_000
"""Listings that a chart can be made of, 60 MB; what comes after them is only counted."""
OTHERS = "(others)"
UNKNOWN = "(unknown)"
_SPECS_KEPT = 100_000
"""Specifications that are read once; others are read for each listing again."""
_SPECS = b',"car_specs":'
_NONE = -1
_NOTHING = spec_columns(None)
_USED = itemgetter(
    *map(list(COLUMNS).index, ("make", "model", "province", "year", "mileage_km", "price_zar"))
)
_OF_LISTINGS = [place for place, column in enumerate(DECLARED) if column.attribute]


@dataclass(slots=True)
class Catalogue:
    """A published catalogue."""

    published: datetime
    listings: int = 0
    makes: Counter[str] = field(default_factory=Counter)
    provinces: Counter[str] = field(default_factory=Counter)
    filled: list[int] = field(default_factory=lambda: [0] * len(COLUMNS))
    """How many listings have a value, in the order of `COLUMNS`."""
    models: dict[str, dict[str, int]] = field(default_factory=dict)
    """By make, and by model the number that `of_model` takes."""
    links: dict[str, str] = field(default_factory=dict)
    """Addresses of the pages of those listings that were asked for, http or https."""
    _numbers: int = 0
    _model: array[int] = field(default_factory=lambda: array("i"))
    _year: array[int] = field(default_factory=lambda: array("h"))
    _mileage: array[int] = field(default_factory=lambda: array("q"))
    _price: array[int] = field(default_factory=lambda: array("q"))

    def of_model(self, make: str, model: str) -> list[tuple[int | None, int | None, int]]:
        """Year, mileage in km and price in rand of each listing of a model that has a price; empty where there is no
        such model.
        """
        number = self.models.get(make, {}).get(model)
        return [
            (
                None if self._year[place] == _NONE else self._year[place],
                None if self._mileage[place] == _NONE else self._mileage[place],
                self._price[place],
            )
            for place, found in enumerate(self._model)
            if found == number and self._price[place] > 0
        ]

    def counts(self, make: str) -> dict[str, int]:
        """How many listings each model of a make has."""
        numbers = {number: model for model, number in self.models.get(make, {}).items()}
        found: Counter[str] = Counter(numbers[number] for number in self._model if number in numbers)
        return dict(found)

    def add(self, row: TypedRow, specs: Sequence[int]) -> None:
        """Take in one listing, by its own attributes, and the places of the columns that its specification fills."""
        self.listings += 1
        values, filled = row.values, self.filled
        for place in specs:
            if values[place] is None:
                filled[place] += 1
        for place in _OF_LISTINGS:
            if values[place] is not None:
                filled[place] += 1
        make, model, province, year, mileage, price = _USED(values)
        self.provinces[_counted(self.provinces, _name(province))] += 1
        make = _counted(self.makes, _name(make))
        self.makes[make] += 1
        if len(self._model) < MOST_CARS:
            self._model.append(self._number(make, _name(model)))
            self._year.append(_NONE if year is None else year)
            self._mileage.append(_NONE if mileage is None else mileage)
            self._price.append(_NONE if price is None else price)

    def _number(self, make: str, model: str) -> int:
        known = self.models.setdefault(make, {})
        if model not in known and self._numbers >= MOST_MODELS:
            model = OTHERS
        if model not in known:
            known[model] = self._numbers
            self._numbers += 1
        return known[model]


def read_catalogue(path: Path, wanted: Collection[str] = ()) -> Catalogue:
    """The catalogue in a file that a crawl has published, with the links of the listings that are wanted.

    Raises `FileNotFoundError`, `ValueError` when the file is none of ours or damaged, and `OSError`.
    """
    found = Catalogue(datetime.fromtimestamp(path.stat().st_mtime, UTC))
    specs = _Specs()
    for line in published_lines(path):
        record, filled = specs.parted(line.text)
        attributes = record.get("car_attrs")
        if type(attributes) is not dict:
            raise ValueError(f"listing {line.listing} has no attributes")
        found.add(typed_row(attributes, _NOTHING), filled)
        if line.listing in wanted:
            link = web_url(record.get("url"))
            if link and len(link) <= LONGEST_LINK:
                found.links[line.listing] = link
    return found


class _Specs:
    """Which columns specifications fill: most are shared by many listings, and read once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, ...]] = {}

    def parted(self, text: bytes) -> tuple[dict[str, Any], tuple[int, ...]]:
        """A record without its specification, and what that fills. Raises `ValueError`."""
        place = text.find(_SPECS)
        try:
            record = orjson.loads(text[:place] + b"}")
        except orjson.JSONDecodeError:  # an attribute of that name, or damage
            record = orjson.loads(text)
            return record, _filled(record.get("car_specs"))
        key = hash(text[place:])
        found = self._known.get(key)
        if found is None:
            found = _filled(orjson.loads(text[place + len(_SPECS) : -1]))
            if len(self._known) < _SPECS_KEPT:
                self._known[key] = found
        return record, found


def _filled(specs: Any) -> tuple[int, ...]:
    """The places of the columns that have a value whatever the listing tells."""
    row = typed_row({}, specs if type(specs) is list else None)
    return tuple(place for place, value in enumerate(row.values) if value is not None)


def shown_name(text: str) -> str:
    """As names are known here: harmless where they are shown, and short."""
    return plain(text[:LONGEST_NAME])[:LONGEST_NAME]


@lru_cache(maxsize=MOST_MODELS)
def _name(text: str | None) -> str:
    return shown_name(text) if text else UNKNOWN


def _counted(names: Mapping[str, int], name: str) -> str:
    return name if name in names or len(names) < MOST_MODELS else OTHERS
