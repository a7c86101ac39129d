"""A local file that grows by whole lines, and is put right after a kill, or after somebody else has changed it.

    announce: `next` is noted ──► write, flush ──► the notes say that it is there, and what comes next

If the process dies: before the write, nothing of `next` is there; in it, part of it is, and is cut off; after it, the
checksum of `next` says that it is whole. So whatever else stands behind was written by others, and is left alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
from io import FileIO
from pathlib import Path
from zlib import crc32

from scrapy_durable.feeds.files import is_at, lock, write_all
from scrapy_durable.feeds.notes import Growth, Note
from scrapy_durable.item_log import BEGINNING

logger = logging.getLogger(__name__)

_TAIL = 4096
"""Bytes at the end of what is known of which a checksum is noted."""
_PIECE = 1 << 20


class Changed(OSError):
    """Raised when the file is not as it was left: somebody else has changed it."""


class GrowingFile:
    """The open file, and what is noted of it. One that is `own` is nobody else's: it has another name in the end."""

    def __init__(self, path: Path, note: Note, *, own: bool, is_new: bool, log_is_whole: bool) -> None:
        """Open it, and put it right. Raises `InUse` and `OSError`."""
        self.path = path
        self._note = note
        self._own = own
        was_there = path.exists()
        self.file = lock(path)
        try:
            size = self.file.seek(0, os.SEEK_END)
            if is_new:
                self._begin(0 if own else size, made=not was_there)
            else:
                self._put_right(size, log_is_whole=log_is_whole)
            self.file.seek(note.size)
        except BaseException:
            self.file.close()
            raise

    def close(self) -> None:
        """Close it; what is noted stays true."""
        self.file.close()

    def head(self, length: int) -> bytes:
        """What it begins with."""
        return os.pread(self.file.fileno(), length, 0)

    def ends_with(self, end: bytes) -> bool:
        """Whether what is known of it does; any file does with nothing."""
        start = self._note.size - len(end)
        return start >= 0 and os.pread(self.file.fileno(), len(end), start) == end

    def announce(self, data: bytes, growth: Growth) -> None:
        """Note what is to be written; the notes have to be saved before `write`. Its length is filled in."""
        growth.length, growth.checksum = len(data), crc32(data)
        self._note.next = growth

    def write(self, data: bytes) -> None:
        """Write what was announced. Raises `OSError`, `Changed` among them; then it is as if nothing was written."""
        file, note = self.file, self._note
        if note.next is None:
            return
        if data:
            if not is_at(file, self.path) or os.fstat(file.fileno()).st_size != note.size:
                note.next = None  # nothing of it is there
                raise Changed(None, "it was changed by somebody else", str(self.path))
            try:
                write_all(file, data)
            except OSError:
                with contextlib.suppress(OSError):
                    self.file.truncate(note.size)
                raise
        self._adopt(note.next)

    def flush(self) -> None:
        """Have what was written outlive a loss of power; callable in a thread. Raises `OSError`."""
        os.fsync(self.file.fileno())

    def _begin(self, base: int, *, made: bool) -> None:
        """The crawl has nothing in it yet."""
        note = self._note
        if self._own:
            self.file.truncate(base)
        note.base = note.size = base
        note.made = made or self._own
        note.can_be_cut = True
        note.tail = _tail(self.file, base)
        note.position, note.items, note.lacking, note.columns = BEGINNING, 0, 0, None
        note.next, note.damaged, note.stored = None, False, False

    def _put_right(self, size: int, *, log_is_whole: bool) -> None:
        note = self._note
        growth, note.next = note.next, None
        if size < note.size or _sum(self.file, note.size - note.tail[0], note.tail[0]) != note.tail[1]:
            self._restore(size, log_is_whole=log_is_whole)
            return
        if growth is not None:
            end = note.size + growth.length
            if size >= end and _sum(self.file, note.size, growth.length) == growth.checksum:
                self._adopt(growth)
            elif size <= end:
                self.file.truncate(note.size)
                size = note.size
        if size > note.size:
            self._leave_alone(size)
        if note.lacking and log_is_whole and note.can_be_cut:
            logger.info("%s lacks %d items, and is written anew", self.path, note.lacking)
            self.file.truncate(note.base)
            self._begin(note.base, made=note.made)

    def _leave_alone(self, size: int) -> None:
        """What stands behind is somebody else's."""
        note = self._note
        if self._own:
            self.file.truncate(note.size)
            return
        logger.warning(
            "%s has grown by what others wrote, which stays; the feed goes on behind it", self.path
        )
        note.size, note.can_be_cut = size, False
        note.tail = _tail(self.file, size)

    def _restore(self, size: int, *, log_is_whole: bool) -> None:
        """What the crawl has written is not there any more, or not all of it."""
        note = self._note
        if log_is_whole and (note.can_be_cut or self._own):
            logger.warning(
                "%s was changed by somebody else, and is written anew from the item log", self.path
            )
            base = 0 if self._own else min(size, note.base) if size < note.size else size
            self.file.truncate(base)
            self._begin(base, made=note.made)
            return
        logger.error(
            "%s was changed by somebody else: items that were in it are lost, and are not in the item log any more",
            self.path,
        )
        note.damaged, note.can_be_cut, note.columns = True, False, None
        note.size = size
        note.tail = _tail(self.file, size)

    def _adopt(self, growth: Growth) -> None:
        """What was announced is there."""
        note = self._note
        note.size += growth.length
        note.tail = _tail(self.file, note.size)
        note.position, note.items, note.lacking = growth.position, growth.items, growth.lacking
        note.columns, note.next = growth.columns, None


def _tail(file: FileIO, size: int) -> tuple[int, int]:
    length = min(size, _TAIL)
    return length, _sum(file, size - length, length)


def _sum(file: FileIO, start: int, length: int) -> int:
    """The CRC-32 of part of the file; less of it when it is shorter."""
    checksum, end = 0, start + length
    while start < end and (piece := os.pread(file.fileno(), min(_PIECE, end - start), start)):
        checksum = crc32(piece, checksum)
        start += len(piece)
    return checksum
