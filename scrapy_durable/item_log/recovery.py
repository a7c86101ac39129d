"""What an earlier process has left in the directory of an item log, checked and taken over."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import pairwise
from secrets import token_hex

from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log.directory import LogDirectory
from scrapy_durable.item_log.ledger import Entry, Ledger, Need
from scrapy_durable.item_log.records import NOWHERE, Header, Piece, Place, Settled, read_header
from scrapy_durable.item_log.scanning import Found, flushes


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log as it was found, or made."""

    header: Header
    """Of its last segment."""
    ledger: Ledger
    begins: dict[int, int]
    """Where the first record of each segment begins: bytes of its header line."""
    ends: dict[int, int]
    """Bytes of each segment, by number."""


def recover(directory: LogDirectory, crawl: str) -> Recovered:
    """The log of that crawl in a directory that is locked; a new one if there is none, or one of another crawl.

    A torn end is cut off. Raises `ItemLogDamaged`, `OtherRelease`, and `OSError`; then the files are as they were.
    """
    numbers = directory.numbers()
    read = [read_header(directory.segment(number)) for number in numbers]
    if not read or all(header.crawl != crawl for header, _ in read):
        directory.clear()
        header = Header(crawl, token_hex(8), 1, 0, 0)
        size = directory.create(header)
        return Recovered(header, Ledger(needs={1: Need()}), {1: size}, {1: size})
    headers = [header for header, _ in read]
    begins = {number: size for number, (_, size) in zip(numbers, read, strict=True)}
    _check_order(directory, numbers, headers)
    reader = _Reader(directory, begins)
    for number in numbers:
        reader.read(number)
    reader.check_open()
    last = numbers[-1]
    _cut(directory, last, reader.ends[last])
    return Recovered(headers[-1], reader.ledger, begins, reader.ends)


def _check_order(directory: LogDirectory, numbers: list[int], headers: list[Header]) -> None:
    for number, header in zip(numbers, headers, strict=True):
        if header != replace(
            headers[0], number=number, before=header.before, before_bytes=header.before_bytes
        ):
            raise ItemLogDamaged(directory.segment(number), 0, "it belongs to another place")
    for before, header in pairwise(headers):
        path = directory.segment(before.number)
        if header.before == before.number and header.before_bytes != (size := path.stat().st_size):
            raise ItemLogDamaged(path, size, f"the file ends here, and had {header.before_bytes} bytes")


def _cut(directory: LogDirectory, number: int, size: int) -> None:
    path = directory.segment(number)
    if path.stat().st_size > size:
        with path.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())


class _Reader:
    """Follows the segments in their order."""

    def __init__(self, directory: LogDirectory, begins: dict[int, int]) -> None:
        self.ledger = Ledger()
        self.ends: dict[int, int] = {}
        self._directory = directory
        self._begins = begins
        self._incomplete: set[int] = set()
        """Tokens of open leases of which pieces are gone: all is well when they turn out to be settled."""

    def read(self, number: int) -> None:
        """All of a segment. Its torn end is left out; only the last one may have any."""
        path = self._directory.segment(number)
        self.ledger.needs[number] = Need()
        end = self._begins[number]
        for found, behind in flushes(path, number, end):
            for record in found:
                self._follow(record)
            end = behind
        if end < path.stat().st_size and number != max(self._begins):
            raise ItemLogDamaged(path, end, "a flush was cut off here, and others have followed")
        self.ends[number] = end

    def check_open(self) -> None:
        """Raise `ItemLogDamaged` when items are missing of a lease that may still be accepted."""
        for token in self._incomplete:
            path = self._directory.segment(self.ledger.leases[token].segments[0])
            raise ItemLogDamaged(
                path, 0, f"the segment before it is missing, which has items of lease {token}"
            )

    def _follow(self, record: Found) -> None:
        entry, content = record
        lease = self.ledger.leases.get(entry.token)
        if isinstance(content, Piece):
            known = (lease.last, lease.count) if lease else (NOWHERE, 0)
            if entry.token and (content.previous, content.earlier) != known:
                self._check_gone(entry, content.previous)
                self._incomplete.add(entry.token)
        elif isinstance(content, Settled):
            if lease and entry.token not in self._incomplete and lease.settled != content:
                self._check_gone(entry, content.last)
            self._incomplete.discard(entry.token)
        self.ledger.follow(entry)

    def _check_gone(self, entry: Entry, piece: Place) -> None:
        """That piece, which the entry names, must have stood in a segment that is gone."""
        if piece[0] in self._begins:
            path = self._directory.segment(entry.start[0])
            raise ItemLogDamaged(path, entry.start[1], f"it contradicts the items of lease {entry.token}")
