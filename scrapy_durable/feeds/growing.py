"""A feed that grows while the crawl runs: JSON Lines or CSV in a local file, by whole lines.

With `-o` it grows under its own name, behind what is there. With `-O` it grows beside its name
(`cars.incomplete.jsonl`), and is put in place once the crawl is complete.

If the process dies: see `growing_file.py`; and at the end, after `placing` was noted, the file is at one of its two
names, whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_durable.engine.feeds import Sink, Slot
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds.files import incomplete, put_in_place, remove_empty
from scrapy_durable.feeds.growing_file import GrowingFile
from scrapy_durable.feeds.notes import Growth
from scrapy_durable.feeds.plan import Feed, Plan

if TYPE_CHECKING:
    from scrapy_durable.feeds.reading import Accepted, Position

logger = logging.getLogger(__name__)

_ENOUGH = 1 << 20
"""Bytes that are written at once."""
_HEAD = 1 << 16
"""Bytes at the beginning of a file in which its header is looked for."""


@dataclass(slots=True)
class _Open:
    """An open file, what writes it, and what has gathered for it."""

    file: GrowingFile
    slot: Slot
    gathered: Sink
    read: Position
    lacking: int


class GrowingFeed(Feed):
    """Its steps: `take` some items, again and again; `announce`; save the notes; `write`."""

    def __init__(self, plan: Plan, path: Path) -> None:
        """`path` is where the file is in the end."""
        super().__init__(plan)
        self._path = path
        self._made_at = incomplete(path) if plan.overwrite else path
        self._is_new = plan.is_new
        self._open: _Open | None = None

    @property
    def reads_from(self) -> Position:
        """What it takes next comes after that position."""
        return self._open.read if self._open is not None else self.note.position

    @property
    def made_at(self) -> Path:
        """Beside its name, or under it."""
        return self._made_at

    @property
    def has_enough(self) -> bool:
        """True when what has gathered should be written."""
        return self._open is not None and self._open.gathered.mark() >= _ENOUGH

    @property
    def has_something(self) -> bool:
        """Whether it has taken what is not written yet, or has not written its header."""
        has_header = self._open is not None and not self.note.size and self._open.gathered.mark() > 0
        return has_header or self.reads_from != self.note.position

    async def make_ready(self) -> bool:
        """Open the file if it is not; False when it takes no items: one that is in place, or has just failed."""
        if self._open is None and not self.has_failed:
            self.open()
        return self._open is not None

    def open(self) -> None:
        """Take hold of the file. Raises `InUse` and `OSError`, and whatever an exporter's constructor raises."""
        if self._is_in_place():
            return
        position = self.note.position
        file = GrowingFile(
            self._made_at,
            self.note,
            own=self.plan.overwrite,
            is_new=self._is_new,
            log_is_whole=self.plan.log_is_whole(),
        )
        try:
            slot, sink = self._begin_slot(file)
        except BaseException:
            if self._is_new and self.note.made:
                remove_empty(self._made_at)
            file.close()
            raise
        self._is_new = False
        if self.note.position == position:
            self.start_over()
        else:
            self.keep()
        self._open = _Open(file, slot, sink, self.note.position, self.note.lacking)

    def close(self) -> None:
        """Let go of the file; what was taken and not written is taken again."""
        if self._open is not None:
            if self.note.made and (self.plan.overwrite or not self.plan.store_empty):
                remove_empty(self._made_at)
            self._open.file.close()
            self._open = None

    def withdraw(self) -> None:
        """The crawl is refused: leave no trace."""
        if self._open is not None and self.note.made:
            remove_empty(self._made_at)
        self.close()

    def take(self, accepted: Sequence[Accepted]) -> None:
        """Take what comes next in the log."""
        if (opened := self._open) is not None:
            for lease in accepted:
                opened.lacking += sum(not self.put(opened.slot, item) for item in lease.items)
                opened.read = lease.position

    def announce(self) -> None:
        """Note what is to be written."""
        if (opened := self._open) is not None and self.has_something:
            slot = opened.slot
            growth = Growth(0, 0, opened.read, slot.itemcount, opened.lacking, slot.columns)
            opened.file.announce(opened.gathered.getvalue(), growth)

    async def write(self) -> None:
        """Write what was announced, once that is saved, and flush it. Raises `OSError`."""
        if (opened := self._open) is None or self.note.next is None:
            return
        opened.file.write(data := opened.gathered.getvalue())
        opened.gathered.cut(0)
        self.keep()
        self.note.stored = False
        if data:
            await asyncio.to_thread(opened.file.flush)
        self.recovered()

    async def finish(self, complete: bool) -> bool:
        """Put it in place, if it is complete and grows beside its name. Raises `OSError`."""
        if self.note.stored:
            return True
        if self._open is None or self.has_something:
            return False  # it could not be written, which was said
        if self.note.damaged or self.note.lacking:
            logger.error("%s is not complete: %s", self._made_at, self._what_is_missing())
            return False
        slot = self._open.slot
        is_wanted = self.note.items > 0 or self.plan.store_empty
        if not is_wanted and self.note.made:
            self._made_at.unlink(missing_ok=True)
        elif is_wanted and self.plan.overwrite:
            if not complete:
                self.tell_incomplete(self._made_at)
                self.close()
                return True
            self.note.placing = True
            self.plan.save()
            put_in_place(self._made_at, self._path)
        self.close()
        self.note.stored = True
        self.plan.save()
        if is_wanted:
            slot.finish_exporting()
            await self.plan.tell_stored(slot)
        return True

    def _is_in_place(self) -> bool:
        """Whether it has its own name already, and is nobody's to change."""
        if self.plan.overwrite and self.note.placing and not self._made_at.exists():
            self.note.stored = self._path.is_file() and self._path.stat().st_size == self.note.size
        return self.plan.overwrite and self.note.stored

    def _begin_slot(self, file: GrowingFile) -> tuple[Slot, Sink]:
        slot, note = self.plan.slot(), self.note
        sink = slot.open_on(file.file)
        slot.itemcount = note.items
        if note.columns is not None:
            slot.columns = note.columns
        elif note.size:
            slot.begins_with = file.head(_HEAD)
            if self._is_new and (problem := slot.why_not_behind(file.ends_with(slot.line_end))):
                raise ConfigurationError(f"{self._path}: {problem}; -O replaces it")
        has_foreign_end = note.size > 0 and (not note.items or not note.can_be_cut)
        if has_foreign_end and not file.ends_with(slot.line_end):
            slot.before = slot.line_end
        return slot, sink

    def _what_is_missing(self) -> str:
        lacking = self.note.lacking
        reasons = [f"{lacking} items could not be written"] if lacking else []
        return "; ".join([*reasons, *(["items that were in it are lost"] if self.note.damaged else [])])
