"""Where answers depart from their known shape: kept as they came, and counted by path and type, with an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, TypedDict

import orjson

MOST_PATHS = 200
"""Paths that are counted apart, of one answer or of a crawl; further ones are counted under `OTHERS`."""
OTHERS = "(other paths)"
MISSING = "missing"
"""The type of a value that is not there."""
_LONGEST_EXAMPLE = 80
"""Characters."""
MAY_BE_ABSENT = frozenset(
    {"agent_vin_required", "monthly_price", "options", "variant_short", "vehicle_axle_config"}
)
"""Attributes that some listings have and others have not; that one is absent is counted, and no change of the API."""
_KINDS: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
}


class Deviation(TypedDict):
    """What was found at one path instead of what is known."""

    count: int
    types: dict[str, int]
    """JSON type, or `missing`, or `new field`, and how often it was found."""
    example: Any
    """The first one found, cut to 80 characters; an array or an object is shown as text."""


Deviations = dict[str, Deviation]
"""By path, without positions: `data[].attributes.price`."""


def kind(value: object) -> str:
    """The JSON type of a value, as in a JSON Schema."""
    return _KINDS[type(value)]


def note(found: Deviations, path: str, value: object, kind_found: str = "") -> None:
    """Count one more deviation; `kind_found` where its JSON type does not tell what is odd about it."""
    kind_found = kind_found or kind(value)
    entry = found.get(path)
    if entry is None:
        entry = _entry(found, path, value)
    entry["count"] += 1
    entry["types"][kind_found] = entry["types"].get(kind_found, 0) + 1


def add(found: Deviations, more: Mapping[str, Deviation]) -> None:
    """Count all of `more` too."""
    for path, deviation in more.items():
        entry = found.get(path)
        if entry is None:
            entry = _entry(found, path, deviation["example"])
        entry["count"] += deviation["count"]
        for name, count in deviation["types"].items():
            entry["types"][name] = entry["types"].get(name, 0) + count


def departures(deviations: Mapping[str, Deviation]) -> Iterator[str]:
    """What of them is a change of the API, in words, as in `data[].attributes.price: string, such as 'POA'`: all but an
    attribute that may be absent, and is.
    """
    for path, deviation in deviations.items():
        kinds = ", ".join(deviation["types"])
        if kinds == MISSING and path.rpartition(".")[2] in MAY_BE_ABSENT:
            continue
        example = "" if kinds in (MISSING, "null") else f", such as {deviation['example']!r}"
        yield f"{path}: {kinds}{example}"


def _entry(found: Deviations, path: str, value: object) -> Deviation:
    if len(found) >= MOST_PATHS:
        path = OTHERS
    return found.setdefault(path, {"count": 0, "types": {}, "example": _example(value)})


def _example(value: object) -> object:
    if isinstance(value, list | dict):
        try:
            value = orjson.dumps(value).decode()
        except orjson.JSONEncodeError:
            value = f"{kind(value)}, too deep to be shown"
    if isinstance(value, str) and len(value) > _LONGEST_EXAMPLE:
        return f"{value[:_LONGEST_EXAMPLE]}…"
    return value


# Needed values, read without loss


def coerced_id(value: object) -> object:
    """A listing's id written as a whole number, as text; any other value as it is."""
    number = _whole(value)
    return value if number is None else str(number)


def coerced_code(value: object) -> object:
    """A code written as a whole number, as text; any other value as it is: `12.0` may be `12` or `12.0`."""
    return str(value) if type(value) is int else value


def coerced_year(value: object) -> object:
    """A year written as text or with a fraction of nothing, as a whole number; any other value as it is."""
    if type(value) is str and len(value) == 4 and value.isascii() and value.isdigit():
        return int(value)
    number = _whole(value)
    return value if number is None else number


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value
    if type(value) is float and abs(value) < 2**53 and value.is_integer():
        return int(value)
    return None
