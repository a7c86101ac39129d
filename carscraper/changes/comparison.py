"""Two catalogues compared, each larger than memory: an index of the one on disk, and the other read past it.

The index holds of each listing a digest of its record and where that stands. Records are looked at only where their
digests differ, and those of listings that have gone.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import orjson

from carscraper.changes.lines import ADDED, RETURNED, Step, alterations, arrival, departure
from carscraper.output.cars_json import published_lines

_SCHEMA = """
PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;
CREATE TABLE old (id TEXT PRIMARY KEY, digest BLOB, at INTEGER, size INTEGER, seen INTEGER) WITHOUT ROWID;
CREATE TABLE gone (id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_NEEDED = {"id", "url", "car_attrs", "car_specs"}
_TIME = b'"scraped_at":"'


class Snapshot:
    """The digest of a catalogue: of its records and when each was read, in the order of the file."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.listings = 0

    def add(self, record: bytes) -> bytes:
        """Take in the next record. Returns a digest of it, whenever it was read."""
        start = record.find(_TIME) + len(_TIME)
        end = record.find(b'"', start)
        content = blake2b(record[:start], digest_size=16)
        content.update(record[end:])
        digest = content.digest()
        self._hash.update(digest + record[start:end])
        self.listings += 1
        return digest

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


class Comparison:
    """What is in one catalogue, to be compared with another."""

    def __init__(self, index: sqlite3.Connection, old: IO[bytes]) -> None:
        self._index = index
        self._old = old
        self.before: str | None = None
        """Digest of the old catalogue, once it was read."""

    def read_old(self, path: Path, without: Collection[str]) -> None:
        """Take in the old catalogue, but for some listings. Raises `ValueError` when it is no file of ours."""
        snapshot = Snapshot()

        def rows() -> Iterator[tuple[str, bytes, int, int, int]]:
            for line in published_lines(path):
                if line.listing not in without:
                    yield line.listing, snapshot.add(line.text), line.start, len(line.text), 0

        self._index.executemany("INSERT OR REPLACE INTO old VALUES (?, ?, ?, ?, ?)", rows())
        self.before = snapshot.digest

    def note_gone(self, listings: Iterable[tuple[str, bool]]) -> None:
        """Take in which listings have gone (True) and come again (False), in the order of time."""
        for listing, has_gone in listings:
            change = "INSERT OR IGNORE INTO gone VALUES (?)" if has_gone else "DELETE FROM gone WHERE id = ?"
            self._index.execute(change, (listing,))

    def lines(
        self, step: Step, new: Iterable[tuple[str, bytes, bytes]], left_out: Collection[str]
    ) -> Iterator[bytes]:
        """The lines that lead to the new catalogue, given as ids, records and their digests."""
        for listing, text, content in new:
            found = self._index.execute(
                "SELECT digest, at, size FROM old WHERE id = ?", (listing,)
            ).fetchone()
            if found is None:
                come_again = self._index.execute("SELECT 1 FROM gone WHERE id = ?", (listing,)).fetchone()
                yield arrival(step, RETURNED if come_again else ADDED, orjson.loads(text))
                continue
            self._index.execute("UPDATE old SET seen = 1 WHERE id = ?", (listing,))
            digest, at, size = found
            if digest != content:
                yield from alterations(step, self._record(at, size), orjson.loads(text), left_out)
        for at, size in self._index.execute("SELECT at, size FROM old WHERE seen = 0 ORDER BY at"):
            yield departure(step, self._record(at, size), left_out)

    def _record(self, at: int, size: int) -> dict[str, Any]:
        """Raises `ValueError` when the record is damaged, or none of ours."""
        self._old.seek(at)
        try:
            record = orjson.loads(self._old.read(size))
        except orjson.JSONDecodeError:
            record = None
        if type(record) is not dict or not record.keys() >= _NEEDED or type(record["car_attrs"]) is not dict:
            raise ValueError(f"{self._old.name}: what stands at byte {at} is no record of a car")
        return record


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
            yield Comparison(index, file)
    finally:
        index.close()
        place.unlink(missing_ok=True)
