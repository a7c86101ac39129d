"""The records of a segment's file, read from its begin; told apart: a torn end, and damage.

A process that is killed leaves the beginning of a flush: the file ends within a record, or behind one that no commit
follows. A machine that is killed may have written any sectors of a flush and not the others, which read as zeros; no
record has a sector of zeros. What is not whole for another reason was flushed once and is damaged, and so is whatever
the commit of a later flush stands behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO
from zlib import crc32

from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log.ledger import Entry
from scrapy_durable.item_log.records import (
    ACCEPTED,
    COMMIT,
    DISCARDED,
    LET_GO,
    MARK,
    PIECE,
    PIECE_HEAD_BYTES,
    PREFIX_BYTES,
    Piece,
    Prefix,
    Settled,
    read_commit,
    read_piece,
    read_place,
    read_prefix,
    read_settled,
)

_SECTOR = 512
_SHORTEST_HOLE = 16
"""Bytes of zeros at one end of a flush that cannot be a part of a record."""
_BUFFER = 1 << 20

Found = tuple[Entry, Piece | Settled | None]
"""A record, and what a piece or a settled lease says."""


def flushes(path: Path, number: int, begin: int) -> Iterator[tuple[list[Found], int]]:
    """The records of each whole flush, and where it ends.

    `begin` is behind the header line. What follows the last of them was torn. Raises `ItemLogDamaged` and `OSError`.
    """
    size = path.stat().st_size
    with path.open("rb", buffering=_BUFFER) as file:
        file.seek(begin)
        at = committed = begin
        found: list[Found] = []
        while (record := _read(file, at, size)) is not None:
            prefix, payload = record
            end = at + PREFIX_BYTES + prefix.length
            if prefix.kind == COMMIT:
                if read_commit(payload) != committed:
                    raise ItemLogDamaged(path, at, "a flush before this one is missing")
                yield found, end
                found, committed = [], end
            else:
                found.append(_understood(path, number, at, prefix, payload))
            at = end
        if committed < size:
            _check_torn(file, path, committed, at, size)


def settled_in(path: Path, begin: int) -> Iterator[tuple[int, Settled]]:
    """Every lease, by its token, of which a whole segment says whether it counts."""
    size = path.stat().st_size
    with path.open("rb") as file:
        at = begin
        while at < size:
            file.seek(at)
            prefix = read_prefix(file.read(PREFIX_BYTES))
            if prefix is None:
                raise ItemLogDamaged(path, at, "this record is damaged")
            if prefix.kind in (ACCEPTED, DISCARDED):
                payload = file.read(prefix.length)
                if crc32(payload) != prefix.checksum:
                    raise ItemLogDamaged(path, at, "this record is damaged")
                yield prefix.token, read_settled(payload)
            at += PREFIX_BYTES + prefix.length


def _read(file: IO[bytes], at: int, size: int) -> tuple[Prefix, bytes] | None:
    """The record that begins there; None when there is no whole one. Reads on from where it was."""
    prefix = read_prefix(file.read(PREFIX_BYTES))
    if prefix is None or at + PREFIX_BYTES + prefix.length > size:
        return None
    payload = file.read(prefix.length)
    return (prefix, payload) if crc32(payload) == prefix.checksum else None


def _understood(path: Path, number: int, at: int, prefix: Prefix, payload: bytes) -> Found:
    start, end = (number, at), (number, at + PREFIX_BYTES + prefix.length)
    match prefix.kind:
        case k if k == PIECE:
            piece = read_piece(payload[:PIECE_HEAD_BYTES])
            return Entry(PIECE, prefix.token, start, end, piece.earlier + piece.items), piece
        case k if k in (ACCEPTED, DISCARDED):
            return Entry(prefix.kind, prefix.token, start, end), read_settled(payload)
        case k if k == LET_GO:
            return Entry(LET_GO, 0, start, end, let_go=read_place(payload)), None
    raise ItemLogDamaged(path, at, f"there is no record of kind {prefix.kind}")


def _check_torn(file: IO[bytes], path: Path, committed: int, at: int, size: int) -> None:
    """Raise `ItemLogDamaged` when what stands behind the last whole flush, from `at` on in no whole record, is not what
    a killed process or machine leaves.
    """
    file.seek(committed)
    data = file.read(size - committed)
    rest = at - committed
    if len(data) - rest < PREFIX_BYTES:
        return
    prefix = read_prefix(data, rest)
    if prefix is not None and rest + PREFIX_BYTES + prefix.length > len(data):
        return
    if _has_later_commit(data, rest, committed) or not _has_hole(data, committed):
        raise ItemLogDamaged(path, at, "this record is damaged")


def _has_later_commit(data: bytes, rest: int, committed: int) -> bool:
    """Whether a flush was made behind the one that is not whole."""
    commit = MARK + bytes([COMMIT])
    at = data.find(commit, rest)
    while at >= 0:
        prefix = read_prefix(data, at)
        if prefix is not None:
            payload = data[at + PREFIX_BYTES : at + PREFIX_BYTES + prefix.length]
            if crc32(payload) == prefix.checksum and read_commit(payload) > committed:
                return True
        at = data.find(commit, at + 1)
    return False


def _has_hole(data: bytes, offset: int) -> bool:
    """Whether a sector of the flush was never written. `offset` is where it begins in the file."""
    begin = 0
    while begin < len(data):
        end = begin + _SECTOR - (offset + begin) % _SECTOR
        sector = data[begin:end]
        if len(sector) >= _SHORTEST_HOLE and not sector.strip(b"\0"):
            return True
        begin = end
    return False
