"""The directory of an item log: its lock, and its segments as files.

<directory>/.lock               held by the process that has the log
<directory>/00000001.segment    the format of `records.py`; no number is used twice for a log
<directory>/*.draft             a segment that is being made
<directory>/lost                how many items were found to be lost, in digits; absent: none
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections import OrderedDict
from pathlib import Path
from typing import IO

from scrapy_durable.disk import flush_directory, write_atomically
from scrapy_durable.exceptions import ItemLogDamaged, ItemLogInUse
from scrapy_durable.item_log.records import Header, pack_header

_SEGMENT = re.compile(r"\d{8,}\.segment")
_LOCK = ".lock"
_LOST = "lost"
_OPEN_FILES = 8


def segments_in(directory: Path) -> list[Path]:
    """The segments in a directory, which need not be there, in their order."""
    found = (path for path in directory.glob("*.segment") if _SEGMENT.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.stem))


class LogDirectory:
    """Files of one log; they are read in one thread and written in another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None
        self._readers: OrderedDict[int, int] = OrderedDict()
        """File descriptors by number, the one that was used last at the end."""

    def lock(self) -> None:
        """Make the directory, and hold it. Raises `ItemLogInUse` when another process does, and `OSError`."""
        while self._lock is None:
            if not self.path.is_dir():
                self.path.mkdir(parents=True, exist_ok=True)
                flush_directory(self.path.parent)
            with contextlib.ExitStack() as on_failure, contextlib.suppress(FileNotFoundError):
                lock = on_failure.enter_context((self.path / _LOCK).open("ab"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise ItemLogInUse(self.path) from None
                if os.path.samestat(os.fstat(lock.fileno()), (self.path / _LOCK).stat()):
                    on_failure.pop_all()
                    self._lock = lock

    def unlock(self) -> None:
        """Let others have it."""
        for number in list(self._readers):
            self.forget(number)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def segment(self, number: int) -> Path:
        """The file of that number."""
        return self.path / f"{number:08d}.segment"

    def numbers(self) -> list[int]:
        """Those of the segments that are there, in ascending order; drafts are removed."""
        for draft in self.path.glob("*.draft"):
            draft.unlink()
        return [int(path.stem) for path in segments_in(self.path)]

    def create(self, header: Header) -> int:
        """Make a segment that is there as a whole or not at all, also after a loss of power; returns its bytes."""
        data = pack_header(header)
        path = self.segment(header.number)
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        flush_directory(self.path)
        return len(data)

    def delete(self, number: int) -> None:
        """Remove a segment; one that was removed before it does not come back without it after a loss of power.

        Raises `OSError`; then it is still there.
        """
        flush_directory(self.path)
        self.segment(number).unlink()

    def clear(self) -> None:
        """Remove all segments, the last one first, so that what is left at any moment is a log."""
        for number in reversed(self.numbers()):
            self.forget(number)
            self.delete(number)
        (self.path / _LOST).unlink(missing_ok=True)

    def lost(self) -> int:
        """How many items were found to be lost. Raises `ItemLogDamaged` when nobody knows, and `OSError`."""
        path = self.path / _LOST
        try:
            return int(path.read_bytes())
        except FileNotFoundError:
            return 0
        except ValueError:
            raise ItemLogDamaged(path, 0, "this is no number") from None

    def note_lost(self, items: int) -> None:
        """Have it known to whoever goes on with the crawl. Raises `OSError`."""
        write_atomically(self.path / _LOST, [b"%d" % items])
        flush_directory(self.path)

    def remove(self) -> None:
        """Remove everything, and unlock."""
        self.clear()
        (self.path / _LOCK).unlink(missing_ok=True)
        self.unlock()
        with contextlib.suppress(OSError):  # somebody else has a file in it
            self.path.rmdir()

    def read(self, number: int, offset: int, length: int) -> bytes:
        """These bytes of a segment. Raises `ItemLogDamaged` when they are not there, and `OSError`."""
        descriptor = self._readers.get(number)
        if descriptor is None:
            try:
                descriptor = os.open(self.segment(number), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise ItemLogDamaged(self.segment(number), offset, "the file is missing") from None
            self._readers[number] = descriptor
            if len(self._readers) > _OPEN_FILES:
                self.forget(next(iter(self._readers)))
        self._readers.move_to_end(number)
        data = os.pread(descriptor, length, offset)
        while len(data) < length:
            more = os.pread(descriptor, length - len(data), offset + len(data))
            if not more:
                raise ItemLogDamaged(self.segment(number), offset + len(data), "the file ends here")
            data += more
        return data

    def forget(self, number: int) -> None:
        """Close a segment that is not read any more."""
        descriptor = self._readers.pop(number, None)
        if descriptor is not None:
            os.close(descriptor)
