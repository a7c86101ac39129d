"""Items that cannot be encoded: in memory for as long as this process lives, with a marker in the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from secrets import token_bytes
from typing import Any

from scrapy_durable.item_log.records import Place

MARKER = b"U"
"""What a marker begins with, and nothing that the codec makes. Behind it 8 bytes for the process, and a number."""
_PROCESS_BYTES = 8


class UnkeptItems:
    """Objects by their markers, until every consumer has had them."""

    def __init__(self) -> None:
        self.lost = 0
        """Markers of earlier processes that were asked for: so many items are gone."""
        self._process = token_bytes(_PROCESS_BYTES)
        self._objects: dict[bytes, Any] = {}
        self._of_token: dict[int, list[bytes]] = {}
        """Markers of leases of which it is not known whether they count."""
        self._accepted: deque[tuple[Place, list[bytes]]] = deque()
        """Markers by the place behind their acceptance, in order."""
        self._last = 0
        self._lost: set[bytes] = set()

    def keep(self, token: int, item: Any) -> bytes:
        """Take an item of a lease; returns its marker."""
        self._last += 1
        marker = b"".join((MARKER, self._process, self._last.to_bytes(8)))
        self._objects[marker] = item
        if token:
            self._of_token.setdefault(token, []).append(marker)
        return marker

    def find(self, marker: bytes) -> list[Any]:
        """The item, or none when it is lost."""
        if marker in self._objects:
            return [self._objects[marker]]
        is_ours = marker.startswith(self._process, len(MARKER))  # every consumer has had it
        if not is_ours and marker not in self._lost:
            self._lost.add(marker)
            self.lost += 1
        return []

    def accept(self, token: int, place: Place) -> None:
        """The lease's acceptance ends at that place."""
        if markers := self._of_token.pop(token, None):
            self._accepted.append((place, markers))

    def accept_loose(self, items: Iterable[bytes], place: Place) -> None:
        """The same of items under no lease, as they stand in the log."""
        if markers := [item for item in items if item.startswith(MARKER)]:
            self._accepted.append((place, markers))

    def discard(self, token: int) -> None:
        """Forget the items of a lease."""
        for marker in self._of_token.pop(token, ()):
            del self._objects[marker]

    def let_go(self, place: Place) -> None:
        """Forget the items that were accepted up to that place."""
        while self._accepted and self._accepted[0][0] <= place:
            for marker in self._accepted.popleft()[1]:
                del self._objects[marker]
