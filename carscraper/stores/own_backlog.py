"""What this process has logged and left to the log for one database: taken out of memory, and read from there again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from carscraper.exceptions import BacklogDamaged
from carscraper.output.archive import LogPosition
from carscraper.stores.backlog import Backlog
from carscraper.stores.pending import Taken, size_of

_NOTE_EVERY = 2.0
"""Seconds between two notes of how far a database is: what it has got since is delivered again after a kill."""


class OwnLog(Protocol):
    """The item log that this process writes."""

    own_directory: Path
    """Of the process."""

    @property
    def flushed(self) -> int:
        """So many records are on disk."""

    def position_of(self, records: int) -> LogPosition:
        """Behind so many records, which are on disk."""


class OwnBacklog:
    """Numbers are those of entries in the log, from 1, as this process has appended them."""

    def __init__(
        self, log: OwnLog, backlog: Backlog, on_disk: Callable[..., Awaitable[Any]], most_bytes: int
    ) -> None:
        """`on_disk` calls something in the thread that touches the files. `most_bytes` may be left at most."""
        self.bytes = 0
        """Of what is left, as it was in memory."""
        self.is_noted = True
        """False when the database has got something since its position was noted."""
        self._log = log
        self._backlog = backlog
        self._on_disk = on_disk
        self._most_bytes = most_bytes
        self._left = 0
        """The last one that was left."""
        self._passed = 0
        """The database has what was left up to this one."""
        self._noted = time.monotonic()

    def __len__(self) -> int:
        """How many wait, at most: what stands between them counts."""
        return max(0, self._left - self._passed)

    @property
    def name(self) -> str:
        """Of this process."""
        return self._backlog.name

    def may_leave(self, pending: Sequence[Taken], *, beyond_bound: bool) -> tuple[list[Taken], bool]:
        """The first of these that are in the log, as many as there is room for; and whether that is used up."""
        leaving: list[Taken] = []
        size = self.bytes
        for taken in pending:
            size += size_of(taken.element)
            if size > self._most_bytes and not beyond_bound:
                return leaving, True
            if not 0 < taken.logged <= self._log.flushed:
                break
            leaving.append(taken)
        return leaving, False

    async def reach_back(self, leaving: Sequence[Taken]) -> None:
        """Have the position stand before all of these. In the pipelines, one may be overtaken by what was logged after
        it, and that be delivered already. Raises `OSError` when that cannot be noted: then none of them may be left.
        """
        first = min(taken.logged for taken in leaving)
        while self._passed >= first:
            passed, self._passed = self._passed, first - 1
            try:
                await self._note()
            except BaseException:
                self._passed = max(self._passed, passed)  # so that the next call does not take it for noted
                raise

    def leave(self, taken: Taken) -> None:
        """It is read from the log from now on; `reach_back` was called, and nothing awaited since."""
        self._left = max(self._left, taken.logged)
        self.bytes += size_of(taken.element)

    async def read(self, most: int) -> tuple[int, list[bytes]]:
        """The first that are left, for `drop`, and where they begin. Raises as `Backlog.read`."""
        begin = self._passed
        self._backlog.position = self._log.position_of(begin)
        entries = await self._on_disk(self._backlog.read, min(most, len(self)))
        if not entries:
            raise BacklogDamaged(f"{self._backlog.directory}: what was left to the log is not there any more")
        return begin, entries

    def drop(self, begin: int, entries: int, size: int) -> None:
        """The database has these; `size` as of `bytes`."""
        if self._passed == begin:  # else something that stands before has been left since
            self._passed += entries
            self.is_noted = False
        self.bytes = max(0, self.bytes - size) if len(self) else 0

    def drop_others(self, batch: Sequence[Taken]) -> None:
        """The database has got these from memory."""
        if not len(self):  # else they are read again with what is left
            self._passed = max(self._passed, *(taken.logged for taken in batch))
            self.is_noted = False

    async def note_now_and_then(self) -> None:
        """Note the position unless that was done a moment ago."""
        if time.monotonic() > self._noted + _NOTE_EVERY:
            await self.note()

    async def note(self) -> None:
        """Have it outlive this process how far the database is. It may be lost: then records are delivered again."""
        with contextlib.suppress(OSError):
            await self._note()

    async def _note(self) -> None:
        """Raises `OSError`."""
        self._noted = time.monotonic()
        self.is_noted = True
        self._backlog.position = self._log.position_of(min(self._passed, self._log.flushed))
        await self._on_disk(self._backlog.note)
