"""The search part of a listing query: which vehicles its filters let through.

The parameters are the API's; that names are compared without regard to case, that values of one name are
alternatives, and that a range may be open (`2015-`, `-100000`) is invented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from carscraper.demo.vehicle import Vehicle

Parameter = tuple[str, str]

_NAME = re.compile(r"(?P<name>[a-z_]+)(?P<keys>(?:\[[^\[\]]*\])*)")
_RANGE = re.compile(r"(\d*)-(\d*)")
_NUMBERS: dict[str, Callable[[Vehicle], int | None]] = {
    "year": lambda car: car.year,
    "price": lambda car: car.price,
    "mileage": lambda car: car.mileage,
}


class BadSearchError(ValueError):
    """Raised when a filter cannot be understood; the message names it."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search asks for; empty members ask for nothing. Ranges include both ends."""

    models: tuple[tuple[str, ...], ...] = ()
    provinces: frozenset[str] = frozenset()
    new_or_used: frozenset[str] = frozenset()
    keywords: tuple[str, ...] = ()
    ranges: tuple[tuple[str, int, int], ...] = ()

    def accept(self, car: Vehicle) -> bool:
        """True when `car` fits every member."""
        if self.models and not any(_is_model(wanted, car) for wanted in self.models):
            return False
        if self.provinces and (car.province or "").casefold() not in self.provinces:
            return False
        if self.new_or_used and car.new_or_used.casefold() not in self.new_or_used:
            return False
        title = car.title.casefold() if self.keywords else ""
        if not all(word in title for word in self.keywords):
            return False
        for name in {name for name, _, _ in self.ranges}:
            value = _NUMBERS[name](car)
            wanted = [(low, high) for other, low, high in self.ranges if other == name]
            if value is None or not any(low <= value <= high for low, high in wanted):
                return False
        return True


def parse_filters(query: Iterable[Parameter]) -> Filters:
    """The filters among the parameters of a listing query; the others are left alone.

    Raises BadSearchError for a range that is none.
    """
    models, provinces, conditions = [], set(), set()
    keywords: list[str] = []
    ranges = []
    for raw_name, value in query:
        parts = _NAME.fullmatch(raw_name)
        if parts is None:
            continue
        name, keys = parts["name"], tuple(re.findall(r"\[([^\[\]]*)\]", parts["keys"]))
        if name == "make_model_variant":
            models.append(tuple(key.casefold() for key in keys))
        elif name == "province":
            provinces.add(value.casefold())
        elif name == "new_or_used":
            conditions.add(value.casefold())
        elif name == "keyword":
            keywords += value.casefold().split()
        elif name in _NUMBERS:
            ranges.append((name, *_range(raw_name, value)))
    return Filters(tuple(models), frozenset(provinces), frozenset(conditions), tuple(keywords), tuple(ranges))


def _is_model(wanted: tuple[str, ...], car: Vehicle) -> bool:
    model = car.version.model
    own = (model.make.casefold(), model.name.casefold(), car.version.variant.casefold())
    return all(name in ("all", mine) for name, mine in zip(wanted, own, strict=False))


def _range(name: str, value: str) -> tuple[int, int]:
    ends = _RANGE.fullmatch(value)
    if ends is None:
        raise BadSearchError(f"{name}: not a range such as 2015-2020: {value!r}")
    return int(ends[1] or 0), int(ends[2] or 10**12)
