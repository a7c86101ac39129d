"""Accepted items read from the files, from any position on, in bounded memory.

A position needs no search: it is where the next record begins. What has been found out behind it, where the next
acceptance stands and where the pieces of its lease are, is remembered for the positions that were returned last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log.codec import ItemCodec
from scrapy_durable.item_log.directory import LogDirectory
from scrapy_durable.item_log.records import (
    ACCEPTED,
    NOWHERE,
    PIECE,
    PIECE_HEAD_BYTES,
    PREFIX_BYTES,
    Place,
    Prefix,
    Settled,
    items_of,
    read_piece,
    read_prefix,
    read_settled,
)
from scrapy_durable.item_log.unkept import MARKER, UnkeptItems

Position = tuple[int, int, int]
"""Number of a segment; offset behind the record in it that accepted a lease, or that is accepted as it stands; how many
items of the next accepted lease are passed already.
"""
BEGINNING: Position = (0, 0, 0)

_WINDOW_BYTES = 128 << 10
_CURSORS = 16


@dataclass(frozen=True, slots=True)
class Accepted:
    """Items of one lease, in the order in which they were appended: all, or those behind what was read before."""

    position: Position
    """Behind the last of them."""
    items: list[Any]
    lease: Place
    """Behind the acceptance of the lease, which no other has."""
    numbers: Sequence[int]
    """Of each of the items, the number that it has among those of its lease, from 0. Those that are lost count too."""


@dataclass(frozen=True, slots=True)
class _Cursor:
    """What was found out behind a position."""

    at: Place
    """What stands before it is known."""
    lease: _Lease | None = None
    """The next one that counts."""


class _KnownPiece(NamedTuple):
    """A piece of an accepted lease."""

    earlier: int
    """How many items the pieces before it have."""
    place: Place
    previous: Place


@dataclass(frozen=True, slots=True)
class _Lease:
    """An accepted lease."""

    token: int
    end: Place
    """Behind its acceptance."""
    count: int
    pieces: list[_KnownPiece]
    """The last one first, back to the first that was asked for."""


class _Window:
    """Bytes of one segment that were read at once."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._number = self._begin = 0
        self._data = b""

    def read(self, place: Place, length: int, limit: int, *, ahead: bool = True) -> bytes:
        """`limit`: where in the segment that ends what is flushed. `ahead`: what follows is going to be read."""
        number, offset = place
        at = offset - self._begin
        if number != self._number or at < 0 or at + length > len(self._data):
            if offset + length > limit:
                raise ItemLogDamaged(self._directory.segment(number), limit, "what was flushed ends here")
            if not ahead:
                return self._directory.read(number, offset, length)
            self._data = b""  # not two of them
            self._data = self._directory.read(number, offset, min(max(length, _WINDOW_BYTES), limit - offset))
            self._number, self._begin, at = number, offset, 0
        return self._data[at : at + length]

    def forget(self, number: int) -> None:
        """Keep nothing of that segment."""
        if number == self._number:
            self._number, self._data = 0, b""


