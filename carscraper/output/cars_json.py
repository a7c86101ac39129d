"""`cars.json` read back, one record at a time: the file may be larger than memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from carscraper.items import Car
from scrapy_durable.exceptions import ConfigurationError

CARS_JSON = "cars.json"
"""Its name in the output directory."""

_LONGEST = 1 << 25
"""Bytes; no line of ours is longer, and another file must not be read into memory whole."""

_TYPES: dict[str, type] = {"id": str, "url": str, "scraped_at": str, "car_attrs": dict, "car_specs": list}


_RECORD = re.compile(rb'\{"id":"([0-9A-Za-z_-]{1,64})",')


class Line(NamedTuple):
    """A record as it stands in the file."""

    listing: str
    start: int
    """Bytes before it."""
    text: bytes
    """Without what parts it from the next."""


def published_lines(path: Path) -> Iterator[Line]:
    """The records of a file that a crawl has published, none of them parsed.

    Raises `ValueError` for a file that is none of ours, or cut short, and `OSError`.
    """
    with path.open("rb") as file:
        start = len(head := file.readline(_LONGEST))
        if head == b"[]\n":
            return
        if head != b"[\n":
            raise ValueError("it is no file that a crawl writes")
        for line in iter(lambda: file.readline(_LONGEST), b"]\n"):
            found = _RECORD.match(line)
            if found is None or not line.endswith(b"\n"):
                raise ValueError("it is damaged, or cut short")
            yield Line(found[1].decode(), start, line.removesuffix(b"\n").removesuffix(b","))
            start += len(line)


def read_cars(path: Path) -> Iterator[Car]:
    """The records in the order of the file, which `archive.py` writes: `[`, a record a line, `]`.

    Raises `ConfigurationError` when the file is missing or damaged; the message names it, and the line.
    """
    try:
        with path.open("rb") as file:
            yield from _records(path, file)
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path}: there is no such file; a crawl makes it when it ends") from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error


def _records(path: Path, file: IO[bytes]) -> Iterator[Car]:
    number = 1

    def damage(problem: str) -> ConfigurationError:
        return ConfigurationError(f"{path}: line {number}: {problem}")

    line = file.readline(_LONGEST)
    if line not in (b"[\n", b"[]\n"):
        raise damage(f"is {_shown(line)}, not the beginning of a file that a crawl writes")
    more = line == b"[\n"
    while more:
        number += 1
        line = file.readline(_LONGEST)
        more = line.endswith(b",\n")
        if not line.endswith(b"\n"):
            raise damage("is cut short" if line else "is missing: the file is cut short")
        try:
            car = _car(line[:-2] if more else line[:-1])
        except ValueError as error:
            raise damage(str(error)) from error
        yield car
        if not more:
            number += 1
            if file.readline(_LONGEST) != b"]\n":
                raise damage("is not the ] that ends the file")
    number += 1
    if file.read(1):
        raise damage("stands behind the end of the array")


def _car(text: bytes) -> Car:
    """Raises `ValueError` when the text is no record of ours."""
    try:
        record: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error.msg} at column {error.colno}") from error
    if type(record) is not dict or record.keys() != _TYPES.keys():
        raise ValueError(f"is {_shown(text)}, not the record of a car")
    for name, kind in _TYPES.items():
        if type(record[name]) is not kind and not (name == "car_specs" and record[name] is None):
            raise ValueError(f"{name} is {_shown(orjson.dumps(record[name]))}")
    try:
        aware = datetime.fromisoformat(record["scraped_at"]).tzinfo is not None
    except ValueError:
        aware = False
    if not aware:
        raise ValueError(f"scraped_at is {_shown(orjson.dumps(record['scraped_at']))}, no time with a zone")
    return Car(**record)


def _shown(text: bytes) -> str:
    """The beginning of it, on one line."""
    return repr(text[:60].decode("utf-8", "replace"))
