"""The file of a response store: laid out, opened, and refused or called broken when it is another's or damaged."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from importlib.resources import files
from pathlib import Path

from scrapy_durable.exceptions import ForeignFile

APPLICATION_ID, VERSION = 1130451571, 1
_BUSY_LOOK = 0.02
"""Seconds between two tries at a file that is being made."""
_WAL_BYTES = 16 * 1024 * 1024
_HEADER = 100
_MAGIC = b"SQLite format 3\x00"


def sql(name: str) -> str:
    """The statements in the file of that name."""
    return (files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def is_broken(error: sqlite3.Error) -> bool:
    """True when the file is at fault, not who else uses it, nor the disk."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return isinstance(error, _NotADatabaseError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def inode(path: Path) -> int | None:
    """Which file has that name now; None when there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


class _NotADatabaseError(sqlite3.DatabaseError):
    """Raised when a file does not begin as SQLite's do."""


def refuse_foreign(path: Path) -> None:
    """Looks without writing. A file without any table or identity is as good as an empty one.

    Raises `ForeignFile` for one of another application or version, `sqlite3.Error` for one that is no database.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except FileNotFoundError:
        return
    if not header:
        return
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise _NotADatabaseError("it is no SQLite file")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if (application, version) == (0, 0):
        # Another process may be making it just now, or have done so in a write-ahead log.
        application, version, tables = _seen_by_sqlite(path)
        if (application, version, tables) == (0, 0, 0):
            return
    if application != APPLICATION_ID:
        raise ForeignFile(f"{path} is not a response store: it belongs to another application")
    if version != VERSION:
        raise ForeignFile(
            f"{path} is a response store of version {version}; this release knows version {VERSION}"
        )


def _seen_by_sqlite(path: Path) -> tuple[int, int, int]:
    """Application, version and number of tables at one moment.

    Read-only, so that not even another application's write-ahead log is touched.
    """
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version, tables


def _add_column(connection: sqlite3.Connection) -> None:
    """To a file that an earlier release has laid out, which goes on using it as it is."""
    if _is_whole(connection):
        return
    try:
        connection.execute("ALTER TABLE response ADD COLUMN derived BLOB")
    except sqlite3.OperationalError:
        if not _is_whole(connection):  # as it is when another process was faster
            raise


def _is_whole(connection: sqlite3.Connection) -> bool:
    columns = connection.execute("PRAGMA table_info(response)").fetchall()
    return any(name == "derived" for _, name, *_ in columns)


async def connect_in_turn(path: Path, seconds: float) -> sqlite3.Connection:
    """Waits for another process that is making the file: SQLite itself does not, when the journal's mode changes."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connect(path, seconds)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_BUSY_LOOK)


def connect(path: Path, seconds: float) -> sqlite3.Connection:
    """Open the file, and lay it out if that has not been done. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect in an empty file only
        connection.executescript(sql("schema"))
        _add_column(connection)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
