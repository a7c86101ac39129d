"""A feed that is written once the crawl has ended, of the whole log: JSON, XML, compressed files, other storages.

If the process dies while it is written, or before the notes say that it is stored, it is written again of the same
items and stored under the same name.
"""

from __future__ import annotations

import asyncio
import logging
from io import FileIO
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds.files import incomplete, lock, remove_empty
from scrapy_durable.feeds.plan import Feed, Plan
from scrapy_durable.feeds.reading import BEGINNING
from scrapy_durable.feeds.whole_file import WholeFile, whole_file

if TYPE_CHECKING:
    from scrapy_durable.feeds.reading import Position, Reader

logger = logging.getLogger(__name__)


class FeedAtTheEnd(Feed):
    """Needs the log from its beginning until it is stored."""

    def __init__(self, plan: Plan, reader: Reader) -> None:
        super().__init__(plan)
        self._reader = reader
        self._held: FileIO | None = None
        self._file: WholeFile | None = None
        self._end = plan.note.position

    @property
    def reads_from(self) -> Position:
        """The beginning, until it is stored."""
        return self.note.position

    @property
    def is_at_its_end(self) -> bool:
        """Only once it is stored: else it reads the log then."""
        return self.note.stored

    def open(self) -> None:
        """Take hold of the place where a local file is made. Raises `ConfigurationError`, `InUse` and `OSError`."""
        path = self.plan.path
        if path is None or self.note.stored:
            return
        if not self.plan.overwrite and not self.note.placing and _has_something(self.plan):
            raise ConfigurationError(
                f'{path}: {self.note.format} cannot be appended to; -O ("overwrite": True) replaces the file, or '
                "choose another name"
            )
        self._held = lock(incomplete(path))

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._held is not None and self.plan.path is not None:
            remove_empty(incomplete(self.plan.path))
            self._held.close()
            self._held = None

    async def finish(self, complete: bool) -> bool:
        """Write it, and store it if the crawl is complete. Raises `OSError`, and whatever an exporter raises."""
        if self.note.stored:
            return True
        if self.plan.path is None and not complete:
            self.tell_incomplete(None)
            return False
        file = await self._written()
        is_wanted = file.items > 0 or self.plan.store_empty
        if file.lacking:
            logger.error(
                "%s is not stored: %d items could not be written to it, and all of them are kept in the item log",
                self.plan.name,
                file.lacking,
            )
            file.leave()
            return False
        if not is_wanted:
            file.drop()
        elif not complete:
            self.tell_incomplete(file.leave())
            return True
        elif not (self._may_be_placed(file) and await file.store()):
            return False
        self.note.stored, self.note.position, self.note.items = True, self._end, file.items
        self.plan.save()
        self._file = None
        if is_wanted:
            await self.plan.tell_stored(file.slot)
        return True

    async def _written(self) -> WholeFile:
        held, self._held = self._held, None
        self._file = file = whole_file(self, held)
        self._end = BEGINNING
        self.start_over()
        while accepted := self._reader.read(self._end):
            for lease in accepted:
                for item in lease.items:
                    file.put(item)
            self._end = accepted[-1].position
            await asyncio.sleep(0)
        return file

    def _may_be_placed(self, file: WholeFile) -> bool:
        """Note that it is about to be; False when somebody else has made what has its name.

        Raises `OSError`.
        """
        if self.plan.path is None or self.note.placing:
            return True
        if not self.plan.overwrite and _has_something(self.plan):
            logger.error(
                "%s was made by somebody else meanwhile, and stays; what the crawl has for it is in %s",
                self.plan.path,
                file.leave(),
            )
            return False
        self.note.placing = True
        self.plan.save()
        return True


def _has_something(plan: Plan) -> bool:
    path = plan.path
    return path is not None and path.exists() and path.stat().st_size > 0
