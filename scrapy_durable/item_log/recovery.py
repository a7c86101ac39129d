"""What an earlier process has left in the directory of an item log, checked and taken over."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import pairwise
from secrets import token_hex

from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log.directory import LogDirectory
from scrapy_durable.item_log.ledger import Entry, Ledger, Segment
from scrapy_durable.item_log.records import NOWHERE, Header, Piece, Place, Settled, read_header
from scrapy_durable.item_log.scanning import Found, flushes


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log as it was found, or made."""

    header: Header
    """Of its last segment."""
    ledger: Ledger


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
        return Recovered(header, Ledger(segments={1: Segment(size, size)}))
    headers = [header for header, _ in read]
    _check_order(directory, numbers, headers)
    begins = [begin for _, begin in read]
    ledger = Ledger(segments={number: Segment(at, at) for number, at in zip(numbers, begins, strict=True)})
    reader = _Reader(directory, ledger)
    for number in numbers:
        reader.read(number)
    reader.check_open()
    _cut(directory, numbers[-1], ledger.segments[numbers[-1]].end)
    return Recovered(headers[-1], ledger)


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
    """Follows the segments of a ledger in their order."""

    def __init__(self, directory: LogDirectory, ledger: Ledger) -> None:
        self._directory = directory
        self._ledger = ledger
        self._incomplete: set[int] = set()
        """Tokens of open leases of which pieces are gone: all is well when they turn out to be settled."""

    def read(self, number: int) -> None:
        """All of a segment. Its torn end is left out; only the last one may have any."""
        path = self._directory.segment(number)
        segment = self._ledger.segments[number]
        for found, end in flushes(path, number, segment.begin):
            for record in found:
                self._follow(record)
            segment.end = end
        if segment.end < path.stat().st_size and number != max(self._ledger.segments):
            raise ItemLogDamaged(path, segment.end, "a flush was cut off here, and others have followed")

    def check_open(self) -> None:
        """Raise `ItemLogDamaged` when items are missing of a lease that may still be accepted."""
        for token in self._incomplete:
            path = self._directory.segment(self._ledger.leases[token].segments[0])
            raise ItemLogDamaged(
                path, 0, f"the segment before it is missing, which has items of lease {token}"
            )

    def _follow(self, record: Found) -> None:
        entry, content = record
        lease = self._ledger.leases.get(entry.token)
        if isinstance(content, Piece):
            known = (lease.last, lease.count) if lease else (NOWHERE, 0)
            if entry.token and (content.previous, content.earlier) != known:
                self._check_gone(entry, content.previous)
                self._incomplete.add(entry.token)
        elif isinstance(content, Settled):
            if lease and entry.token not in self._incomplete and lease.settled != content:
                self._check_gone(entry, content.last)
            self._incomplete.discard(entry.token)
        self._ledger.follow(entry)

    def _check_gone(self, entry: Entry, piece: Place) -> None:
        """That piece, which the entry names, must have stood in a segment that is gone."""
        if piece[0] in self._ledger.segments:
            path = self._directory.segment(entry.start[0])
            raise ItemLogDamaged(path, entry.start[1], f"it contradicts the items of lease {entry.token}")
