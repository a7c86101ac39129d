"""What a crawl has committed to disk: batches that are whole or absent, and `cars.json` made from them.

Under the output directory:

    cars.json                                  the records of the crawl that ended last, one JSON array
    run.json                                   its verdict batches/<crawl id>/crawl.json
    {"resumable": bool, "ended": bool} batches/<crawl id>/<ms>-<worker>-<n>.cars.jsonl     committed records,
    one `Car` a line batches/<crawl id>/<ms>-<worker>-<n>.ledger.jsonl   what the verdict is reached from:
    pages read, listings set aside

`<ms>` is the time of the commit (milliseconds since the epoch), so that names sort by age, and `<worker>`
differs for every process, so that names never clash. A name that starts with a dot is not committed and may
be torn.

If the process dies: before `os.replace`, the batch is absent; after it, the batch is whole, and after the
`fsync` of the directory it also outlives a loss of power. Only then is it called durable.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

CARS, LEDGER = "cars", "ledger"
_ID_PREFIX = b'{"id":"'
_TIME_PREFIX = b',"scraped_at":"'
"""Nowhere before the field itself: a quotation mark inside a string is written with a backslash before it."""
_NO_SPECS_SUFFIX = b'"car_specs":[]}'
_BUFFER = 1 << 20
"""Bytes handed to the disk at once: each time, a thread that writes has to wait for the others to let it go on."""


def write_atomically(path: Path, chunks: Iterable[bytes]) -> None:
    """Put a file in place in one step: a reader sees the old one or the new one, whole, also after a loss of
    power.

    Raises `OSError` when the disk refuses; then the old file is untouched. Nothing is retried here: after a
    failed `fsync` the written pages may be gone, so the caller has to write anew.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb", buffering=_BUFFER) as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Place(NamedTuple):
    """Where a committed record stands, and when it was read."""

    scraped_at: bytes
    file: int
    """Index of its file among the sorted ones, from 0."""
    offset: int
    """Bytes before its line."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a crawl has kept, by listing id."""

    newest: dict[str, Place]
    """Id to the place of its newest record: the one that was read last. Of two read in the same millisecond, the
    one counts whose line is the greater, so that it does not depend on who was committed first.
    """
    without_specs: int
    """How many of those newest records have empty specs."""


class Archive:
    """The committed batches of one crawl. Several processes may write to it at once."""

    def __init__(self, output_dir: Path, crawl_id: str, worker: str) -> None:
        self.output_dir = output_dir
        self.crawl_id = crawl_id
        self.directory = output_dir / "batches" / crawl_id
        self._worker = worker
        self._commits = 0
        self._lock: IO[bytes] | None = None

    def open(self, *, resumable: bool) -> None:
        """Make the crawl's directory, and mark it as in use for as long as this process lives."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = (self.directory / ".lock").open("ab")
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._mark(resumable=resumable, ended=False)

    def close(self) -> None:
        """Give up the mark of `open`; the files stay."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def commit(self, kind: str, lines: list[bytes]) -> Path:
        """Make one batch durable; `lines` end in a newline each. Raises `OSError`; then the batch is absent."""
        self._commits += 1
        milliseconds = time.time_ns() // 1_000_000
        path = self.directory / f"{milliseconds:014d}-{self._worker}-{self._commits:06d}.{kind}.jsonl"
        write_atomically(path, lines)
        return path

    def ledger(self) -> Iterator[dict[str, Any]]:
        """What the crawl has noted in its ledger, oldest batch first."""
        for path in self._batches(LEDGER):
            with path.open("rb") as file:
                for line in file:
                    yield orjson.loads(line)

    def kept(self) -> Kept:
        """Read the ids and times of all committed records, without parsing the records."""
        newest: dict[str, Place] = {}
        bare: set[str] = set()
        batches = self._batches(CARS)
        for number, path in enumerate(batches):
            for offset, line in _lines(path):
                listing_id = _id_of(line)
                place = Place(_time_of(line), number, offset)
                earlier = newest.get(listing_id)
                if earlier is not None and earlier.scraped_at >= place.scraped_at:
                    if earlier.scraped_at > place.scraped_at:
                        continue
                    if _line_at(batches[earlier.file], earlier.offset) >= line:
                        continue
                newest[listing_id] = place
                (bare.add if line.rstrip().endswith(_NO_SPECS_SUFFIX) else bare.discard)(listing_id)
        return Kept(newest, len(bare))

    def publish(self, kept: Kept) -> None:
        """Make `cars.json` from the committed batches: each id once, its newest record, one record at a time."""
        write_atomically(self.output_dir / "cars.json", self._array(kept))

    def report(self, run: bytes) -> None:
        """Write `run.json`."""
        write_atomically(self.output_dir / "run.json", [run])

    def end(self) -> None:
        """Call the crawl ended, never to be resumed, and remove the batches that nobody needs any more."""
        self._mark(resumable=False, ended=True)
        for directory in self.directory.parent.iterdir():
            if directory != self.directory and _is_abandoned(directory):
                shutil.rmtree(directory, ignore_errors=True)

    def _array(self, kept: Kept) -> Iterator[bytes]:
        separator = b"[\n"
        for number, path in enumerate(self._batches(CARS)):
            for offset, line in _lines(path):
                place = kept.newest[_id_of(line)]
                if place.offset == offset and place.file == number:
                    yield separator
                    yield line[:-1]
                    separator = b",\n"
        yield b"[]\n" if separator == b"[\n" else b"\n]\n"

    def _batches(self, kind: str) -> list[Path]:
        return sorted(
            path for path in self.directory.glob(f"*.{kind}.jsonl") if not path.name.startswith(".")
        )

    def _mark(self, *, resumable: bool, ended: bool) -> None:
        state = orjson.dumps({"resumable": resumable, "ended": ended})
        write_atomically(self.directory / "crawl.json", [state, b"\n"])


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a batch, each with the bytes before it."""
    offset = 0
    with path.open("rb", buffering=_BUFFER) as file:
        for line in file:
            yield offset, line
            offset += len(line)


def _line_at(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.readline()


def _id_of(line: bytes) -> str:
    """The listing id of a committed record; relies on `Car` being written with `id` first."""
    if not line.startswith(_ID_PREFIX):
        raise ValueError(f"not a record of ours: {line[:80]!r}")
    return line[len(_ID_PREFIX) : line.index(b'"', len(_ID_PREFIX))].decode()


def _time_of(line: bytes) -> bytes:
    """When a committed record was read, as it says itself."""
    start = line.index(_TIME_PREFIX) + len(_TIME_PREFIX)
    return line[start : line.index(b'"', start)]


def _is_abandoned(directory: Path) -> bool:
    """True when the crawl ended, or was killed and cannot be resumed; never while a process works on it."""
    try:
        lock = (directory / ".lock").open("ab")
    except OSError:
        return False
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state = orjson.loads((directory / "crawl.json").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return False
    return bool(state["ended"] or not state["resumable"])
