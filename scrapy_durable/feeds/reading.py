"""The item log, read a slice at a time, for several feeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scrapy_durable.item_log import BEGINNING, Accepted, Position

__all__ = ["BEGINNING", "Accepted", "Log", "Position", "Reader"]

SLICE = 100
"""Items that are read at once; the reactor has its turn after each slice."""


class Log(Protocol):
    """What feeds need of the item log."""

    @property
    def name(self) -> str:
        """The same for each run of the worker in this crawl, and for nobody else."""

    def read(self, after: Position, most: int) -> Sequence[Accepted]:
        """Up to `most` items behind a position. Entries may have fewer items than their position says."""


class Reader:
    """Reads a log for several feeds, which mostly are at the same place: what one has read, the others are given."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._slice: Sequence[Accepted] = ()
        self._places: dict[Position, int] = {}

    def read(self, after: Position) -> Sequence[Accepted]:
        """What comes next, `SLICE` items at most; nothing when there is nothing new. Raises what the log raises."""
        place = self._places.get(after)
        if place is None or place == len(self._slice):
            self._slice = self._log.read(after, SLICE)
            self._places = {after: 0}
            self._places.update((lease.position, number) for number, lease in enumerate(self._slice, 1))
            place = 0
        return self._slice[place:]

    def behind(self, after: Position, items: int) -> Position:
        """The position behind so many items, of those that are behind another position."""
        for passed in range(items, items + SLICE):
            accepted = self._log.read(after, passed)
            if sum(len(lease.items) for lease in accepted) == items:
                return accepted[-1].position
        raise LookupError(f"there are no {items} items behind {after}")
