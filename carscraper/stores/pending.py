"""What waits in memory for a database, in its order, bounded by number and by bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from carscraper.stores.record import Draft

ROOM = 4
"""Batches in memory at most, before the crawl has to wait."""
BATCH_BYTES = 8 * 1024**2
"""Bytes of records that make a batch, however few they are; some 500 records have that."""
ROOM_BYTES = 2 * BATCH_BYTES
"""Bytes of records in memory at most, before the crawl has to wait."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The end of a complete crawl: what it has not seen is off the site. Travels behind the crawl's records."""

    seen: list[str]
    begun_at: str
    removed_at: str


class Pending:
    """A queue of records and removals; one that has no room takes in more all the same, since nothing may be lost."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._waiting: deque[tuple[float, Draft | Removal]] = deque()
        self._weight = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Draft | Removal]:
        """All of them, the oldest first."""
        return (element for _, element in self._waiting)

    def add(self, element: Draft | Removal, now: float) -> None:
        """Put one at the end; `now` is in seconds of any clock."""
        self._waiting.append((now, element))
        self._weight += _size(element)

    def drop_first(self) -> None:
        """The oldest waits no more."""
        self._weight -= _size(self._waiting.popleft()[1])

    @property
    def oldest(self) -> float:
        """When the oldest came, by the clock of `add`. Raises `IndexError` when none waits."""
        return self._waiting[0][0]

    @property
    def has_room(self) -> bool:
        """False when the crawl has to wait before it brings more."""
        return len(self._waiting) < ROOM * self._batch_size and self._weight < ROOM_BYTES

    @property
    def fills_batch(self) -> bool:
        """True when there is no point in waiting for more."""
        return len(self._waiting) >= self._batch_size or self._weight >= BATCH_BYTES

    def next_batch(self) -> list[Draft | Removal]:
        """The oldest: one at least, then as many as a batch has room for."""
        batch: list[Draft | Removal] = []
        room = BATCH_BYTES
        for _, element in islice(self._waiting, self._batch_size):
            room -= _size(element)
            if batch and room < 0:
                break
            batch.append(element)
        return batch


def _size(element: Draft | Removal) -> int:
    return element.size if isinstance(element, Draft) else 0
