"""The last segment of an item log, as it is written: in one thread at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO
from threading import Lock

from scrapy_durable.item_log.directory import LogDirectory
from scrapy_durable.item_log.records import Header, Place

_CHUNK_BYTES = 1 << 20
"""Bytes that are written at once, about."""


class SegmentWriter:
    """Appends flushes; begins another segment when the last one has `segment_bytes`."""

    def __init__(
        self, directory: LogDirectory, header: Header, begin: int, size: int, segment_bytes: int
    ) -> None:
        self.begin = begin
        """Behind the header line of the last segment."""
        self._directory = directory
        self._header = header
        self._size = size
        self._segment_bytes = segment_bytes
        self._file: FileIO | None = None
        self._is_torn = False
        """Something of a write that failed may stand behind the last flush."""
        self._is_closed = False
        self._lock = Lock()

    @property
    def number(self) -> int:
        """Of the last segment."""
        return self._header.number

    def prepare(self) -> Place:
        """Where the next flush begins: behind the last one, with nothing of one that failed. Raises `OSError`."""
        with self._lock:
            if self._is_closed:
                raise ValueError("the item log is closed")
            self._cut_back()
            if self._size >= self._segment_bytes and self._size > self.begin:
                self._begin_segment()
            return self._header.number, self._size

    def write(self, parts: Iterable[bytes]) -> int:
        """Have these on disk, behind `prepare`; returns the bytes of the segment. Raises `OSError`; then nothing of
        it counts.
        """
        size = 0
        with self._lock:
            file = self._opened()
            self._is_torn = True
            try:
                for chunk in _chunks(parts):
                    rest = memoryview(chunk)
                    while rest:
                        rest = rest[file.write(rest) :]
                    size += len(chunk)
                os.fdatasync(file.fileno())
            except OSError as error:
                with contextlib.suppress(OSError):  # tried again before the next write
                    self._cut_back()
                path = self._directory.segment(self._header.number)
                raise OSError(error.errno, error.strerror or str(error), str(path)) from error
            self._is_torn = False
            self._size += size
            return self._size

    def close(self) -> None:
        """Wait for a write under way, and close the file; what has failed is cut off by the next process."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _opened(self) -> FileIO:
        if self._is_closed:
            raise ValueError("the item log is closed")
        if self._file is None:
            self._file = FileIO(self._directory.segment(self._header.number), "r+")
            self._file.seek(self._size)
        return self._file

    def _cut_back(self) -> None:
        if self._is_torn:
            file = self._opened()
            file.truncate(self._size)
            os.fsync(file.fileno())
            file.seek(self._size)
            self._is_torn = False

    def _begin_segment(self) -> None:
        before = self._header
        header = replace(before, number=before.number + 1, before=before.number, before_bytes=self._size)
        size = self._directory.create(header)
        if self._file is not None:
            self._file.close()
            self._file = None
        self._header, self._size, self.begin = header, size, size


def _chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer parts, so that neither a flush nor a large item is in memory as a whole once more."""
    chunk = bytearray()
    for part in parts:
        if len(chunk) + len(part) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
        if len(part) >= _CHUNK_BYTES:
            yield part
        else:
            chunk += part
    yield bytes(chunk)
