"""Of items that repeat each other, the first: those of one key, of which feeds have one.

Which it is must be the same for each feed and in each run, so it is decided among the items that count, in the order of
the log. `firsts.sqlite`, beside the log, has for each key the place of the first item: an item is one of the firsts if
its own place is there.

If the process dies: what is not in the file yet is behind all that the notes say a feed has (`Notes.before`), is read
again in the same order, and found to be first again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from scrapy_durable.disk import flush_directory
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds.reading import Accepted, Log, Position
from scrapy_durable.frontier.sqlite_statements import load_statements

NAME = "firsts.sqlite"
_SQL = load_statements("firsts", package=__package__)
_WAITING = 1000
"""Keys in memory that are not in the file."""

Place = tuple[int, int, int]
"""Segment and offset behind the lease, and the number of the item in it."""
ELSEWHERE: Place = (0, 0, 0)
"""Of a key whose first item is in another worker's log: there is no segment of that number."""


class Firsts:
    """The file of one log."""

    def __init__(self, directory: Path, log: str, *, must_exist: bool) -> None:
        """Open it, or make it; one of another log is replaced. `must_exist`: a feed is behind places that it has.

        Raises `ConfigurationError` when it has to be there and is not, or is no such file, and `OSError`.
        """
        self.path = directory / NAME
        self._waiting: dict[str, Place] = {}
        try:
            if not _is_of(self.path, log):
                if must_exist:
                    raise ConfigurationError(
                        f"{self.path} is missing, or of another crawl: nobody knows which items its feeds have; put "
                        "it back, or 'scrapy queue forget' the crawl"
                    )
                _remove(self.path)
                _make(self.path, log)
            self._db = _connect(self.path)
        except sqlite3.OperationalError as error:
            raise OSError(None, str(error), str(self.path)) from error
        except sqlite3.DatabaseError as error:
            raise ConfigurationError(f"{self.path} cannot be read: {error}") from error

    def is_first(self, key: str, place: Place) -> bool:
        """Whether no item before that place has the key. Raises `sqlite3.Error`."""
        found = self.find(key)
        if found is None:
            self.add(key, place)
        return found in (None, place)

    def find(self, key: str) -> Place | None:
        """Where its first item is; None when there was none yet. Raises `sqlite3.Error`."""
        found: Place | None = self._waiting.get(key) or self._db.execute(_SQL.find, (key,)).fetchone()
        return found

    def add(self, key: str, place: Place) -> None:
        """The first item of a key that had none."""
        self._waiting[key] = place
        if len(self._waiting) >= _WAITING:
            with contextlib.suppress(OSError):  # said when the notes are saved, which come after it
                self.save()

    def save(self) -> None:
        """Have on disk what was found. Raises `OSError`; then it is tried again by the next call."""
        if not self._waiting:
            return
        try:
            with self._db:
                self._db.execute("BEGIN")
                self._db.executemany(_SQL.add, ((key, *place) for key, place in self._waiting.items()))
        except sqlite3.Error as error:
            raise OSError(None, str(error), str(self.path)) from error
        self._waiting.clear()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def remove(self) -> None:
        """The crawl is forgotten. Raises `OSError`."""
        self.close()
        _remove(self.path)


class DistinctLog:
    """A log without the items that repeat the key of another before them. `key_of` an item is None for one that does
    not repeat any. What is behind `upto()` is not there yet.
    """

    def __init__(
        self,
        log: Log,
        firsts: Firsts,
        key_of: Callable[[Any], str | None],
        upto: Callable[[], Position | None] = lambda: None,
    ) -> None:
        self._log = log
        self._firsts = firsts
        self._key_of = key_of
        self._upto = upto

    @property
    def name(self) -> str:
        """The log's."""
        return self._log.name

    def read(self, after: Position, most: int) -> Sequence[Accepted]:
        """Of up to `most` items behind a position, the firsts. Raises what the log raises, and `sqlite3.Error`."""
        upto = self._upto()
        return [
            self._firsts_of(lease)
            for lease in self._log.read(after, most)
            if upto is None or lease.position <= upto
        ]

    def _firsts_of(self, lease: Accepted) -> Accepted:
        numbers = []
        items = []
        for item, number in zip(lease.items, lease.numbers, strict=True):
            key = self._key_of(item)
            if key is None or self._firsts.is_first(key, (*lease.lease, number)):
                items.append(item)
                numbers.append(number)
        return replace(lease, items=items, numbers=numbers)


def _is_of(path: Path, log: str) -> bool:
    if not path.exists():
        return False
    with closing(_connect(path)) as connection:
        try:
            return bool(connection.execute(_SQL.log).fetchone() == (log,))
        except sqlite3.OperationalError:
            return False  # it was not made to its end


def _make(path: Path, log: str) -> None:
    with closing(_connect(path)) as connection:
        connection.executescript(_SQL.schema)
        connection.execute(_SQL.describe, (log,))
    flush_directory(path.parent)


def _connect(path: Path) -> sqlite3.Connection:
    """With full synchronisation: the notes, which come after it, outlive a loss of power, and so must this."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)
