"""What a crawl has committed to disk: batches that are whole or absent, and what is published from them.

Under the output directory:

    cars.json                 the records of the last complete crawl, one JSON array
    cars.incomplete.json      those of the last run, when that was not complete
    run.json                  the last run's verdict
    batches/<crawl id>/       what a crawl has committed:
        crawl.json            {"resumable": bool, "ended": bool, "complete": bool}
        .lock                 held by every process that works on it
        <ms>-<worker>-<n>.<crc>.cars.jsonl      records, one `Car` a line
        <ms>-<worker>-<n>.<crc>.ledger.jsonl    what the verdict is reached from: pages read, listings set aside

`<ms>` is the time of the commit (milliseconds since the epoch), so that names sort by age, and `<worker>`
differs for every process, so that names never clash. `<crc>` is the CRC-32 of the content, in hexadecimal: a batch
that was damaged since is found when it is read. A name that starts with a dot is not committed and may be torn.

If the process dies: before `os.replace`, the batch is absent; after it, the batch is whole, and after the
`fsync` of the directory it also outlives a loss of power. Only then is it called durable.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import orjson

from carscraper.exceptions import BatchDamaged
from carscraper.output.occupancy import STATE, State, hold, remove_abandoned
from scrapy_durable.disk import write_atomically

CARS, LEDGER = "cars", "ledger"
CARS_JSON, INCOMPLETE_JSON = "cars.json", "cars.incomplete.json"
_CHECKSUM = re.compile(r"\.([0-9a-f]{8})\.[a-z]+\.jsonl$")
_HEAD = re.compile(rb'\{"id":"([^"]*)"(?=,)')
_TIME_PREFIX = b',"scraped_at":"'
"""Nowhere before the field itself: a quotation mark inside a string is written with a backslash before it."""
_NO_SPECS_SUFFIX = b'"car_specs":[]}'
_MISSING_SPECS_SUFFIX = b'"car_specs":null}'
"""Of one whose specification could not be had."""
_PIECE = 1 << 20
"""Bytes of a batch that are copied to `cars.json` at once."""


_PLACE_BITS = 40
"""Of a place, those that say how many bytes of its file stand before the line."""
_BEFORE = (1 << _PLACE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What a crawl has kept. A place is one number, that of its file in `files` above the bytes before its line: a
    million listings take 130 MB.
    """

    files: list[Path]
    """The batches of records that were there, sorted."""
    newest: dict[str, int]
    """Listing id to the place of its newest record: the one that was read last, but for one whose specification could
    not be had, which counts for less than any other. Of two read in the same millisecond, the one counts whose line is
    the greater, so that it does not depend on who was committed first.
    """
    outdated: list[int]
    """The places of all other records."""
    listings_without_specs: set[str]
    """Those of whose newest record the API has no specification."""
    listings_spec_missing: set[str]
    """Those of whose newest record it could not be had."""

    @property
    def without_specs(self) -> int:
        """How many of the newest records have empty specs."""
        return len(self.listings_without_specs)

    @property
    def spec_missing(self) -> list[str]:
        """Whose specification could not be had; sorted."""
        return sorted(self.listings_spec_missing)


