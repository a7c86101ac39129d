"""Two catalogues compared, each larger than memory: the places of the old records, and the new ones read past them.

Records are compared as bytes, but for the time at which they were read, and parsed where those differ. Beside the two
files, 25 bytes of memory are needed for each listing of the old one.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import IO, Any
from zlib import crc32

import orjson

from carscraper.changes.lines import ADDED, RETURNED, Step, alterations, arrival, departure
from carscraper.output.cars_json import published_lines

_SCHEMA = """
PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;
CREATE TABLE gone (id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_NEEDED = {"id", "url", "car_attrs", "car_specs"}
_TIME = b',"scraped_at":"'
_RECORD = Struct("<II")
_HALF = 0xFFFFFFFF
_SORTED_AT_ONCE = 1 << 17
"""Numbers, about, that are sorted at once: 5 MB."""


class Snapshot:
    """The digest of a catalogue: of the length and CRC-32 of each record, in the order of the file.

    It tells one file of ours from another; it is no seal, and is not asked whether two records are the same.
    """

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.listings = 0

    def add(self, record: bytes) -> None:
        """Take in the next record."""
        self._hash.update(_RECORD.pack(len(record) & _HALF, crc32(record)))
        self.listings += 1

    @property
    def digest(self) -> str:
        """32 hexadecimal digits."""
        return self._hash.hexdigest()


def digest_of(path: Path, without: Collection[str] = ()) -> str | None:
    """The digest of a published file as if these listings were not in it; None where there is no such file. Raises
    `ValueError` and `OSError`.
    """
    snapshot = Snapshot()
    try:
        for line in published_lines(path):
            if line.listing not in without:
                snapshot.add(line.text)
    except FileNotFoundError:
        return None
    return snapshot.digest


class _Old:
    """The records of a published file, numbered in its order, and which of them have been found."""

    def __init__(self, file: IO[bytes]) -> None:
        self._descriptor = file.fileno()
        self._starts, self._sizes = array("Q"), array("L")
        self._by_hash = array("Q")
        """The low half of a hash of the id, and the number behind it; sorted once all are there."""
        self._next = 0
        self._found = bytearray()

    def add(self, listing: str, start: int, size: int) -> None:
        self._by_hash.append((hash(listing) & _HALF) << 32 | len(self._starts))
        self._starts.append(start)
        self._sizes.append(size)

    def close(self) -> None:
        """All are there."""
        found = self._by_hash
        parts = len(found) // _SORTED_AT_ONCE + 1
        size = -(-(_HALF + 1) // parts)  # of the hashes of a part, one part after the other
        self._by_hash = array("Q")
        for part in range(parts):
            self._by_hash.extend(sorted(one for one in found if (one >> 32) // size == part))
        self._found = bytearray(len(self._starts))

    def find(self, listing: str) -> tuple[int, bytes] | None:
        """Where that listing's record begins, and the record; two files in nearly the same order are read side by
        side.
        """
        head = b'{"id":"%b",' % listing.encode()
        if self._next < len(self._starts) and (record := self._record(self._next)).startswith(head):
            return self._take(self._next, record)
        wanted = hash(listing) & _HALF
        at = bisect_left(self._by_hash, wanted << 32)
        while at < len(self._by_hash) and self._by_hash[at] >> 32 == wanted:
            number = self._by_hash[at] & _HALF
            if (record := self._record(number)).startswith(head):
                return self._take(number, record)
            at += 1
        return None

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """Those that nobody has found, in the order of the file."""
        number = -1
        while (number := self._found.find(0, number + 1)) >= 0:
            yield self._starts[number], self._record(number)

    def _take(self, number: int, record: bytes) -> tuple[int, bytes]:
        self._found[number] = 1
        self._next = number + 1
        return self._starts[number], record

    def _record(self, number: int) -> bytes:
        return os.pread(self._descriptor, self._sizes[number], self._starts[number])


class Comparison:
    """What is in one catalogue, to be compared with another."""

    def __init__(self, index: sqlite3.Connection, path: Path, file: IO[bytes]) -> None:
        """`file` is that of the old catalogue, which is at `path`."""
        self._index = index
        self._path = path
        self._old = _Old(file)
        self.before: str | None = None
        """Digest of the old catalogue, once it was read."""

    def read_old(self, without: Collection[str]) -> None:
        """Take in the old catalogue, but for some listings. Raises `ValueError` when it is no file of ours."""
        snapshot = Snapshot()
        for line in published_lines(self._path):
            if line.listing not in without:
                snapshot.add(line.text)
                self._old.add(line.listing, line.start, len(line.text))
        self._old.close()
        self.before = snapshot.digest

    def note_gone(self, listings: Iterable[tuple[str, bool]]) -> None:
        """Take in which listings have gone (True) and come again (False), in the order of time."""
        for listing, has_gone in listings:
            change = "INSERT OR IGNORE INTO gone VALUES (?)" if has_gone else "DELETE FROM gone WHERE id = ?"
            self._index.execute(change, (listing,))

    def lines(
        self, step: Step, new: Iterable[tuple[str, bytes]], left_out: Collection[str]
    ) -> Iterator[bytes]:
        """The lines that lead to the new catalogue, given as ids and records."""
        for listing, text in new:
            found = self._old.find(listing)
            if found is None:
                come_again = self._index.execute("SELECT 1 FROM gone WHERE id = ?", (listing,)).fetchone()
                yield arrival(step, RETURNED if come_again else ADDED, orjson.loads(text))
            elif not _is_same(found[1], text):
                yield from alterations(step, self._parsed(*found), orjson.loads(text), left_out)
        for start, record in self._old.rest():
            yield departure(step, self._parsed(start, record), left_out)

    def _parsed(self, start: int, text: bytes) -> dict[str, Any]:
        """Raises `ValueError` when the record is damaged, or none of ours."""
        try:
            record = orjson.loads(text)
        except orjson.JSONDecodeError:
            record = None
        if type(record) is not dict or not record.keys() >= _NEEDED or type(record["car_attrs"]) is not dict:
            raise ValueError(f"{self._path}: what stands at byte {start} is no record of a car")
        return record


def _is_same(old: bytes, new: bytes) -> bool:
    """Whether two records differ in nothing but when they were read. False where they may."""
    start = new.find(_TIME) + len(_TIME)
    end = new.find(b'"', start)
    return len(old) == len(new) and old[:start] == new[:start] and old[end:] == new[end:]


@contextmanager
def comparison(old: Path) -> Iterator[Comparison]:
    """A comparison with the catalogue in that file, if there is one; what it needs on disk lies beside it, and has no
    name, so that nothing is left of a process that was killed.
    """
    place = old.with_name(f".changes.{secrets.token_hex(8)}.tmp")
    index = sqlite3.connect(place, isolation_level=None)
    try:
        index.executescript(_SCHEMA)
        place.unlink()
        with old.open("rb") if old.exists() else Path(os.devnull).open("rb") as file:
            yield Comparison(index, old, file)
    finally:
        index.close()
        place.unlink(missing_ok=True)
