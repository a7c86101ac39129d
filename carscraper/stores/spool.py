"""What waits on disk for a database that is slow or down.

Under a root that processes share, each has a directory of its own, which belongs to one database:

    <root>/.lock                      held while a directory is made, taken over or removed
    <root>/<name>/.lock               held for as long as the process lives; as old as the directory
    <root>/<name>/00000001.segment    a header line, then records; several are read in the order of their numbers
    <root>/<name>/position            what of it is delivered

The position is `<segment> <records> <CRC-32>`: so many records of this segment are delivered, and all segments of lower
numbers. The format of segments is that of `segments.py`.

What `append` has said True to is on disk, also after a loss of power. Of an append that was cut short, any number
of records may be there, and behind them a torn one, which `open` cuts off. Nothing is ever appended behind a torn
record: where a whole one follows, it was on disk once and has been damaged. That is an error, and never cut.

Payloads are delivered at least once. The position is not flushed, so it may be lost, or be an older one. Since no
number is used twice and a new process begins a new segment, it never covers what was appended after it was written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import IO
from zlib import crc32

from carscraper.exceptions import SpoolDamaged, StoreError
from carscraper.stores.segments import (
    PREFIX,
    Segment,
    cut_back,
    damaged,
    header,
    payload_at,
    prefix,
    scan,
    write,
)
from carscraper.stores.spool_directories import (
    SEGMENTS,
    abandoned,
    held,
    lock_of,
    make,
    position_of,
    target_of,
)
from scrapy_durable.disk import write_atomically

_SEGMENT_BYTES = 16 << 20
"""A segment that has grown to this is followed by another, so that the disk is freed as records leave."""
_READ_BYTES = 4 << 20
"""How much is read at once: about a thousand cars."""
_DRAFTS = ".*.tmp"


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A directory of a process that is gone, in which something waits, and that was not taken over."""

    directory: Path
    target: str | None
    """The other database that it belongs to; None when it is damaged."""
    problem: str
    """Why, on one line, with the name of the file."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A directory in which something waits, as it looks from outside."""

    directory: Path
    target: str | None
    """The database that it belongs to; None when that cannot be read."""
    in_use: bool
    """A process has it, and delivers what is in it."""


