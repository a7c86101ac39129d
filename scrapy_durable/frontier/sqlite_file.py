"""The SQLite file of a frontier: made, locked, opened and written in transactions."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from scrapy_durable.exceptions import (
    ConfigurationError,
    ForeignFile,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier.sqlite_statements import EXCHANGE

APPLICATION_ID = 0x63617266
SCHEMA_VERSION = 7
"""Raised by one with each change of `sql/schema.sql` or of what payloads are; a file of another one is refused."""
BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that is writing: `scrapy queue` beside a crawl."""


class FrontierFile:
    """The file `path`, or memory when it is None. Raises `FrontierError` for what SQLite refuses."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None

    @property
    def place(self) -> str:
        """For people."""
        return str(self._path or "memory")

    def open(self) -> None:
        """Open it, made when it is absent."""
        if self._connection is None:
            self._connection = self._connect(create=True)

    def lock(self) -> None:
        """Lock `<path>.lock`; the system lets go of it when the process ends, however it ends."""
        if self._path is None or self._lock is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ConfigurationError(f"{self._path} is in use: another crawl is running on it") from None
        self._lock = lock

    def is_absent(self) -> bool:
        """Whether there is nothing to open; opens it otherwise."""
        if self._connection is None:
            if self._path is not None and not self._path.exists():
                return True
            self._connection = self._connect(create=self._path is None)
        return False

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that commits at the end of the block, and is rolled back when the block raises."""
        db = self._connection
        if db is None:
            raise FrontierLost("no crawl has been joined")
        try:
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _translated(error, self._path, opening=False) from error
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file and let go of its lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        """Open the database, made when it is absent; a file that is not ours is never opened for writing."""
        if self._path is None:
            # A file of SQLite's own that has no name, and is gone with the connection: what the cache cannot hold goes
            # there, so that a queue takes up disk and not memory.
            connection = sqlite3.connect("", isolation_level=None)
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.execute("PRAGMA cache_size = -16384")
            connection.executescript(_schema())
            return connection
        if create and not self._path.exists():
            _make_file(self._path)
        check_header(self._path)
        try:
            with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
                reader.execute(EXCHANGE.read_crawl).fetchall()
                reader.execute("SELECT count(*) FROM worker").fetchall()
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=BUSY_TIMEOUT,
                isolation_level=None,
            )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
        except sqlite3.Error as error:
            raise _translated(error, self._path, opening=True) from error
        return connection


def check_header(path: Path) -> None:
    """Look at the first bytes of `path`. Raises `ForeignFile` unless it is a frontier, `OtherRelease` unless it is
    one of this release, and `FrontierUnavailable` when it cannot be read, as when it has just been removed.
    """
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise FrontierUnavailable(f"{path} cannot be read: {error.strerror or error}") from error
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise ForeignFile(f"{path} is not a SQLite file; move it away to crawl with this path")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ForeignFile(f"{path} is a SQLite file of another program; move it away to crawl with this path")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        raise OtherRelease(str(path), str(version), str(SCHEMA_VERSION), "move it away to begin anew")


def _schema() -> str:
    return files("scrapy_durable.frontier").joinpath("sql", "schema.sql").read_text("utf-8")


def _make_file(path: Path) -> None:
    """Make an empty frontier under another name, then rename it: nobody ever sees a part of it."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(f"BEGIN;\n{_schema()}\nCOMMIT;")
    except sqlite3.Error as error:
        raise _translated(error, path, opening=True) from error
    draft.replace(path)


def _translated(error: sqlite3.Error, path: Path | None, *, opening: bool) -> FrontierError:
    """The project's error for one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return FrontierUnavailable(f"{path} is busy: another process is writing to it")
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    if opening and code in damaged:
        return ForeignFile(f"{path} cannot be read as a frontier: {error}")
    return FrontierError(f"{path or 'frontier in memory'}: {error}")
