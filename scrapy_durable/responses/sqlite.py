"""The response store in one SQLite file, which processes of one machine may share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.responses.contract import MOST_DERIVED, Pruned, StoredCrawl, StoredResponse
from scrapy_durable.responses.packing import MAX_BODY, DamagedError, Packer, largest_frame
from scrapy_durable.responses.rare_log import RareLog
from scrapy_durable.responses.sqlite_file import (
    connect,
    connect_in_turn,
    inode,
    is_broken,
    refuse_foreign,
    sql,
)

logger = logging.getLogger(__name__)

_TIMEOUT = 2.0
"""Seconds that a write waits for another process's; the event loop waits with it."""
_STRETCH = 200
"""Shared rows removed between two chances for other work."""
_CRAWL_STRETCH = 8
"""Rows of a crawl read or removed between them: each may be large."""
_CHECKSUM = 4
"""Bytes before what is derived from an answer."""


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
        self._get_many, self._put = sql("get_many"), sql("put")
        self._crawls, self._crawl_keys = sql("crawls"), sql("crawl_keys")
        self._rewrite, self._derive = sql("rewrite"), sql("derive")
        self._oldest_crawls = sql("oldest_crawls")
        self._remove_oldest, self._remove_crawl = sql("remove_oldest"), sql("remove_crawl")

    async def open(self) -> None:
        """Open or make the file; errors name its path, and a foreign file is left untouched."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                await self._connect()
            except sqlite3.DatabaseError as error:
                if not is_broken(error):
                    raise
                self._move_aside(error)
                await self._connect()
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"the response store {self._path} cannot be used: {error}") from error

    async def _connect(self) -> None:
        self._inode = inode(self._path)
        refuse_foreign(self._path)
        self._connection = await connect_in_turn(self._path, self._timeout)
        self._inode = inode(self._path)

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
        derived: bytes = b"",
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
            "derived": _sealed(key, derived, self._packer),
        }
        try:
            self._db.execute(self._put, row)
        except sqlite3.Error as error:
            self._log.warning("An answer could not be kept in the response store", f"{self._path}: {error}")
            self._begin_again_if_broken(error)
            return False
        return True

    async def derive(self, made: Mapping[str, tuple[float, bytes]]) -> None:
        """One transaction; as `put`, it does not wait for the disk."""
        rows = [
            {"key": key, "fetched_at": fetched_at, "derived": _sealed(key, derived, self._packer)}
            for key, (fetched_at, derived) in made.items()
        ]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(self._derive, rows)
            finally:
                self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._log.warning("An answer could not be kept in the response store", f"{self._path}: {error}")
            self._begin_again_if_broken(error)

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
            "most_derived": largest_frame(MOST_DERIVED),
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
        if not is_broken(error):
            return
        try:
            self._move_aside(error)
            begun = connect(self._path, self._timeout)
        except (OSError, sqlite3.Error) as refusal:
            self._log.warning("The response store could not be begun again", f"{self._path}: {refusal}")
            return
        self._db.close()
        self._connection, self._inode = begun, inode(self._path)

    def _move_aside(self, error: sqlite3.Error) -> None:
        """Unless another process has done so already."""
        if self._inode is None or inode(self._path) != self._inode:
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
        try:
            return _checked(row, self._packer, most)
        except DamagedError as error:
            self._log.warning("A stored answer is damaged and will be fetched again", f"{row[0]!r}: {error}")
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


def _checked(row: tuple[Any, ...], packer: Packer, most: int) -> StoredResponse:
    key, status, url, fetched_at, body, derived = row
    if type(body) is int:
        raise DamagedError(f"it has {body} bytes, and {largest_frame(most)} are stored at most")
    if not (type(status) is int and type(url) is str and type(fetched_at) is float and type(body) is bytes):
        raise DamagedError("a column of another type")
    return StoredResponse(
        key, status, url, fetched_at, packer.unpack(body, most), _unsealed(key, derived, packer)
    )


def _sealed(key: str, derived: bytes, packer: Packer) -> bytes | None:
    """What is derived from the answer under that key, as it is stored: packed, behind a checksum of key and that."""
    if not derived or len(derived) > MOST_DERIVED:
        return None
    packed = packer.pack_any(derived)
    return crc32(packed, crc32(key.encode())).to_bytes(_CHECKSUM, "big") + packed


def _unsealed(key: str, stored: bytes | None, packer: Packer) -> bytes:
    """What `_sealed` was given; nothing when that is damaged: it is made again."""
    if stored is None:
        return b""
    packed = stored[_CHECKSUM:]
    if stored[:_CHECKSUM] != crc32(packed, crc32(key.encode())).to_bytes(_CHECKSUM, "big"):
        return b""
    try:
        return packer.unpack_any(packed, MOST_DERIVED)
    except DamagedError:
        return b""
