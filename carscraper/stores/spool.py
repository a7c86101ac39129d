"""What waits on disk for a database that is slow or down.

Under a root that processes share, each has a directory of its own, which belongs to one database:

    <root>/.lock                      held while a directory is made, taken over or removed
    <root>/<name>/.lock               held for as long as the process lives; as old as the directory
    <root>/<name>/00000001.segment    a header line, then records; several are read in the order of their numbers
    <root>/<name>/position            what of it is delivered

- Header line: `carscraper spool 1 "127.0.0.1:27017/cars"`, the version of the format and the target as JSON.
- Record: `_MARK`, CRC-32 of length and payload, length, payload; numbers have 4 bytes, big-endian.
- Position: `<segment> <records> <CRC-32>`: so many records of this segment are delivered, and all segments of lower
  numbers.

What `append` has said True to is on disk, also after a loss of power. Of an append that was cut short, any number
of records may be there, and behind them a torn one, which `open` cuts off. Nothing is ever appended behind a torn
record: where a whole one follows, it was on disk once and has been damaged. That is an error, and never cut.

Payloads are delivered at least once. The position is not flushed, so it may be lost, or be an older one. Since no
number is used twice and a new process begins a new segment, it never covers what was appended after it was written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from io import FileIO
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import IO
from zlib import crc32

import orjson

from carscraper.exceptions import SpoolDamaged, StoreError
from carscraper.output.archive import write_atomically

_SEGMENT_BYTES = 16 << 20
"""A segment that has grown to this is followed by another, so that the disk is given back as records leave."""
_READ_BYTES = 4 << 20
"""How much is read at once: about a thousand cars."""
_VERSION = 1
_HEADER = re.compile(rb'carscraper spool (\d{1,9}) (".*")\n')
_HEADER_BYTES = 4096
"""Longer than any header line."""
_SEGMENTS = "[0-9]" * 8 + ".segment"
_DRAFTS = ".*.tmp"
_MARK = b"\xff\xfeR\n"
"""What records behind a damaged one are found by. UTF-8 has no such bytes, so no JSON does."""
_PREFIX = Struct(">4sII")


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


@dataclass(slots=True)
class _Segment:
    path: Path
    number: int
    start: int
    """Where the first record begins: behind the header line."""
    ends: array[int] = field(default_factory=lambda: array("Q"))
    """Where each record ends."""
    delivered: int = 0
    """How many records are."""
    is_overlong: bool = False
    """The file goes on behind the last record, with what is left of an append that failed."""

    @property
    def size(self) -> int:
        """Bytes, up to the end of the last record."""
        return self.ends[-1] if self.ends else self.start

    @property
    def begin(self) -> int:
        """Where the first record that waits begins."""
        return self.ends[self.delivered - 1] if self.delivered else self.start


class Spool:
    """A queue of payloads on disk, made by `open` or `adopt`, and held by one process until `close`.

    Called from one thread at a time; only `len` may be asked for meanwhile.
    """

    def __init__(self, directory: Path, target: str, max_bytes: int, lock: IO[bytes]) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._header = b"carscraper spool %d %b\n" % (_VERSION, orjson.dumps(target))
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
        _make(directory.parent)
        with _held(directory.parent):
            _make(directory)
            lock = _lock(directory)
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
            for directory, lock in _abandoned(root, on_error):
                try:
                    spools.append(cls(directory, target, max_bytes, lock))
                except SpoolDamaged as error:
                    other = _target(directory)
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
        with _held(root):
            for directory in sorted(path.parent for path in root.glob("*/.lock")):
                if any(directory.glob(_SEGMENTS)):
                    lock = _lock(directory)
                    found.append(Waiting(directory, _target(directory), in_use=lock is None))
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
        data = b"".join(chain.from_iterable((_prefix(payload), payload) for payload in payloads))
        if not beyond_bound and self.size + len(self._header) + len(data) > self.max_bytes:
            return False
        segment, writer = self._writable()
        try:
            _write(writer, data)
            os.fsync(writer.fileno())
        except BaseException:
            self._end_segment()
            segment.is_overlong = True
            with contextlib.suppress(OSError):
                _cut_back(segment)
            raise
        for payload in payloads:
            segment.ends.append(segment.size + _PREFIX.size + len(payload))
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
                    payload = _payload(file.read(end - at), 0)
                    if payload is None and payloads:
                        return payloads
                    if payload is None:
                        raise _damaged(segment.path, at, "this record is damaged")
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

    def _load(self) -> list[_Segment]:
        """Read all segments, and only then change something: cut off the torn end of the last one.

        It is flushed in any case. A process that was killed may not have come to that, and a segment with another
        one behind it counts as flushed.
        """
        paths = sorted(self.directory.glob(_SEGMENTS))
        segments = [_scan(path, self._header, is_last=path is paths[-1]) for path in paths]
        if segments:
            _cut_back(segments[-1])
        if segments and not segments[-1].start:
            segments.pop().path.unlink()
        for draft in self.directory.glob(_DRAFTS):
            draft.unlink()
        return segments

    def _take_position(self) -> None:
        """Believe the position, unless it speaks of records that are not there."""
        number, records = _position(self.directory)
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
        with _held(self.directory.parent):
            for pattern in (_SEGMENTS, _DRAFTS, "position", ".lock"):
                for path in self.directory.glob(pattern):
                    path.unlink()
            self.directory.rmdir()

    def _writable(self) -> tuple[_Segment, FileIO]:
        """The last segment and its file; a new one when there is none, or it is full, or it has failed."""
        if self._segments and self._segments[-1].size >= _SEGMENT_BYTES:
            self._end_segment()
        if self._writer is None:
            if self._segments and self._segments[-1].is_overlong:
                _cut_back(self._segments[-1])
            path = self.directory / f"{self._next:08d}.segment"
            write_atomically(path, [self._header])
            self._writer = path.open("ab", buffering=0)
            self._segments.append(_Segment(path, self._next, len(self._header)))
            self._next += 1
        return self._segments[-1], self._writer

    def _end_segment(self) -> None:
        """Append no more to the last segment."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _prefix(payload: bytes) -> bytes:
    """What stands before a record's payload."""
    length = len(payload)
    return _PREFIX.pack(_MARK, _checksum(length, payload), length)


