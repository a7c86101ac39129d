"""The bytes of a segment: a header line, then records; each flush ends with a commit.

Numbers are big-endian and unsigned. A place is the number of a segment (4 bytes) and an offset in it (8 bytes).

- Header line: `scrapy_durable item log 1 `, CRC-32 of the rest in hex, a space, and as JSON: the crawl, the log's name,
  the segment's number, and number and bytes of the segment before it.
- Record: mark (3 bytes), kind (1), token (8), length of the payload (4), CRC-32 of the payload (4), CRC-32 of these 20
  bytes (4), payload. So a length can be relied on, whatever has become of the payload.

Kinds, and what their payload is:

1. Piece: some items of a lease; under token 0, they are accepted as they stand. Place of the lease's piece before this
   one, items in all those before (8), items in this one (4); for each its length (4) and what the codec made of it.
2. Accepted: the lease counts. Place of its last piece, number of the segment of its first (4), items in all (8).
3. Discarded: it never will, or every consumer has had it. The same.
4. Let go: what was accepted up to this place may be gone. The place.
5. Commit: all records of the flush were written. Where it begins (8): behind the last commit, or the header line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

import orjson

from scrapy_durable.exceptions import ItemLogDamaged, OtherRelease

Place = tuple[int, int]
"""Number of a segment, offset in it."""
NOWHERE: Place = (0, 0)
"""Before every place: segments are numbered from 1."""

VERSION = 1
MARK = b"\xff\xfeL"
"""What records behind a damaged one are found by. UTF-8 has no such bytes, so no JSON does."""
PIECE, ACCEPTED, DISCARDED, LET_GO, COMMIT = range(1, 6)
PREFIX_BYTES = 24
LONGEST = 1 << 30
"""Bytes of an item as the codec made it."""
_PIECE_BYTES = 256 << 10
"""A piece is not begun anew for an item before it has so many: so much is read at once, or one item."""

_MAGIC = b"scrapy_durable item log "
_HEADER_BYTES = 64 << 10
"""Longer than any header line."""
_HEAD = Struct(">3sBQII")
_CHECKSUM = Struct(">I")
_PIECE = Struct(">IQQI")
_SETTLED = Struct(">IQIQ")
_PLACE = Struct(">IQ")
_COMMIT = Struct(">Q")
_LENGTH = Struct(">I")
PIECE_HEAD_BYTES = _PIECE.size
LENGTH_BYTES = _LENGTH.size


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line of a segment says."""

    crawl: str
    name: str
    """Of the log."""
    number: int
    before: int
    """Number of the segment before this one; 0 for the first."""
    before_bytes: int
    """How long that is."""


class Prefix(NamedTuple):
    """What stands before a record's payload."""

    kind: int
    token: int
    length: int
    checksum: int


class Piece(NamedTuple):
    """Some items of a lease that stand together."""

    previous: Place
    """The lease's piece before this one; `NOWHERE` for its first."""
    earlier: int
    """How many items those before have."""
    items: int


class Settled(NamedTuple):
    """A lease of which it is known whether it counts."""

    last: Place
    """Its last piece."""
    first_segment: int
    items: int
    """How many it has."""


def pack_header(header: Header) -> bytes:
    """The first line of a segment."""
    document = orjson.dumps(asdict(header))
    return b"%b%d %08x %b\n" % (_MAGIC, VERSION, crc32(document), document)


def read_header(path: Path) -> tuple[Header, int]:
    """What the first line says, and its bytes.

    Raises `ItemLogDamaged`, `OtherRelease` for another version, and `OSError`.
    """
    with path.open("rb") as file:
        line = file.readline(_HEADER_BYTES)
    if not line.startswith(_MAGIC) or not line.endswith(b"\n"):
        raise ItemLogDamaged(path, 0, "this is no header line of an item log")
    version, _, rest = line.removeprefix(_MAGIC).partition(b" ")
    if version != b"%d" % VERSION:
        found = version.decode(errors="replace")
        raise OtherRelease(str(path.parent), found, str(VERSION), "move it away to begin anew")
    checksum, _, document = rest[:-1].partition(b" ")
    if checksum != b"%08x" % crc32(document):
        raise ItemLogDamaged(path, 0, "the header line is damaged")
    return Header(**orjson.loads(document)), len(line)


def pack(kind: int, token: int, payload: bytes) -> bytes:
    """A record."""
    return b"".join((pack_prefix(kind, token, [payload]), payload))


def pack_prefix(kind: int, token: int, payload: Sequence[bytes]) -> bytes:
    """What stands before a record's payload, which comes in parts: it may be large, and is not put together here."""
    length = checksum = 0
    for part in payload:
        length += len(part)
        checksum = crc32(part, checksum)
    head = _HEAD.pack(MARK, kind, token, length, checksum)
    return head + _CHECKSUM.pack(crc32(head))


def read_prefix(data: bytes | bytearray, offset: int = 0) -> Prefix | None:
    """The prefix that begins there; None when there is no whole one."""
    if len(data) < offset + PREFIX_BYTES:
        return None
    mark, kind, token, length, checksum = _HEAD.unpack_from(data, offset)
    (check,) = _CHECKSUM.unpack_from(data, offset + _HEAD.size)
    if mark != MARK or crc32(data[offset : offset + _HEAD.size]) != check:
        return None
    return Prefix(kind, token, length, checksum)


def pieces_of(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Items of a lease, cut into what becomes one piece each."""
    begin = size = 0
    for index, item in enumerate(items):
        if size >= _PIECE_BYTES:
            yield items[begin:index]
            begin, size = index, 0
        size += len(item)
    yield items[begin:]


def pack_piece(piece: Piece, items: Sequence[bytes]) -> list[bytes]:
    """The payload of a piece, in parts."""
    parts = [_PIECE.pack(*piece.previous, piece.earlier, piece.items)]
    for item in items:
        parts.append(_LENGTH.pack(len(item)))
        parts.append(item)
    return parts


def read_piece(data: bytes, begin: int = 0) -> Piece:
    """What the first `PIECE_HEAD_BYTES` of a payload say, which begins there."""
    segment, offset, earlier, items = _PIECE.unpack_from(data, begin)
    return Piece((segment, offset), earlier, items)


def read_length(data: bytes | bytearray | mmap, at: int) -> int:
    """How many bytes the item has whose length stands there."""
    length: int = _LENGTH.unpack_from(data, at)[0]
    return length


def items_of(payload: bytes, begin: int, end: int) -> Iterator[bytes]:
    """The items of a piece's payload with these indexes, as the codec made them."""
    at = _PIECE.size
    for index in range(end):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        if index >= begin:
            yield payload[at : at + length]
        at += length


def pack_settled(settled: Settled) -> bytes:
    """The payload of `ACCEPTED` and `DISCARDED`."""
    return _SETTLED.pack(*settled.last, settled.first_segment, settled.items)


def read_settled(payload: bytes) -> Settled:
    """What `pack_settled` wrote."""
    segment, offset, first_segment, items = _SETTLED.unpack(payload)
    return Settled((segment, offset), first_segment, items)


def pack_place(place: Place) -> bytes:
    """The payload of `LET_GO`."""
    return _PLACE.pack(*place)


def read_place(payload: bytes) -> Place:
    """What `pack_place` wrote."""
    segment, offset = _PLACE.unpack(payload)
    return segment, offset


def pack_commit(begin: int) -> bytes:
    """The payload of `COMMIT`."""
    return _COMMIT.pack(begin)


def read_commit(payload: bytes) -> int:
    """What `pack_commit` wrote."""
    begin: int = _COMMIT.unpack(payload)[0]
    return begin