class Spool:
    """A queue of payloads on disk, made by `open` or `adopt`, and held by one process until `close`.

    Called from one thread at a time; only `len` may be asked for meanwhile.
    """

    def __init__(self, directory: Path, target: str, max_bytes: int, lock: IO[bytes]) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._header = header(target)
        self._lock = lock
        self._writer: FileIO | None = None
        """Of the last segment, while that may be appended to."""
        self._segments = self._load()
        self._next = 1 + max((segment.number for segment in self._segments), default=0)
        self._take_position()
        self._waiting = sum(len(segment.ends) - segment.delivered for segment in self._segments)
        self._remove_delivered()

    @classmethod
    def open(cls, directory: Path, target: str, *, max_bytes: int) -> Spool:
        """Take a directory for this process, made when it is missing; its parent is the root.

        Raises `StoreError` when another process has it, `SpoolDamaged` when what it holds cannot be read or
        belongs to another target; then its files are as they were. Raises `OSError`.
        """
        make(directory.parent)
        with held(directory.parent):
            make(directory)
            lock = lock_of(directory)
        if lock is None:
            raise StoreError(f"{directory} is in use by another process")
        with contextlib.ExitStack() as on_error:
            on_error.callback(lock.close)
            spool = cls(directory, target, max_bytes, lock)
            on_error.pop_all()
        return spool

    @classmethod
    def adopt(cls, root: Path, target: str, *, max_bytes: int) -> tuple[list[Spool], list[LeftAlone]]:
        """Take over what processes that are gone have left for this target, the oldest first.

        Directories in which nothing waits are removed; what belongs to another target or is damaged is left as
        it is. Two processes that do this at once never get the same. Raises `OSError`; then nothing is taken over.
        """
        spools: list[Spool] = []
        left = []
        with contextlib.ExitStack() as on_error:
            for directory, lock in abandoned(root, on_error):
                try:
                    spools.append(cls(directory, target, max_bytes, lock))
                except SpoolDamaged as error:
                    other = target_of(directory)
                    left.append(LeftAlone(directory, None if other == target else other, str(error)))
                    lock.close()
            on_error.pop_all()
        for spool in spools:
            if not len(spool):
                spool.close()
        waiting = [spool for spool in spools if len(spool)]
        return sorted(waiting, key=lambda spool: (spool.directory / ".lock").stat().st_mtime_ns), left

    @staticmethod
    def place(root: Path) -> int:
        """A number of 63 bits that tells the root, which is there, from those on other disks. It is the same for
        all processes that share the root: made of the inode of its lock, and of when that was made, since a lock is
        never written to.
        """
        made = (root / ".lock").stat()
        digest = blake2b(f"{made.st_ino} {made.st_mtime_ns}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) >> 1

    @staticmethod
    def look(root: Path) -> list[Waiting]:
        """Where below the root something waits; takes nothing over, and leaves all files as they are."""
        if not root.is_dir():
            return []
        found = []
        with held(root):
            for directory in sorted(path.parent for path in root.glob("*/.lock")):
                if any(directory.glob(SEGMENTS)):
                    lock = lock_of(directory)
                    found.append(Waiting(directory, target_of(directory), in_use=lock is None))
                    if lock is not None:
                        lock.close()
        return found

    def __len__(self) -> int:
        """How many records wait."""
        return self._waiting

    @property
    def size(self) -> int:
        """Bytes on disk; a segment counts until all of it is delivered."""
        return sum(segment.size for segment in self._segments)

    def append(self, payloads: Sequence[bytes], *, beyond_bound: bool = False) -> bool:
        """Put all of them on disk and return True; or none, and return False, if `max_bytes` would be exceeded.

        Raises `OSError` when the disk refuses; then none is there, and the next call begins a new segment: after
        a failed fsync the pages may be gone, and a second one on the same file would not say so.
        """
        if not payloads:
            return True
        data = b"".join(chain.from_iterable((prefix(payload), payload) for payload in payloads))
        if not beyond_bound and self.size + len(self._header) + len(data) > self.max_bytes:
            return False
        segment, writer = self._writable()
        try:
            write(writer, data)
            os.fsync(writer.fileno())
        except BaseException:
            self._end_segment()
            segment.is_overlong = True
            with contextlib.suppress(OSError):
                cut_back(segment)
            raise
        for payload in payloads:
            segment.ends.append(segment.size + PREFIX.size + len(payload))
        self._waiting += len(payloads)
        return True

    def read(self, most: int) -> list[bytes]:
        """The oldest that wait: up to `most` of them, and about 4 MB, but one at least when there is one.

        Raises `SpoolDamaged` when the first has been damaged since it was written, and `OSError`.
        """
        payloads: list[bytes] = []
        room = _READ_BYTES
        for segment in self._segments:
            if len(payloads) >= most:
                break
            at = segment.begin
            with segment.path.open("rb") as file:
                file.seek(at)
                for end in segment.ends[segment.delivered : segment.delivered + most - len(payloads)]:
                    if payloads and end - at > room:
                        return payloads
                    payload = payload_at(file.read(end - at), 0)
                    if payload is None and payloads:
                        return payloads
                    if payload is None:
                        raise damaged(segment.path, at, "this record is damaged")
                    payloads.append(payload)
                    room -= end - at
                    at = end
        return payloads

    def drop(self, records: int) -> None:
        """Forget the first so many, which are delivered.

        The position is not flushed, and a disk that refuses it is no error: what is not noted is delivered again,
        which does no harm.
        """
        if not 0 <= records <= self._waiting:
            raise ValueError(f"{records} of {self._waiting} records cannot be dropped")
        left = records
        for segment in self._segments:
            delivered = min(left, len(segment.ends) - segment.delivered)
            segment.delivered += delivered
            left -= delivered
        self._waiting -= records
        with contextlib.suppress(OSError):
            self._remove_delivered()
            self._write_position()

    def close(self) -> None:
        """Give the directory back, or remove it when nothing waits in it. May be called again."""
        self._end_segment()
        if not self._lock.closed and not self._waiting:
            with contextlib.suppress(OSError):
                self._remove_directory()
        self._lock.close()

    def _load(self) -> list[Segment]:
        """Read all segments, and only then change something: cut off the torn end of the last one.

        It is flushed in any case. A process that was killed may not have come to that, and a segment with another
        one behind it counts as flushed.
        """
        paths = sorted(self.directory.glob(SEGMENTS))
        segments = [scan(path, self._header, is_last=path is paths[-1]) for path in paths]
        if segments:
            cut_back(segments[-1])
        if segments and not segments[-1].start:
            segments.pop().path.unlink()
        for draft in self.directory.glob(_DRAFTS):
            draft.unlink()
        return segments

    def _take_position(self) -> None:
        """Believe the position, unless it speaks of records that are not there."""
        number, records = position_of(self.directory)
        self._next = max(self._next, number + 1)
        for segment in self._segments:
            if segment.number < number:
                segment.delivered = len(segment.ends)
            elif segment.number == number and records <= len(segment.ends):
                segment.delivered = records

    def _write_position(self) -> None:
        first = self._segments[0] if self._segments else None
        text = b"%d %d" % ((first.number, first.delivered) if first else (self._next, 0))
        draft = self.directory / ".position.tmp"
        draft.write_bytes(b"%b %d\n" % (text, crc32(text)))
        draft.replace(self.directory / "position")

    def _remove_delivered(self) -> None:
        """Also the last segment, so that a spool of which all is delivered takes no room."""
        while self._segments and self._segments[0].delivered == len(self._segments[0].ends):
            if len(self._segments) == 1:
                self._end_segment()
            self._segments[0].path.unlink(missing_ok=True)
            del self._segments[0]

    def _remove_directory(self) -> None:
        with held(self.directory.parent):
            for pattern in (SEGMENTS, _DRAFTS, "position", ".lock"):
                for path in self.directory.glob(pattern):
                    path.unlink()
            self.directory.rmdir()

    def _writable(self) -> tuple[Segment, FileIO]:
        """The last segment and its file; a new one when there is none, or it is full, or it has failed."""
        if self._segments and self._segments[-1].size >= _SEGMENT_BYTES:
            self._end_segment()
        if self._writer is None:
            if self._segments and self._segments[-1].is_overlong:
                cut_back(self._segments[-1])
            path = self.directory / f"{self._next:08d}.segment"
            write_atomically(path, [self._header])
            self._writer = path.open("ab", buffering=0)
            self._segments.append(Segment(path, self._next, len(self._header)))
            self._next += 1
        return self._segments[-1], self._writer

    def _end_segment(self) -> None:
        """Append no more to the last segment."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
