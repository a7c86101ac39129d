"""What waits in memory for a database, in its order, bounded by number and by bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from carscraper.items import Removal
from carscraper.stores.record import Draft

ROOM = 4
"""Batches in memory at most, before the crawl has to wait."""
BATCH_BYTES = 4 * 1024**2
"""Bytes of records that make a batch, however few they are; some 250 records have that."""
ROOM_BYTES = 2 * BATCH_BYTES
"""Bytes of records in memory at most, before the crawl has to wait."""


class Taken(NamedTuple):
    """What a delivery was given."""

    at: float
    """When, in seconds of any clock."""
    element: Draft | Removal
    logged: int
    """Number of its entry in the log of this process, from 1; 0 when it is in none: a pipeline has put another in its
    place behind the log, and it cannot be left to that.
    """


class Pending:
    """A queue of records and removals; one that has no room takes in more all the same, since nothing may be lost."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._waiting: deque[Taken] = deque()
        self._weight = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Taken]:
        """All of them, the oldest first."""
        return iter(self._waiting)

    def add(self, element: Draft | Removal, now: float, logged: int) -> bool:
        """Put one at the end; `now` is in seconds of any clock, `logged` as in `Taken`. True when it is the first, or
        fills a batch.
        """
        filled = self.fills_batch
        self._waiting.append(Taken(now, element, logged))
        self._weight += size_of(element)
        return len(self._waiting) == 1 or (self.fills_batch and not filled)

    def drop_first(self) -> Taken:
        """The oldest waits no more."""
        taken = self._waiting.popleft()
        self._weight -= size_of(taken.element)
        return taken

    @property
    def oldest(self) -> float:
        """When the oldest came, by the clock of `add`. Raises `IndexError` when none waits."""
        return self._waiting[0].at

    @property
    def begins_with_removal(self) -> bool:
        """Whether what comes next is one. Raises `IndexError` when nothing waits."""
        return isinstance(self._waiting[0].element, Removal)

    @property
    def has_room(self) -> bool:
        """False when the crawl has to wait before it brings more."""
        return len(self._waiting) < ROOM * self._batch_size and self._weight < ROOM_BYTES

    @property
    def fills_batch(self) -> bool:
        """True when there is no point in waiting for more."""
        return len(self._waiting) >= self._batch_size or self._weight >= BATCH_BYTES

    def next_batch(self) -> list[Taken]:
        """The oldest: one at least when any waits, then as many as a batch has room for."""
        found: list[Taken] = []
        most = BATCH_BYTES
        for taken in self:
            most -= size_of(taken.element)
            if found and (most < 0 or len(found) >= self._batch_size):
                break
            found.append(taken)
        return found


def size_of(element: Draft | Removal) -> int:
    """Bytes that it takes up in memory, as far as they count."""
    return element.size if isinstance(element, Draft) else 0
