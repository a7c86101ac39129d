"""What one process has kept, in short: for the verdict, and for who publishes what, where its directory is not seen.

A part is made of pieces, each compressed. A line in them is an entry of the ledger (`["…"]`) or the process's newest
record of a listing: its id, what it has of a specification, and when it was read, in milliseconds since the epoch
(`["7001679",0,1795083300123]`).

Others can write where parts are left, so nothing is taken from there that is not bounded.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import compress, islice
from pathlib import Path
from typing import Any

import orjson

from carscraper.api.search_page import is_listing_id
from carscraper.catalogue.ids import PackedIds, numbered
from carscraper.items import OddSpec, PageRead, SetAside
from carscraper.output.archive import (
    CARS,
    LEDGER,
    SPECS_MISSING,
    WITHOUT_SPECS,
    Kept,
    mapped,
    newest_in,
    records_of,
    specs_of,
    time_of,
)
from carscraper.output.entries import LedgerItem, decode
from scrapy_durable.exceptions import CodecError, FrontierDamaged
from scrapy_durable.item_log import flushed_items, whole_log

MOST_PROCESSES = 1 << 16
"""Of a catalogue."""
_PIECE = 2 << 20
"""Bytes of a piece before they are compressed, but for one line."""
_LARGEST_PIECE = 64 << 20
"""Bytes that one may come to when it is read."""
_LARGEST = 1 << 30
"""Bytes that all pieces of a part may come to."""
_LATEST = 1 << 45
"""Milliseconds since the epoch, about a thousand years."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Part:
    """Of one process, up to so many entries of its logs, which only grow."""

    entries: int
    ledger: list[bytes]
    listings: PackedIds
    newest: array[int]
    """Of each listing its newest record: when it was read, and in the last two bits what it has of a specification."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What several processes have kept, put together."""

    kept: Kept
    """Of all of them, without places: where a record lies is known where it lies."""
    owned: dict[str, PackedIds]
    """Process to the listings of which it has the newest record; of two read in the same millisecond, the process of
    the greater name has it."""

    def share(self, kept: Kept, processes: Iterable[str]) -> Kept:
        """What is published where the directories of these lie, of all that is `kept` there."""
        here = [self.owned[process] for process in processes if process in self.owned]
        numbers, count = numbered([kept.listings, *here])
        is_owned = bytearray(count)
        for own in numbers[1:]:
            for number in own:
                is_owned[number] = 1
        counts = bytearray(is_owned[number] for number in numbers[0])
        following = iter(counts)
        begins = [array("I", compress(own, islice(following, len(own)))) for own in kept.begins]
        return replace(kept, begins=begins, listings=PackedIds(compress(kept.listings, counts)))


def read_part(directory: Path) -> Part:
    """Make the part of a process out of its directory. Raises as `Archive.kept`."""
    kept = newest_in(list(whole_log(directory / CARS)))
    newest = array(
        "Q", (_packed(specs_of(line), _milliseconds(time_of(line))) for _, line in records_of(kept))
    )
    ledger = list[bytes]()
    for path in whole_log(directory / LEDGER):
        with mapped(path) as content:
            ledger += [bytes(content[begin:end]) for begin, end in flushed_items(path, content)]
    return Part(kept.entries + len(ledger), ledger, kept.listings, newest)


def pieces_of(part: Part) -> Iterator[bytes]:
    """The part, for `part_of`."""
    lines, size = list[bytes](), 0
    for line in _lines(part):
        lines.append(line)
        size += len(line)
        if size >= _PIECE:
            yield zlib.compress(b"\n".join(lines), 1)
            lines, size = [], 0
    yield zlib.compress(b"\n".join(lines), 1)


def part_of(process: str, entries: int, pieces: Iterable[bytes]) -> Part:
    """The part of that process again, up to so many entries. Raises `FrontierDamaged` for what is none."""
    try:
        return _read(entries, pieces)
    except (ValueError, zlib.error) as error:
        raise FrontierDamaged(
            f"what worker {process} has kept cannot be read ({error}), so somebody else has written it"
        ) from error