class LogReader:
    """Reads what is flushed of the segments that it is told of."""

    def __init__(self, directory: LogDirectory, codec: ItemCodec, unkept: UnkeptItems) -> None:
        self.floor: Place = NOWHERE
        """What was accepted up to there may be gone."""
        self._begins: dict[int, int] = {}
        """Where the first record of each segment begins, by number, in ascending order."""
        self._ends: dict[int, int] = {}
        """Where ends what is flushed of each."""
        self._directory = directory
        self._codec = codec
        self._unkept = unkept
        self._records = _Window(directory)
        self._pieces = _Window(directory)
        self._cursors: OrderedDict[Position, _Cursor] = OrderedDict()

    def extend(self, number: int, begin: int, end: int) -> None:
        """So much is flushed of a segment, which may be new, behind the others."""
        self._begins[number], self._ends[number] = begin, end

    def read(self, after: Position, most: int) -> list[Accepted]:
        """What counts behind a position: up to `most` items, all of one lease in one entry unless it has more.

        Raises `ItemLogDamaged` when what was flushed cannot be read, `CodecError` when the class of an item is not
        there any more, and `OSError`.
        """
        position = max(after, (*self.floor, 0))
        cursor = self._cursors.get(position) or _Cursor(position[:2])
        accepted: list[Accepted] = []
        room = most
        while room > 0 and (cursor := self._next(cursor)).lease is not None:
            lease = cursor.lease
            if position[2] > lease.count:
                raise self._damaged(position[:2], "more items of the next lease were read than it has")
            taken = min(room, lease.count - position[2])
            items, numbers = self._items(lease, position[2], position[2] + taken)
            room -= taken
            if position[2] + taken >= lease.count:
                position, cursor = (*lease.end, 0), _Cursor(lease.end)
            else:
                position = (*position[:2], position[2] + taken)
            accepted.append(Accepted(position, items, lease.end, numbers))
        self._remember(position, cursor)
        return accepted

    def forget(self, number: int) -> None:
        """A segment is gone, or will be."""
        if self._ends.pop(number, None) is None:
            return
        del self._begins[number]
        self._records.forget(number)
        self._pieces.forget(number)
        self._directory.forget(number)

    def _remember(self, position: Position, cursor: _Cursor) -> None:
        self._cursors[position] = cursor
        self._cursors.move_to_end(position)
        if len(self._cursors) > _CURSORS:
            self._cursors.popitem(last=False)

    def _next(self, cursor: _Cursor) -> _Cursor:
        """The same with the next lease that counts; without one, behind all that is flushed."""
        if cursor.lease is not None:
            return cursor
        number, offset = self._begin_of(cursor.at)
        while True:
            while offset < self._ends[number]:
                start = (number, offset)
                prefix = self._prefix(self._records, start)
                offset += PREFIX_BYTES + prefix.length
                if prefix.kind == ACCEPTED:
                    settled = read_settled(self._payload(self._records, start, prefix))
                    return _Cursor(start, self._lease(prefix.token, (number, offset), settled))
                if prefix.kind == PIECE and not prefix.token:
                    piece, count = self._known_piece(0, start)
                    return _Cursor(start, _Lease(0, (number, offset), count, [piece]))
            following = self._following(number)
            if following is None:
                return _Cursor((number, offset))
            number, offset = following, self._begins[following]

    def _begin_of(self, at: Place) -> Place:
        """The same place, or the first record behind it when its segment is gone."""
        if at[0] in self._ends:
            if at[1] > self._ends[at[0]]:
                raise self._damaged((at[0], self._ends[at[0]]), "more of it was read than there is")
            return at
        following = self._following(at[0])
        if following is None:
            raise self._damaged(at, "something was read of it, and it is missing")
        return following, self._begins[following]

    def _following(self, number: int) -> int | None:
        return next((other for other in self._ends if other > number), None)

    def _lease(self, token: int, end: Place, settled: Settled) -> _Lease:
        last, _ = self._known_piece(token, settled.last)
        return _Lease(token, end, settled.items, [last])

    def _items(self, lease: _Lease, begin: int, end: int) -> tuple[list[Any], Sequence[int]]:
        """Those with these indexes, and the index of each."""
        pieces = lease.pieces
        while pieces[-1].earlier > begin:
            piece, count = self._known_piece(lease.token, pieces[-1].previous)
            if piece.earlier + count != pieces[-1].earlier or not count:
                raise self._damaged(piece.place, f"it contradicts the next items of lease {lease.token}")
            pieces.append(piece)
        items: list[Any] = []
        numbers: list[int] = []
        number = begin
        first = bisect_left(pieces, -begin, key=lambda piece: -piece.earlier)
        for piece in reversed(pieces[: first + 1]):
            if piece.earlier >= end:
                break
            payload = self._payload(self._pieces, piece.place, self._prefix(self._pieces, piece.place))
            count = read_piece(payload).items
            for encoded in items_of(payload, max(begin - piece.earlier, 0), min(end - piece.earlier, count)):
                found = (
                    self._unkept.find(encoded)
                    if encoded.startswith(MARKER)
                    else (self._codec.decode(encoded),)
                )
                items += found
                numbers += [number] * len(found)
                number += 1
        return items, numbers

    def _known_piece(self, token: int, place: Place) -> tuple[_KnownPiece, int]:
        """The piece of that lease at that place, and how many items it has."""
        head = self._pieces.read(place, PREFIX_BYTES + PIECE_HEAD_BYTES, self._limit(place), ahead=False)
        prefix = read_prefix(head)
        if prefix is None or (prefix.kind, prefix.token) != (PIECE, token):
            raise self._damaged(place, f"this is no piece of lease {token}")
        piece = read_piece(head, PREFIX_BYTES)
        return _KnownPiece(piece.earlier, place, piece.previous), piece.items

    def _prefix(self, window: _Window, place: Place) -> Prefix:
        prefix = read_prefix(window.read(place, PREFIX_BYTES, self._limit(place)))
        if prefix is None:
            raise self._damaged(place, "this record is damaged")
        return prefix

    def _payload(self, window: _Window, place: Place, prefix: Prefix) -> bytes:
        payload = window.read(_behind(place), prefix.length, self._limit(place))
        if crc32(payload) != prefix.checksum:
            raise self._damaged(place, "this record is damaged")
        return payload

    def _limit(self, place: Place) -> int:
        if place[0] not in self._ends:
            raise self._damaged(place, "the file is missing")
        return self._ends[place[0]]

    def _damaged(self, place: Place, problem: str) -> ItemLogDamaged:
        return ItemLogDamaged(self._directory.segment(place[0]), place[1], problem)


def _behind(place: Place) -> Place:
    """Where the payload of the record begins that begins there."""
    return place[0], place[1] + PREFIX_BYTES
