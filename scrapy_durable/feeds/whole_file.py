"""One file that is made of items in one go, and is where it belongs whole or not at all.

A local file is made beside its name (`cars.incomplete.json`), and put in place by a rename. For any other storage it is
made where Scrapy makes it, and stored by that storage under its one name. If the process dies before, it is made again
of the same items; the name stays the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from abc import ABC, abstractmethod
from io import BufferedRandom, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import ensure_awaitable

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds.files import copy_first, flush_by_name, incomplete, lock, put_in_place

if TYPE_CHECKING:
    from scrapy_durable.engine.feeds import Slot
    from scrapy_durable.feeds.plan import Feed

logger = logging.getLogger(__name__)

_HEAD = 1 << 16
"""Bytes at the beginning of a file in which its header is looked for."""


class WholeFile(ABC):
    """The file: `put` items, then `store` it, `leave` it where it was made, or `drop` it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.slot: Slot = feed.plan.slot()
        self.lacking = 0
        """Items that could not be written."""

    @property
    def items(self) -> int:
        """How many it has."""
        return self.slot.itemcount

    def put(self, item: Any) -> None:
        """Write an item, if the feed's filter accepts it. Raises `OSError`."""
        if not self._feed.put(self.slot, item):
            self.lacking += 1
        self.slot.flush()

    async def store(self) -> bool:
        """Put it where it belongs; False when the storage has failed, which is said.

        Stat: `feedexport/failed_count/<Storage>`. Raises whatever an exporter raises.
        """
        plan, slot = self._feed.plan, self.slot
        file = slot.end()
        try:
            await self._store(file)
        except Exception:
            logger.error(
                "Error storing %s feed (%d items) in: %s; the same command stores it again",
                slot.format,
                self.items,
                plan.name,
                exc_info=True,
            )
            plan.parts.crawler.stats.inc_value(f"feedexport/failed_count/{type(slot.storage).__name__}")
            return False
        finally:
            self.close()
        return True

    @abstractmethod
    async def _store(self, file: Any) -> None:
        """Raises whatever the storage raises."""

    @abstractmethod
    def leave(self) -> Path | None:
        """End it where it is made, for a crawl that is not complete, and say where; None when it is nowhere.

        Raises whatever an exporter raises.
        """

    @abstractmethod
    def drop(self) -> None:
        """Nothing of it is wanted."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it as it is; it is made again."""


class LocalFile(WholeFile):
    """Made beside its name. What was in the file of that name before, `note.base` bytes, stays before its items."""

    def __init__(self, feed: Feed, path: Path, held: FileIO | None = None) -> None:
        """`held` is the file beside its name, where that is locked already.

        Raises `InUse`, `OSError`, and whatever an exporter raises.
        """
        super().__init__(feed)
        self._path = path
        self._made_at = incomplete(path)
        raw = held or lock(self._made_at)
        self._file = BufferedRandom(raw)
        try:
            raw.seek(0)
            raw.truncate(0)
            self._begin(feed.plan.note.base)
        except BaseException:
            self.close()
            raise

    def leave(self) -> Path | None:
        """It stays beside its name."""
        try:
            self.slot.end()
        finally:
            self.close()
        return self._made_at

    def drop(self) -> None:
        """Remove it."""
        self.close()
        self._made_at.unlink(missing_ok=True)

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _begin(self, base: int) -> None:
        if base:
            copy_first(self._path, self._file, base)
            self._file.flush()
        self.slot.open_on(self._file)
        if base:
            slot, file = self.slot, self._file.fileno()
            end = slot.line_end
            is_ended = os.pread(file, len(end), max(0, base - len(end))) == end
            slot.begins_with = os.pread(file, min(base, _HEAD), 0)
            slot.before = b"" if is_ended else end
            if problem := slot.why_not_behind(is_ended):
                raise ConfigurationError(f'{self._path}: {problem}; "overwrite": True replaces it')

    async def _store(self, file: Any) -> None:
        if not file.closed:
            file.flush()
        await asyncio.to_thread(flush_by_name, self._made_at)
        put_in_place(self._made_at, self._path)


class RemoteFile(WholeFile):
    """Made and stored by a storage, of which is known what Scrapy asks of each."""

    def __init__(self, feed: Feed) -> None:
        """Raises whatever a storage or an exporter raises."""
        super().__init__(feed)
        self.slot.start_exporting()
        self._file: Any = self.slot.file

    def leave(self) -> Path | None:
        """Let go of it."""
        self.close()
        return None

    def drop(self) -> None:
        """Let go of it."""
        self.close()

    def close(self) -> None:
        """Let go of it, unless it is the storage's."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    async def _store(self, file: Any) -> None:
        self._file = None  # what becomes of it is the storage's affair
        await ensure_awaitable(self.slot.storage.store(file))


def whole_file(feed: Feed, held: FileIO | None = None) -> WholeFile:
    """What the feed's address asks for. Raises as the two do."""
    path = feed.plan.path
    return RemoteFile(feed) if path is None else LocalFile(feed, path, held)