def put_together(parts: Mapping[str, Part]) -> Whole:
    """Of processes by name, at most `MOST_PROCESSES`."""
    names = sorted(parts)
    groups = [parts[name].listings for name in names]
    numbers, count = numbered(groups)
    newest = array("Q", bytes(8 * count))
    for at, (name, own) in enumerate(zip(names, numbers, strict=True)):
        for number, record in zip(own, parts[name].newest, strict=True):
            newest[number] = max(newest[number], _order(record, at))
    owned, listings, without_specs, spec_missing = {}, PackedIds(), 0, list[str]()
    for at, (name, own) in enumerate(zip(names, numbers, strict=True)):
        ids = list[str]()
        for listing, number, record in zip(groups[at], own, parts[name].newest, strict=True):
            if newest[number] == _order(record, at):
                newest[number] = 0  # it is owned
                ids.append(listing)
                without_specs += record & 3 == WITHOUT_SPECS
                if record & 3 == SPECS_MISSING:
                    spec_missing.append(listing)
        owned[name] = PackedIds(ids)
        listings.extend(ids)
    return Whole(Kept([], [], listings, without_specs, sorted(spec_missing)), owned)


def ledger_of(parts: Mapping[str, Part]) -> Iterator[LedgerItem]:
    """What these processes have noted. Raises `FrontierDamaged` for what is none of ours."""
    for process, part in sorted(parts.items()):
        for entry in part.ledger:
            try:
                item: Any = decode(entry)
            except CodecError as error:
                raise FrontierDamaged(f"the ledger of worker {process} cannot be read: {error}") from error
            if not isinstance(item, PageRead | OddSpec | SetAside):
                raise FrontierDamaged(f"the ledger of worker {process} has an entry that is none of ours")
            yield item


def _read(entries: int, pieces: Iterable[bytes]) -> Part:
    """Raises ValueError and `zlib.error`."""
    ledger, listings, newest, size = list[bytes](), PackedIds(), array("Q"), 0
    for piece in pieces:
        text, found = _decompressed(piece), list[str]()
        size += len(text)
        if size > _LARGEST:
            raise ValueError(f"there are more than {_LARGEST} bytes")
        for line in text.splitlines():
            match orjson.loads(line):
                case [str(entry)]:
                    ledger.append(entry.encode())
                case [listing, specs, time] if is_listing_id(listing):
                    newest.append(_packed(_checked(specs, SPECS_MISSING + 1), _checked(time, _LATEST)))
                    found.append(listing)
                case _:
                    raise ValueError("there is a line of no kind")
        listings.extend(found)
        if len(ledger) + len(listings) > entries:
            raise ValueError(f"there is more than {entries} entries come to")
    return Part(entries, ledger, listings, newest)


def _packed(specs: int, time: int) -> int:
    return time << 2 | specs


def _order(record: int, process: int) -> int:
    """By which of the records of one listing is the newest, as `Kept` has it; never 0."""
    readable = record & 3 != SPECS_MISSING
    return readable << 63 | record >> 2 << 18 | process << 2 | record & 3


def _milliseconds(time: bytes) -> int:
    """Of a time as `Car.scraped_at` has it."""
    return (datetime.fromisoformat(time.decode()) - _EPOCH) // timedelta(milliseconds=1)


def _checked(value: object, below: int) -> int:
    """Raises ValueError for what is not a number from 0 up to that."""
    if type(value) is not int or not 0 <= value < below:
        raise ValueError(f"there is something else than a number below {below}")
    return value


def _lines(part: Part) -> Iterator[bytes]:
    for entry in part.ledger:
        yield orjson.dumps([entry.decode()])
    for listing, record in zip(part.listings, part.newest, strict=True):
        yield orjson.dumps([listing, record & 3, record >> 2])


def _decompressed(piece: bytes) -> bytes:
    """Raises ValueError for one that is too large or cut short, and `zlib.error`."""
    decompressor = zlib.decompressobj()
    text = decompressor.decompress(piece, _LARGEST_PIECE)
    if not decompressor.eof:
        raise ValueError("a piece is too large, or cut short")
    return text
