"""The response store in one SQLite file, which processes of one machine may share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from scrapy_durable.exceptions import ConfigurationError, ForeignFile
from scrapy_durable.responses.contract import Pruned, StoredCrawl, StoredResponse
from scrapy_durable.responses.packing import MAX_BODY, DamagedError, Packer, largest_frame
from scrapy_durable.responses.rare_log import RareLog

logger = logging.getLogger(__name__)

APPLICATION_ID, VERSION = 1130451571, 1

_TIMEOUT = 2.0
"""Seconds that a write waits for another process's; the event loop waits with it."""
_BUSY_LOOK = 0.02
"""Seconds between two tries at a file that is being made."""
_WAL_BYTES = 16 * 1024 * 1024
_STRETCH = 200
"""Shared rows removed between two chances for other work."""
_CRAWL_STRETCH = 8
"""Rows of a crawl read or removed between them: each may be large."""
_HEADER = 100
_MAGIC = b"SQLite format 3\x00"


def _sql(name: str) -> str:
    return (files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


class SqliteResponseStore:
    """A `ResponseStore` in the file `path`, made when it is absent; one that is broken is moved aside and begun again.

    Calls run on the event loop's thread, each well below a millisecond beside the decompression; only a
    write that meets another process's takes longer. An answer outlives the process at once, and a loss of
    power from the next checkpoint on (`synchronous=NORMAL`): for a cache that is enough.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_shared: int = MAX_BODY,
        max_of_crawl: int = MAX_BODY,
        timeout: float = _TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`timeout`: seconds that it waits for another process that makes the file, or writes; `max_shared` and
        `max_of_crawl`: bytes of a body, beyond which it is not stored, and a stored one is damaged.
        """
        self._path = path
        self._max_shared = max_shared
        self._max_of_crawl = max_of_crawl
        self._timeout = timeout
        self._clock = clock
        self._packer = Packer()
        self._log = RareLog(logging.getLogger(__name__))
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        """Of the file that this connection has open, or is to open."""
        self._get_many, self._put = _sql("get_many"), _sql("put")
        self._crawls, self._crawl_keys = _sql("crawls"), _sql("crawl_keys")
        self._rewrite = _sql("rewrite")
        self._oldest_crawls = _sql("oldest_crawls")
        self._remove_oldest, self._remove_crawl = _sql("remove_oldest"), _sql("remove_crawl")

    async def open(self) -> None:
        """Open or make the file; errors name its path, and a foreign file is left untouched."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                await self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_broken(error):
                    raise
                self._move_aside(error)
                await self._connect()
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"the response store {self._path} cannot be used: {error}") from error

    async def _connect(self) -> None:
        self._inode = _inode(self._path)
        _refuse_foreign(self._path)
        self._connection = await _connect_in_turn(self._path, self._timeout)
        self._inode = _inode(self._path)

    async def unreadable(self) -> str:
        """Nothing: a file that cannot be used was refused by `open`."""
        return ""

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        """One query for all keys."""
        return {stored.key: stored for stored in self._look_up(keys, self._clock() - max_age, None)}

    async def get(self, key: str, max_age: float) -> StoredResponse | None:
        """As `get_many` with one key."""
        return (await self.get_many((key,), max_age)).get(key)

    async def put(
        self,
        key: str,
        status: int,
        url: str,
        body: bytes,
        *,
        fetched_at: float | None = None,
        crawl_id: str | None = None,
    ) -> bool:
        """One transaction, without waiting for the disk."""
        if len(body) > self._most(crawl_id):
            self._log.warning("An answer is too large for the response store", f"{len(body)} bytes")
            return False
        row = {
            "key": key,
            "crawl_id": crawl_id,
            "status": status,
            "url": url,
            "fetched_at": self._clock() if fetched_at is None else fetched_at,
            "body": self._packer.pack(body),
        }
        try:
            self._db.execute(self._put, row)
        except sqlite3.Error as error:
            self._log.warning("An answer could not be kept in the response store", f"{self._path}: {error}")
            self._begin_again_if_broken(error)
            return False
        return True

    async def claim(self, key: str, seconds: float, max_age: float) -> bool:
        """True: crawls that share the file do not tell each other what they fetch."""
        return True

    async def disclaim(self, key: str) -> None:
        """Nothing to do."""

    async def crawls(self) -> list[StoredCrawl]:
        """One query, which reads no bodies."""
        found = []
        for crawl_id, rows in groupby(self._rows(self._crawls, {}), itemgetter(0)):
            _, keys, sizes = zip(*rows, strict=True)
            found.append(StoredCrawl(crawl_id, list(keys), sum(sizes)))
        return found

    async def iterate(self, crawl_id: str) -> AsyncIterator[StoredResponse]:
        """Reads a stretch at a time, so that neither memory nor the write-ahead log grows."""
        keys = [key for (key,) in self._rows(self._crawl_keys, {"crawl_id": crawl_id})]
        for start in range(0, len(keys), _CRAWL_STRETCH):
            for stored in self._look_up(keys[start : start + _CRAWL_STRETCH], -math.inf, crawl_id):
                yield stored
            await asyncio.sleep(0)

    async def rewrite(self, crawl_id: str, key: str, body: bytes) -> bool:
        """One transaction, which overwrites what it frees."""
        row = {"crawl_id": crawl_id, "key": key, "body": self._packer.pack(body)}
        try:
            self._db.execute("PRAGMA secure_delete = ON").fetchone()
            self._db.execute(self._rewrite, row)
            busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            self._log.warning("An answer could not be kept in the response store", f"{self._path}: {error}")
            return False
        return not busy

    async def size(self) -> int:
        """Bytes of the file that are in use; what `prune` frees is released to the disk."""
        try:
            return self._used()
        except sqlite3.Error as error:
            self._log.warning("The response store could not be read", f"{self._path}: {error}")
            return 0

    async def prune(self, max_bytes: int, max_age: float, max_crawl_age: float) -> Pruned:
        """Goes by the order of writing, in small transactions, so that others write in between."""
        now = self._clock()
        removed = 0
        try:
            for crawl_id, last_put in self._db.execute(self._oldest_crawls).fetchall():
                if last_put > now - max_crawl_age and self._used() <= max_bytes:
                    break
                removed += await self._remove(self._remove_crawl, _CRAWL_STRETCH, {"crawl_id": crawl_id})
            removed += await self._remove(self._remove_oldest, _STRETCH, {"before": now - max_age})
            if self._used() > max_bytes:
                removed += await self._remove(self._remove_oldest, _STRETCH, {"before": math.inf}, max_bytes)
            while self._pragma("freelist_count"):
                self._db.execute(f"PRAGMA incremental_vacuum({_STRETCH})").fetchall()
                await asyncio.sleep(0)
        except sqlite3.Error as error:
            self._log.warning("The response store could not be pruned", f"{self._path}: {error}")
            self._begin_again_if_broken(error)
        return Pruned(removed, await self.size())

    async def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the response store is not open")
        return self._connection

    def _look_up(self, keys: Sequence[str], since: float, crawl_id: str | None) -> Iterator[StoredResponse]:
        most = self._most(crawl_id)
        arguments = {
            "keys": orjson.dumps(list(keys)).decode(),
            "since": since,
            "crawl_id": crawl_id,
            "most": largest_frame(most),
        }
        for row in self._rows(self._get_many, arguments):
            stored = self._unpacked(row, most)
            if stored is not None:
                yield stored

    def _rows(self, query: str, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            self._log.warning("The response store could not be read", f"{self._path}: {error}")
            self._begin_again_if_broken(error)
            return []

    def _begin_again_if_broken(self, error: sqlite3.Error) -> None:
        """Go on with an empty file in the place of one that is broken; with the broken one when that is refused."""
        if not _is_broken(error):
            return
        try:
            self._move_aside(error)
            begun = _connect(self._path, self._timeout)
        except (OSError, sqlite3.Error) as refusal:
            self._log.warning("The response store could not be begun again", f"{self._path}: {refusal}")
            return
        self._db.close()
        self._connection, self._inode = begun, _inode(self._path)

    def _move_aside(self, error: sqlite3.Error) -> None:
        """Unless another process has done so already."""
        if self._inode is None or _inode(self._path) != self._inode:
            return
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
        aside = self._path.with_name(f"{self._path.name}.broken-{stamp}")
        self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(self._path.name + suffix).rename(f"{aside}{suffix}")
        logger.warning(
            "The response store %s is broken (%s); it is begun again, and what it was is in %s",
            self._path,
            error,
            aside.name,
        )

    def _most(self, crawl_id: str | None) -> int:
        return self._max_shared if crawl_id is None else self._max_of_crawl

    def _unpacked(self, row: tuple[Any, ...], most: int) -> StoredResponse | None:
        key, status, url, fetched_at, body = row
        try:
            return _checked(key, status, url, fetched_at, body, self._packer, most)
        except DamagedError as error:
            self._log.warning("A stored answer is damaged and will be fetched again", f"{key!r}: {error}")
            return None

    async def _remove(
        self, statement: str, rows: int, arguments: dict[str, Any], enough: float = -math.inf
    ) -> int:
        """Run a removal until it finds nothing more, or the file is down to `enough` bytes."""
        removed = 0
        while self._used() > enough and (
            gone := self._db.execute(statement, {"rows": rows, **arguments}).rowcount
        ):
            removed += gone
            await asyncio.sleep(0)
        return removed

    def _used(self) -> int:
        return self._pragma("page_size") * (self._pragma("page_count") - self._pragma("freelist_count"))

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])


def _checked(
    key: str, status: Any, url: Any, fetched_at: Any, body: Any, packer: Packer, most: int
) -> StoredResponse:
    if type(body) is int:
        raise DamagedError(f"it has {body} bytes, and {largest_frame(most)} are stored at most")
    if not (type(status) is int and type(url) is str and type(fetched_at) is float and type(body) is bytes):
        raise DamagedError("a column of another type")
    return StoredResponse(key, status, url, fetched_at, packer.unpack(body, most))


def _is_broken(error: sqlite3.Error) -> bool:
    """True when the file is at fault, not who else uses it, nor the disk."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return isinstance(error, _NotADatabaseError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


class _NotADatabaseError(sqlite3.DatabaseError):
    """Raised when a file does not begin as SQLite's do."""


def _refuse_foreign(path: Path) -> None:
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


async def _connect_in_turn(path: Path, seconds: float) -> sqlite3.Connection:
    """Waits for another process that is making the file: SQLite itself does not, when the journal's mode changes."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return _connect(path, seconds)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_BUSY_LOOK)


def _connect(path: Path, seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect in an empty file only
        connection.executescript(_sql("schema"))
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
