"""Specifications as BSON, in a file that nobody else sees: most new documents have one that came before."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from typing import IO

LARGEST = 64 * 1024**2
"""Bytes of the file: usual specifications, of some 3,000 bytes, all of a catalogue of 71,290 listings."""
MOST = 20_000
"""Elements that are known of: each takes some 200 bytes of memory."""


class Elements:
    """Elements by the digests of their specifications, as many of the last ones as the file has room for. All of a
    large catalogue would take too much memory, and to make one takes many times as long as to read it.

    The file, in the directory for temporary ones, has no name and goes with the process. When it cannot be written or
    read, elements are made again.
    """

    def __init__(self, largest: int = LARGEST, most: int = MOST) -> None:
        """At most `most` elements, in a file of at most `largest` bytes."""
        self._largest = largest
        self._most = most
        self._file: IO[bytes] | None = None
        self._end = 0
        """Bytes written to the file, which begins again at its start when it is full."""
        self._known: OrderedDict[bytes, tuple[int, int, bool]] = OrderedDict()
        """Where each begins, in bytes written before it, how long it is, and its mark; the first written first."""

    def get(self, digest: bytes) -> tuple[bytes, bool] | None:
        """An element and its mark, as they were put under the digest; None when it is not there."""
        found = self._known.get(digest)
        if found is None or self._file is None:
            return None
        start, size, mark = found
        try:
            element = os.pread(self._file.fileno(), size, start % self._largest)
        except OSError:
            element = b""
        if len(element) == size:
            return element, mark
        del self._known[digest]
        return None

    def put(self, digest: bytes, element: bytes, mark: bool) -> None:
        """Keep an element that is not there yet, in place of the first ones written."""
        size = len(element)
        if size > self._largest:
            return
        start = self._end
        if start % self._largest + size > self._largest:
            start += self._largest - start % self._largest
        while self._known and self._first < start + size - self._largest:
            self._known.popitem(last=False)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            if os.pwrite(self._file.fileno(), element, start % self._largest) < size:
                return
        except OSError:
            return
        self._end = start + size
        self._known[digest] = start, size, mark
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    @property
    def _first(self) -> int:
        return next(iter(self._known.values()))[0]

    def clear(self) -> None:
        """Keep nothing, and give the room on the disk back."""
        self._known.clear()
        self._end = 0
        if self._file is not None:
            self._file.close()
            self._file = None
