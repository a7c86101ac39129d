"""What a crawl has kept on disk, in the item logs of its processes, and what is published from them.

Under the output directory:

    cars.json                 the records of the last complete crawl, one JSON array
    cars.incomplete.json      those of the last run, when that was not complete
    run.json                  the last run's verdict
    crawls/<crawl id>/        what a crawl has kept:
        crawl.json            {"resumable": bool, "ended": bool, "complete": bool}
        .lock                 held by every process that works on it
        <ms>-<worker>/        what one process has kept, begun at that time (milliseconds since the epoch):
            cars/             an item log: the records, one `Car` an item
            ledger/           an item log of what the verdict is reached from: pages read, listings rejected

The items are under no lease: what is flushed counts, however often a listing is there, since its newest record does.
Names of processes sort by age and never clash. What a process had not flushed when it was killed is torn off, and what
was damaged since is found when it is read (`scrapy_durable/item_log/`).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import IO, NamedTuple

import orjson

from carscraper.catalogue.ids import PackedIds, numbered
from carscraper.catalogue.searches import output_directories
from carscraper.items import Car, Removal
from carscraper.output.entries import CODEC, LedgerItem, decode, encode, encode_car, line_begin, listing_in
from carscraper.output.occupancy import STATE, State, hold, read_state, remove_abandoned
from scrapy_durable.disk import write_atomically
from scrapy_durable.item_log import ItemLog, flushed_items, item_end, whole_log

CRAWLS = "crawls"
CARS, LEDGER = "cars", "ledger"
CARS_JSON, INCOMPLETE_JSON = "cars.json", "cars.incomplete.json"
_TIME_PREFIX = b',"scraped_at":"'
"""Nowhere before the field itself: a quotation mark inside a string is written with a backslash before it."""
_NO_SPECS_SUFFIX = b'"car_specs":[]}'
_MISSING_SPECS_SUFFIX = b'"car_specs":null}'
"""Of one whose specification could not be had."""
_SEGMENT_BYTES = 4 << 20
"""Of a file of a log at most, but for one flush: so much of it is in memory while it is read."""
_PIECE = 1 << 20
"""Bytes of a published file that are read at once."""


_PLACE_BITS = 40
"""Of a place, which is a number, those that say how many bytes of its file stand before the record; above them, the
number of the file.
"""
_BEFORE = (1 << _PLACE_BITS) - 1
HAS_SPECS, WITHOUT_SPECS, SPECS_MISSING = range(3)
"""What a record has of a specification; without: the API has none. Missing: it could not be had."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a crawl has kept: of each listing its newest record, the one that was read last, but for one whose
    specification could not be had, which counts for less than any other. Of two read in the same millisecond, the one
    counts whose line is the greater, so that it does not depend on who was first.

    A million listings take 17 MB.
    """

    files: list[Path]
    """The segments of records that were there, those of one process after those of another."""
    begins: list[array[int]]
    """Of each file, where its newest records begin."""
    listings: PackedIds
    """Their ids, in the same order."""
    without_specs: int
    """Of how many the API has no specification."""
    spec_missing: list[str]
    """The listings of those of which it could not be had; sorted."""
    entries: int = 0
    """How many entries the files have, these records and all others."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of one file."""

    ids: PackedIds
    begins: array[int]
    specs: bytearray
    entries: int


class LogPosition(NamedTuple):
    """Behind some of the records in the log of a process."""

    segment: int
    """Number of a segment; all before it are passed."""
    items: int
    """How many items of it are passed."""


