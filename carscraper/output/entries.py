"""What a crawl keeps, as it stands in its item logs: records, and what the verdict is reached from."""

from __future__ import annotations

import mmap
import re
from typing import Any

from carscraper.items import Car, OddSpec, PageRead, Removal, SetAside
from scrapy_durable.item_log import ItemCodec

LedgerItem = PageRead | OddSpec | SetAside

CODEC = ItemCodec(Car)
"""Of all that is kept."""
_CAR = b'P["carscraper.items:Car",'
"""What a record begins with: the codec's word for an item that has parts, and the class."""
_LINE = re.compile(rb'\{"id":"([^"]*)"(?=,)')
_ERASED = b"null"
"""What stands where a record was, followed by spaces: no item."""


def encode_car(car: Car) -> bytes:
    """A record as it is kept, its JSON last. Raises `orjson.JSONEncodeError` when JSON cannot hold it."""
    return CODEC.encode_parts(Car, *car.record_parts)


def encode(item: LedgerItem | Removal) -> bytes:
    """What is kept of it."""
    return CODEC.encode(item)


def decode(entry: bytes) -> Any:
    """The item again; None for a record that was erased. Raises `CodecError` for what is none of ours."""
    return CODEC.decode(entry)


def listing_in(content: mmap.mmap | bytes, begin: int, end: int) -> str | None:
    """The listing of the record that stands there; None for anything else.

    Raises `ValueError` for a record whose JSON does not begin as ours.
    """
    if content[begin : begin + len(_CAR)] != _CAR:
        return None
    line = line_begin(content, begin, end)
    found = _LINE.match(content, line, end)
    if found is None:
        raise ValueError(f"not a record of ours: {content[line : min(end, line + 80)]!r}")
    return found[1].decode()


def line_begin(content: mmap.mmap | bytes, begin: int, end: int) -> int:
    """Where the JSON begins of the record that stands there; it ends with it."""
    return content.find(b"\n", begin, end) + 1


def erased(entry: bytes) -> bytes:
    """What takes the place of a record, as long as it."""
    return _ERASED.ljust(len(entry))


def replaced(entry: bytes, *items: SetAside) -> bytes:
    """The first of these that is not longer than what was there, and as long as that, behind it spaces."""
    for item in items:
        if len(text := encode(item)) <= len(entry):
            return text.ljust(len(entry))
    raise ValueError(f"{len(entry)} bytes are too short")