class Archive:
    """The committed batches of one crawl. Several processes may write to it at once."""

    def __init__(
        self, output_dir: Path, crawl_id: str, worker: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives seconds since the epoch, the same for all workers of the crawl: it orders their batches."""
        self.output_dir = output_dir
        self.crawl_id = crawl_id
        self.directory = output_dir / "batches" / crawl_id
        self._worker = worker
        self._clock = clock
        self._commits = 0
        self._lock: IO[bytes] | None = None
        self._state = State()

    def open(self, *, resumable: bool) -> None:
        """Make the crawl's directory, and mark it as in use for as long as this process lives. Raises `OSError`."""
        self._lock = hold(self.directory)
        self._state = State(resumable=resumable)
        self._mark()

    def close(self) -> None:
        """Give up the mark of `open`; the files stay."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def commit(self, kind: str, lines: list[bytes]) -> Path:
        """Make one batch durable; `lines` end in a newline each. Raises `OSError`; then the batch is absent."""
        self._commits += 1
        milliseconds = int(self._clock() * 1000)
        checksum = 0
        for line in lines:
            checksum = crc32(line, checksum)
        name = f"{milliseconds:014d}-{self._worker}-{self._commits:06d}.{checksum:08x}.{kind}.jsonl"
        path = self.directory / name
        write_atomically(path, lines)
        return path

    def ledger(self) -> Iterator[dict[str, Any]]:
        """What the crawl has noted in its ledger, oldest batch first. Raises `BatchDamaged`."""
        for path in self._batches(LEDGER):
            text = path.read_bytes()
            _check(path, text)
            yield from map(orjson.loads, text.splitlines())

    def kept(self) -> Kept:
        """Find the newest record of each listing, without parsing the records. Raises `BatchDamaged`."""
        kept = Kept(self._batches(CARS), {}, [], set(), set())
        for number, path in enumerate(kept.files):
            with _mapped(path) as text:
                _check(path, text)
                for listing, start, end in _records(text):
                    place = number << _PLACE_BITS | start
                    earlier = kept.newest.setdefault(listing, place)
                    if earlier != place:
                        older, newer = sorted((earlier, place), key=partial(_order, kept.files))
                        kept.outdated.append(older)
                        if newer == earlier:
                            continue
                        kept.newest[listing] = newer
                        kept.listings_without_specs.discard(listing)
                        kept.listings_spec_missing.discard(listing)
                    suffix = text[end - len(_MISSING_SPECS_SUFFIX) : end]
                    if suffix == _MISSING_SPECS_SUFFIX:
                        kept.listings_spec_missing.add(listing)
                    elif suffix.endswith(_NO_SPECS_SUFFIX):
                        kept.listings_without_specs.add(listing)
        return kept

    def published(self) -> int | None:
        """How many records `cars.json` has, the last complete one; None when it is not there, or not one of ours."""
        try:
            with (self.output_dir / CARS_JSON).open("rb") as file:
                head = file.readline(len(b"[]\n"))
                if head == b"[]\n":
                    return 0
                lines = sum(block.count(b"\n") for block in iter(lambda: file.read(_PIECE), b""))
        except FileNotFoundError:
            return None
        return lines - 1 if head == b"[\n" else None

    def publish(self, kept: Kept, *, complete: bool) -> str:
        """Make a file of the committed batches: each id once, its newest record, a line each.

        That is `cars.json` when they are `complete`, which then is all there is; else `cars.incomplete.json`
        beside it. Returns the name.
        """
        name = CARS_JSON if complete else INCOMPLETE_JSON
        write_atomically(self.output_dir / name, _array(kept), large=True)
        self._state = replace(self._state, complete=complete)
        if complete:
            (self.output_dir / INCOMPLETE_JSON).unlink(missing_ok=True)
            self._mark()
        return name

    def records(self, kept: Kept) -> Iterator[tuple[str, bytes]]:
        """Ids and records, each without a newline, that `publish` puts in the file, in its order."""
        for number, path in enumerate(kept.files):
            first = number << _PLACE_BITS
            with _mapped(path) as text:
                for listing, start, end in _records(text):
                    if kept.newest[listing] == first | start:
                        yield listing, text[start:end]

    def report(self, run: bytes) -> None:
        """Write `run.json`."""
        write_atomically(self.output_dir / "run.json", [run])

    def end(self) -> list[str]:
        """Call the crawl ended, never to be resumed, and remove the batches that nobody needs any more; those of the
        last complete crawl only when this one was complete.

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

    def _batches(self, kind: str) -> list[Path]:
        return sorted(
            path for path in self.directory.glob(f"*.{kind}.jsonl") if not path.name.startswith(".")
        )

    def _mark(self) -> None:
        write_atomically(self.directory / STATE, [orjson.dumps(self._state), b"\n"])


def replace_lines(path: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Have a batch hold what `change` makes of its lines, each without its newline; None: the line goes.

    The batch is absent when no line is left, else under the name that its content calls for; a crash may leave both.
    Raises `BatchDamaged` and `OSError`.
    """
    with _mapped(path) as text:
        _check(path, text)
        before = text[:].split(b"\n")[:-1]
    lines = [line + b"\n" for line in map(change, before) if line is not None]
    noted = _CHECKSUM.search(path.name)
    name = (
        path.name[: noted.start(1)] + f"{crc32(b''.join(lines)):08x}" + path.name[noted.end(1) :]
        if noted
        else ""
    )
    if name != path.name:
        if lines:
            write_atomically(path.with_name(name), lines)
        path.unlink()


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The content of a file, in memory only as far as it is looked at."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # which cannot be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            yield text


def _records(text: mmap.mmap | bytes) -> Iterator[tuple[str, int, int]]:
    """Listing ids of the records of a batch, and where their lines begin and end; relies on `Car` being written with
    `id` first.

    Raises `ValueError` for a line that is no record.
    """
    start = 0
    begins, find = _HEAD.match, text.find
    while (end := find(b"\n", start)) >= 0:
        found = begins(text, start, end)
        if found is None:
            raise ValueError(f"not a record of ours: {text[start : min(end, start + 80)]!r}")
        yield found[1].decode(), start, end
        start = end + 1


def _order(files: list[Path], place: int) -> tuple[bool, bytes, bytes]:
    """By which of the records of one listing is the newest."""
    with files[place >> _PLACE_BITS].open("rb") as file:
        file.seek(place & _BEFORE)
        line = file.readline().removesuffix(b"\n")
    time = line.find(_TIME_PREFIX) + len(_TIME_PREFIX)
    return not line.endswith(_MISSING_SPECS_SUFFIX), line[time : line.find(b'"', time)], line


def _array(kept: Kept) -> Iterator[bytes]:
    """The newest records as one JSON array, in pieces."""
    gaps: list[list[int]] = [[] for _ in kept.files]
    for place in kept.outdated:
        gaps[place >> _PLACE_BITS].append(place & _BEFORE)
    separator = b"[\n"
    for path, outdated in zip(kept.files, gaps, strict=True):
        with _mapped(path) as text:
            for start, end in _between(outdated, text):
                yield separator
                for at in range(start, end, _PIECE):
                    # No record holds a newline: JSON writes it as \n inside a string.
                    yield text[at : min(at + _PIECE, end)].replace(b"\n", b",\n")
                separator = b",\n"
    yield b"[]\n" if separator == b"[\n" else b"\n]\n"


def _between(outdated: list[int], text: mmap.mmap | bytes) -> Iterator[tuple[int, int]]:
    """The stretches of whole lines between those that begin there, each without its last newline."""
    start = 0
    for begins in sorted(outdated):
        if begins > start:
            yield start, begins - 1
        start = text.find(b"\n", begins) + 1
    if len(text) > start:
        yield start, len(text) - 1


def _check(path: Path, text: mmap.mmap | bytes) -> None:
    """Raise `BatchDamaged` unless that is what was committed under the name."""
    noted = _CHECKSUM.search(path.name)
    if noted is None:
        raise BatchDamaged(f"{path}: the name of a batch holds its checksum")
    if crc32(text) == int(noted[1], 16):
        return
    for number, line in enumerate(text[:].removesuffix(b"\n").split(b"\n"), 1):
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BatchDamaged(
                f"{path}, line {number}: damaged since it was committed: {error.msg}"
            ) from error
    raise BatchDamaged(f"{path}: damaged since it was committed; every line of it parses")