class Archive:
    """What one crawl has kept, and this process keeps of it. Several processes may do so at once."""

    def __init__(
        self, output_dir: Path, crawl_id: str, worker: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives seconds since the epoch, the same for all workers of the crawl: it orders what they keep."""
        self.output_dir = output_dir
        self.crawl_id = crawl_id
        self.directory = output_dir / CRAWLS / crawl_id
        self.worker = worker
        self._clock = clock
        self._lock: IO[bytes] | None = None
        self._state = State()
        self._flushed = 0
        self._segments_begun: list[LogPosition] = []
        """Of the own log of records: the numbers of its segments, and how many records stand before each."""
        self._removal: Removal | None = None
        self._removal_number = 0

    def open(self, *, resumable: bool) -> None:
        """Make the crawl's directory, and mark it as in use for as long as this process lives. Raises `OSError`."""
        self._lock = hold(self.directory)
        self._state = State(resumable=resumable)
        self._mark()
        self.own_directory = self.directory / f"{int(self._clock() * 1000):014d}-{self.worker}"
        self.cars, self._ledger = (
            ItemLog(self.own_directory / kind, CODEC, segment_bytes=_SEGMENT_BYTES) for kind in (CARS, LEDGER)
        )
        self.cars.open(self.crawl_id)
        self._ledger.open(self.crawl_id)
        self._segments_begun = [LogPosition(self.cars.last_segment, 0)]

    def close(self) -> None:
        """Give up the mark of `open`; the files stay."""
        if self._lock:
            self.cars.close()
            self._ledger.close()
            self._lock.close()
            self._lock = None

    def keep(self, car: Car) -> int:
        """Have a record flushed with the next `write`; returns its bytes. Raises `orjson.JSONEncodeError` when JSON
        cannot hold it.
        """
        entry = encode_car(car)
        self.cars.append_encoded(0, entry)
        car.log_number = self.cars.received
        return len(entry)

    def keep_removal(self, removal: Removal) -> int:
        """The same of a removal; returns the number of its entry, also when it was the last one before already."""
        if removal != self._removal:
            self._removal = removal
            self.cars.append_encoded(0, encode(removal))
            self._removal_number = self.cars.received
        return self._removal_number

    def note(self, item: LedgerItem) -> int:
        """Have it flushed to the ledger with the next `write`; returns its bytes."""
        entry = encode(item)
        self._ledger.append_encoded(0, entry)
        return len(entry)

    async def write(self) -> None:
        """Make durable what has come. Raises `OSError`: then the next call tries again. One call at a time, and not to
        be cancelled.
        """
        await self.cars.write()
        # Both in one step: whoever asks for the position of a flushed record knows its segment.
        if self.cars.last_segment > self._segments_begun[-1].segment:
            self._segments_begun.append(LogPosition(self.cars.last_segment, self._flushed))
        self._flushed = self.cars.durable
        await self._ledger.write()

    @property
    def flushed(self) -> int:
        """So many of the records that this process has kept are on disk."""
        return self._flushed

    @property
    def entries(self) -> int:
        """So many entries of both logs are."""
        return self._flushed + self._ledger.durable

    def workers(self) -> dict[str, Path]:
        """Those of the crawl whose directories are here, this one among them, and which these are."""
        return {path.name.partition("-")[2]: path for path in self.directory.glob("[!.]*/")}

    def position_of(self, records: int) -> LogPosition:
        """Behind so many records that this process has kept and that are on disk."""
        index = bisect_right(self._segments_begun, records, key=lambda begun: begun.items) - 1
        segment, before = self._segments_begun[index]
        return LogPosition(segment, records - before)

    def ledger(self) -> Iterator[LedgerItem]:
        """What the crawl has noted, one process after the other, what a process has noted first coming first.

        Raises `ItemLogDamaged`, `OtherRelease`, `CodecError` and `OSError`.
        """
        for path in self._segments(LEDGER):
            with mapped(path) as content:
                for begin, end in flushed_items(path, content):
                    yield decode(content[begin:end])

    def kept(self) -> Kept:
        """Find the newest record of each listing, without parsing the records. Raises as `ledger`, and `ValueError`."""
        return newest_in(self._segments(CARS))

    def published(self) -> int | None:
        """How many records the last complete catalogue has: `cars.json`, or all that it was a share of; None when it is
        not there, or not one of ours.
        """
        try:
            with (self.output_dir / CARS_JSON).open("rb") as file:
                head = file.readline(len(b"[]\n"))
                lines = sum(block.count(b"\n") for block in iter(lambda: file.read(_PIECE), b""))
        except FileNotFoundError:
            return None
        if head not in (b"[\n", b"[]\n"):
            return None
        return max(lines - 1, *map(_listings_shared, self.directory.parent.glob(f"[!.]*/{STATE}")), 0)

    def publish(self, kept: Kept, *, complete: bool, listings: int = 0) -> str:
        """Make a file of what was kept: each id once, its newest record, a line each.

        It may be a share of a catalogue of so many `listings`.

        That is `cars.json` when they are `complete`, which then is all there is; else `cars.incomplete.json`
        beside it. Returns the name.
        """
        name = CARS_JSON if complete else INCOMPLETE_JSON
        write_atomically(self.output_dir / name, _array(self.records(kept)), large=True)
        self._state = replace(self._state, complete=complete, listings=listings)
        if complete:
            (self.output_dir / INCOMPLETE_JSON).unlink(missing_ok=True)
            self._mark()
        return name

    def records(self, kept: Kept) -> Iterator[tuple[str, bytes]]:
        """Ids and records as JSON that `publish` puts in the file, in its order."""
        return records_of(kept)

    def report(self, run: bytes) -> None:
        """Write `run.json`."""
        write_atomically(self.output_dir / "run.json", [run])

    def end(self) -> list[str]:
        """Call the crawl ended, never to be resumed, and remove what others have kept and nobody needs any more; what
        the last complete crawl has kept only when this one was complete.

        Returns what was left alone because it cannot be read, a sentence each.
        """
        self._state = replace(self._state, resumable=False, ended=True)
        self._mark()
        left_alone = []
        for directory in sorted(self.directory.parent.iterdir()):
            if directory != self.directory and directory.is_dir():
                try:
                    remove_abandoned(directory, complete_too=self._state.complete)
                except (OSError, ValueError) as error:
                    left_alone.append(f"{directory / STATE}: {error}")
        return left_alone

    def _segments(self, kind: str) -> list[Path]:
        """Of all processes of the crawl."""
        directories = sorted(self.directory.glob(f"[!.]*/{kind}"))
        return [path for directory in directories for path in whole_log(directory)]

    def _mark(self) -> None:
        write_atomically(self.directory / STATE, [orjson.dumps(self._state), b"\n"])


def crawls_in(output_dir: Path) -> list[Path]:
    """The directories of all crawls that have kept something, searches included, the oldest first."""
    parents = (directory / CRAWLS for directory in output_directories(output_dir))
    found = [crawl for parent in parents for crawl in parent.glob("[!.]*/")]
    return sorted(found, key=lambda crawl: crawl.name)


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The content of a file, in memory only as far as it is looked at."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # which cannot be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            yield text


def _listings_shared(state: Path) -> int:
    """How many listings the catalogue has of which a share was made of that crawl; 0 where nobody can tell."""
    try:
        found = read_state(state)
    except (OSError, ValueError):
        return 0  # named when the crawl ends
    return found.listings if found.complete else 0


def newest_in(files: list[Path]) -> Kept:
    """What the crawl has kept in these segments of records. Raises as `Archive.kept`."""
    found = [_records_in(path) for path in files]
    numbers, newest = _newest(files, found)
    begins, listings, without_specs, spec_missing = [], PackedIds(), 0, list[str]()
    for file, (records, own) in enumerate(zip(found, numbers, strict=True)):
        counts = bytearray(
            newest[number] == file << _PLACE_BITS | begin
            for begin, number in zip(records.begins, own, strict=True)
        )
        begins.append(array("I", compress(records.begins, counts)))
        ids, specs = list(compress(records.ids, counts)), bytes(compress(records.specs, counts))
        listings.extend(ids)
        without_specs += specs.count(WITHOUT_SPECS)
        spec_missing += [ids[at] for at, kind in enumerate(specs) if kind == SPECS_MISSING]
    entries = sum(records.entries for records in found)
    return Kept(files, begins, listings, without_specs, sorted(spec_missing), entries)


def records_of(kept: Kept) -> Iterator[tuple[str, bytes]]:
    """Ids and records as JSON, the newest of each listing."""
    listings = iter(kept.listings)
    for path, begins in zip(kept.files, kept.begins, strict=True):
        with mapped(path) as content:
            for begin in begins:
                yield next(listings), _line(content, begin)


def specs_of(record: bytes) -> int:
    """What a record, or its end, has of a specification."""
    if record.endswith(_MISSING_SPECS_SUFFIX):
        return SPECS_MISSING
    return WITHOUT_SPECS if record.endswith(_NO_SPECS_SUFFIX) else HAS_SPECS


def time_of(record: bytes) -> bytes:
    """When it was read, as the record has it."""
    begin = record.find(_TIME_PREFIX) + len(_TIME_PREFIX)
    return record[begin : record.find(b'"', begin)]


def _records_in(path: Path) -> _Records:
    """Found without parsing them. Raises as `Archive.kept`."""
    ids, begins, specs, entries = list[str](), array("I"), bytearray(), 0
    with mapped(path) as content:
        for begin, end in flushed_items(path, content):
            entries += 1
            listing = listing_in(content, begin, end)
            if listing is not None:
                ids.append(listing)
                begins.append(begin)
                specs.append(specs_of(content[end - len(_MISSING_SPECS_SUFFIX) : end]))
    return _Records(PackedIds(ids), begins, specs, entries)


def _newest(files: list[Path], found: list[_Records]) -> tuple[list[array[int]], array[int]]:
    """For each record of each file the number of its listing, and for each listing the place of its newest record."""
    numbers, count = numbered([records.ids for records in found])
    newest = array("Q", bytes(8 * count))
    # 0: none was found yet; no file begins with a record.
    order = partial(_order, files)
    for file, (records, own) in enumerate(zip(found, numbers, strict=True)):
        for begin, number in zip(records.begins, own, strict=True):
            place, earlier = file << _PLACE_BITS | begin, newest[number]
            newest[number] = max(place, earlier, key=order) if earlier else place
    return numbers, newest


def _line(content: mmap.mmap | bytes, begin: int) -> bytes:
    """The JSON of the record that begins there."""
    end = item_end(content, begin)
    return content[line_begin(content, begin, end) : end]


def _order(files: list[Path], place: int) -> tuple[bool, bytes, bytes]:
    """By which of the records of one listing is the newest."""
    with mapped(files[place >> _PLACE_BITS]) as content:
        line = _line(content, place & _BEFORE)
    return specs_of(line) != SPECS_MISSING, time_of(line), line


def _array(records: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The records as one JSON array, a line each. None holds a newline: JSON writes it as \\n inside a string."""
    separator = b"[\n"
    for _, record in records:
        yield separator
        yield record
        separator = b",\n"
    yield b"[]\n" if separator == b"[\n" else b"\n]\n"
