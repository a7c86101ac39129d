"""A feed of many files: each is written as items come, and stored once it has `batch_item_count` of them.

Number, time and address of a batch are noted before it is begun, and the position in the log behind it, which may be
inside a lease, once it is stored. If the process dies between, the batch is made again of the same items, and stored
under the same name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds.notes import UNKNOWN, known_as
from scrapy_durable.feeds.plan import Feed, Plan
from scrapy_durable.feeds.whole_file import WholeFile, whole_file

if TYPE_CHECKING:
    from scrapy_durable.feeds.reading import Position, Reader

logger = logging.getLogger(__name__)

_TRIES = 60.0
"""Seconds at most between two tries to store a batch while the crawl runs."""


class BatchFeed(Feed):
    """Reads the log step by step; what it has of a batch that is not stored is not noted."""

    def __init__(
        self,
        plan: Plan,
        reader: Reader,
        *,
        can_append: bool,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """`can_append`: a batch may be put behind what has its name; `clock` gives the times of batches, in seconds
        since the epoch; `elapsed` seconds since whenever.
        """
        super().__init__(plan)
        self._reader = reader
        self._can_append = can_append
        self._clock = clock
        self._elapsed = elapsed
        self._size = int(plan.options["batch_item_count"])
        self._is_new = plan.is_new
        self._file: WholeFile | None = None
        self._read = plan.note.position
        self._wait = 0.0
        self._not_before = 0.0

    @property
    def reads_from(self) -> Position:
        """What it takes next comes after that position."""
        return self._read if self._file is not None else self.note.position

    @property
    def is_at_its_end(self) -> bool:
        """Never: it reads the rest then."""
        return False

    def open(self) -> None:
        """Look at what has the first batch's name. Raises `ConfigurationError` and `OSError`."""
        if self._is_new:
            self._look_for_base()
            self._is_new = False

    def close(self) -> None:
        """Let go of the batch that is being written; it is begun again."""
        if self._file is not None:
            self._file.drop()
            self._file = None

    async def step(self) -> bool:
        """Take some items, and store the batch if it is full; False when there is nothing new, or it has to wait.

        Raises `OSError`, and whatever a storage or an exporter raises.
        """
        if self._elapsed() < self._not_before:
            return False
        accepted = self._reader.read(self.reads_from)
        if not accepted:
            return False
        self.note.stored = False
        file = self._begun()
        for lease in accepted:
            for number, item in enumerate(lease.items, 1):
                file.put(item)
                if file.items == self._size:
                    is_last = number == len(lease.items)
                    self._read = lease.position if is_last else self._reader.behind(self._read, number)
                    return await self._store(file)
            self._read = lease.position
        return True

    async def finish(self, complete: bool) -> bool:
        """Store the last batch, which is not full, if the crawl is complete. Raises as `step` does."""
        self._not_before = 0.0
        while await self.step():
            pass
        if self.note.stored:
            return not self.note.lacking
        if self._not_before:
            return False  # a batch could not be stored
        is_wanted = self.plan.store_empty and self.note.batch_id == 1
        if is_wanted or (self._file is not None and self._file.items):
            file = self._begun()
            if not complete:
                return self._leave(file)
            if not await self._store(file):
                return False
        elif self._file is not None:
            self.note.lacking += self._file.lacking
            self.close()
        self.note.stored = True
        self.plan.save()
        if self.note.lacking:
            logger.error(
                "%s is not complete: %d items could not be written to its batches",
                known_as(self.plan.template),
                self.note.lacking,
            )
        return not self.note.lacking

    def _begun(self) -> WholeFile:
        if self._file is None:
            if self.note.base == UNKNOWN:
                self.plan.rename()
                self._look_for_base()
                self.plan.save()
            self._file = whole_file(self)
            self.start_over()
            self._read = self.note.position
        return self._file

    async def _store(self, file: WholeFile) -> bool:
        if not await file.store():
            self._file = None
            self._wait = min(_TRIES, max(1.0, 2 * self._wait))
            self._not_before = self._elapsed() + self._wait
            return False
        self._file = None
        self._wait = 0.0
        self.recovered()
        await self.plan.tell_stored(file.slot)
        note = self.note
        self.keep()
        note.position, note.lacking = self._read, note.lacking + file.lacking
        note.items += file.items
        note.batch_id += 1
        note.batch_time = max(self._clock(), note.batch_time + 1e-6)
        note.base = UNKNOWN
        self.plan.save()
        return True

    def _leave(self, file: WholeFile) -> bool:
        """The crawl is not complete."""
        self._file = None
        made_at = file.leave()
        self.tell_incomplete(made_at)
        return made_at is not None

    def _look_for_base(self) -> None:
        """What has the name of the batch already, of an earlier crawl."""
        path = self.plan.path
        is_new = path is None or self.plan.overwrite or not path.exists()
        base = 0 if is_new or path is None else path.stat().st_size
        if base and not self._can_append:
            raise ConfigurationError(
                f'{path}: {self.note.format} cannot be appended to; "overwrite": True replaces the file, or '
                "choose another name"
            )
        self.note.base = base