def _payload(data: bytes, offset: int) -> bytes | None:
    """What the record holds that begins there; None when there is no whole one."""
    begin = offset + _PREFIX.size
    if begin > len(data):
        return None
    mark, checksum, length = _PREFIX.unpack_from(data, offset)
    payload = data[begin : begin + length]
    if mark != _MARK or len(payload) != length or _checksum(length, payload) != checksum:
        return None
    return payload


def _checksum(length: int, payload: bytes) -> int:
    return crc32(payload, crc32(length.to_bytes(4, "big")))


def _scan(path: Path, header: bytes, *, is_last: bool) -> _Segment:
    """Find the records of a segment. One whose header line is torn has no place for records: its start is 0.

    Raises `SpoolDamaged`, unless what is damaged is the end of the last segment.
    """
    data = path.read_bytes()
    number = int(path.stem)
    if is_last and len(data) < len(header) and header.startswith(data):
        return _Segment(path, number, 0)
    _check_header(path, data, header)
    segment = _Segment(path, number, len(header))
    while (payload := _payload(data, segment.size)) is not None:
        segment.ends.append(segment.size + _PREFIX.size + len(payload))
    if segment.size < len(data) and not (is_last and _is_end(data, segment.size)):
        raise _damaged(path, segment.size, "this record is damaged")
    return segment


def _is_end(data: bytes, offset: int) -> bool:
    """True when no whole record begins behind that place."""
    at = data.find(_MARK, offset + 1)
    while at >= 0 and _payload(data, at) is None:
        at = data.find(_MARK, at + 1)
    return at < 0


def _check_header(path: Path, data: bytes, header: bytes) -> None:
    if data.startswith(header):
        return
    found = _HEADER.match(data)
    if found is None:
        raise _damaged(path, 0, "this is no header line of a spool")
    if int(found[1]) != _VERSION:
        raise _damaged(path, 0, f"its format has version {int(found[1])}, known is {_VERSION}")
    raise _damaged(path, 0, f"it belongs to {found[2].decode(errors='replace')}")


def _target(directory: Path) -> str | None:
    """The database that a directory belongs to; None when nothing waits there, or it cannot be read."""
    for path in sorted(directory.glob(_SEGMENTS))[:1]:
        with path.open("rb") as file, contextlib.suppress(orjson.JSONDecodeError):
            if found := _HEADER.fullmatch(file.readline(_HEADER_BYTES)):
                return str(orjson.loads(found[2]))
    return None


def _position(directory: Path) -> tuple[int, int]:
    """Number of a segment, and how many of its records are delivered; zeros when that is not known."""
    with contextlib.suppress(OSError, ValueError):
        text, checksum = (directory / "position").read_bytes().removesuffix(b"\n").rsplit(b" ", 1)
        if int(checksum) == crc32(text):
            number, records = text.split()
            return int(number), int(records)
    return 0, 0


def _damaged(path: Path, offset: int, problem: str) -> SpoolDamaged:
    return SpoolDamaged(f"{path}, byte {offset}: {problem}")


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _cut_back(segment: _Segment) -> None:
    """Have the file end with its last record, also after a loss of power."""
    with segment.path.open("r+b") as file:
        file.truncate(segment.size)
        os.fsync(file.fileno())
    segment.is_overlong = False


def _make(directory: Path) -> None:
    """Make a directory and those above it, so that they outlive a loss of power."""
    if directory.is_dir():
        return
    _make(directory.parent)
    directory.mkdir(exist_ok=True)
    parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


@contextlib.contextmanager
def _held(root: Path) -> Iterator[None]:
    """Wait until no other process makes, takes over or removes a directory, and let none do it meanwhile."""
    with (root / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock(directory: Path) -> IO[bytes] | None:
    """Take a directory for this process: until the file is closed, however that comes. None when another has it."""
    file = (directory / ".lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _abandoned(root: Path, on_error: contextlib.ExitStack) -> list[tuple[Path, IO[bytes]]]:
    """The directories that no process has, locked for this one until `on_error` is closed."""
    found: list[tuple[Path, IO[bytes]]] = []
    if not root.is_dir():
        return found
    with _held(root):
        for path in sorted(root.glob("*/.lock")):
            if lock := _lock(path.parent):
                on_error.callback(lock.close)
                found.append((path.parent, lock))
    return found
