"""What waits in memory for a database, in its order, bounded by number and by bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from carscraper.items import Car
from carscraper.stores.record import Draft, Records

ROOM = 4
"""Batches in memory at most, before the crawl has to wait."""
BATCH_BYTES = 4 * 1024**2
"""Bytes of records that make a batch, however few they are; some 250 records have that."""
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
        return self.first(BATCH_BYTES)[: self._batch_size]

    def first(self, most: int) -> list[Draft | Removal]:
        """The oldest: one at least when any waits, then as many as have `most` bytes."""
        found: list[Draft | Removal] = []
        for element in self:
            most -= _size(element)
            if found and most < 0:
                break
            found.append(element)
        return found


def _size(element: Draft | Removal) -> int:
    return element.size if isinstance(element, Draft) else 0


def encode(element: Draft | Removal) -> bytes:
    """What is kept of it on disk."""
    if isinstance(element, Draft):
        return orjson.dumps({"car": orjson.Fragment(element.json)})
    return orjson.dumps({"removal": asdict(element)})


def decode(payload: bytes, records: Records) -> Draft | Removal:
    """The same again."""
    found: dict[str, dict[str, Any]] = orjson.loads(payload)
    if "removal" in found:
        return Removal(**found["removal"])
    return Draft(Car(**found["car"]), records)
