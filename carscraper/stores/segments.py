"""A file of a spool: a header line, then records, each with a checksum.

- Header line: `carscraper spool 1 "127.0.0.1:27017/cars"`, the version of the format and the target as JSON.
- Record: `MARK`, CRC-32 of length and payload, length, payload; numbers have 4 bytes, big-endian.
"""

from __future__ import annotations

import contextlib
import os
import re
from array import array
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from struct import Struct
from zlib import crc32

import orjson

from carscraper.exceptions import SpoolDamaged

_VERSION = 1
_HEADER = re.compile(rb'carscraper spool (\d{1,9}) (".*")\n')
_HEADER_BYTES = 4096
"""Longer than any header line."""
MARK = b"\xff\xfeR\n"
"""What records behind a damaged one are found by. UTF-8 has no such bytes, so no JSON does."""
PREFIX = Struct(">4sII")
"""Mark, checksum and length of a record."""


@dataclass(slots=True)
class Segment:
    """A segment, and where its records are."""

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


def header(target: str) -> bytes:
    """The first line of a segment of that target."""
    return b"carscraper spool %d %b\n" % (_VERSION, orjson.dumps(target))


def target_in(path: Path) -> str | None:
    """The target that a segment names; None when that cannot be read."""
    with path.open("rb") as file, contextlib.suppress(orjson.JSONDecodeError):
        if found := _HEADER.fullmatch(file.readline(_HEADER_BYTES)):
            return str(orjson.loads(found[2]))
    return None


def prefix(payload: bytes) -> bytes:
    """What stands before a record's payload."""
    length = len(payload)
    return PREFIX.pack(MARK, _checksum(length, payload), length)


def payload_at(data: bytes, offset: int) -> bytes | None:
    """What the record holds that begins there; None when there is no whole one."""
    begin = offset + PREFIX.size
    if begin > len(data):
        return None
    mark, checksum, length = PREFIX.unpack_from(data, offset)
    payload = data[begin : begin + length]
    if mark != MARK or len(payload) != length or _checksum(length, payload) != checksum:
        return None
    return payload


def _checksum(length: int, payload: bytes) -> int:
    return crc32(payload, crc32(length.to_bytes(4, "big")))


def scan(path: Path, header: bytes, *, is_last: bool) -> Segment:
    """Find the records of a segment. One whose header line is torn has no place for records: its start is 0.

    Raises `SpoolDamaged`, unless what is damaged is the end of the last segment.
    """
    data = path.read_bytes()
    number = int(path.stem)
    if is_last and len(data) < len(header) and header.startswith(data):
        return Segment(path, number, 0)
    _check_header(path, data, header)
    segment = Segment(path, number, len(header))
    while (payload := payload_at(data, segment.size)) is not None:
        segment.ends.append(segment.size + PREFIX.size + len(payload))
    if segment.size < len(data) and not (is_last and _is_end(data, segment.size)):
        raise damaged(path, segment.size, "this record is damaged")
    return segment


def _is_end(data: bytes, offset: int) -> bool:
    """True when no whole record begins behind that place."""
    at = data.find(MARK, offset + 1)
    while at >= 0 and payload_at(data, at) is None:
        at = data.find(MARK, at + 1)
    return at < 0


def _check_header(path: Path, data: bytes, header: bytes) -> None:
    if data.startswith(header):
        return
    found = _HEADER.match(data)
    if found is None:
        raise damaged(path, 0, "this is no header line of a spool")
    if int(found[1]) != _VERSION:
        raise damaged(path, 0, f"its format has version {int(found[1])}, known is {_VERSION}")
    raise damaged(path, 0, f"it belongs to {found[2].decode(errors='replace')}")


def damaged(path: Path, offset: int, problem: str) -> SpoolDamaged:
    """The error that names the place."""
    return SpoolDamaged(f"{path}, byte {offset}: {problem}")


def write(file: FileIO, data: bytes) -> None:
    """All of it, however little the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def cut_back(segment: Segment) -> None:
    """Have the file end with its last record, also after a loss of power."""
    with segment.path.open("r+b") as file:
        file.truncate(segment.size)
        os.fsync(file.fileno())
    segment.is_overlong = False
