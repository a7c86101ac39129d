"""Which leases are open, and which segments somebody still needs: what the records of a log amount to."""

from __future__ import annotations

from dataclasses import dataclass, field

from scrapy_durable.item_log.records import ACCEPTED, DISCARDED, LET_GO, NOWHERE, PIECE, Place, Settled


@dataclass(frozen=True, slots=True)
class Lease:
    """The items of a lease of which it is not known yet whether they count."""

    last: Place
    """The last piece of them."""
    count: int
    segments: tuple[int, ...]
    """Those that have a piece, in ascending order."""

    def with_piece(self, place: Place, count: int) -> Lease:
        """The same with another piece, and so many items with that."""
        segments = self.segments if self.segments[-1] == place[0] else (*self.segments, place[0])
        return Lease(place, count, segments)

    @property
    def settled(self) -> Settled:
        """What is written of it once it is accepted or discarded."""
        return Settled(self.last, self.segments[0], self.count)


@dataclass(slots=True)
class Segment:
    """A segment, and what it is still needed for."""

    begin: int
    """Where its first record begins."""
    end: int
    """Where ends what is flushed of it: its bytes."""
    open: int = 0
    """How many open leases have a piece in it."""
    until: Place = NOWHERE
    """Behind the last acceptance that stands in it, or is of items in it: every consumer has to pass that."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger has to know of a record."""

    kind: int
    token: int
    start: Place
    end: Place
    """Behind the record, in the same segment."""
    count: int = 0
    """Of a piece: how many items the lease has with it."""
    let_go: Place = NOWHERE


@dataclass(slots=True)
class Ledger:
    """Follows the records in their order."""

    leases: dict[int, Lease] = field(default_factory=dict)
    """The open ones, by token."""
    segments: dict[int, Segment] = field(default_factory=dict)
    """Those that are there, by number, in ascending order."""
    floor: Place = NOWHERE
    """What was accepted up to there may be gone: every consumer had passed it."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.end for segment in self.segments.values())

    def follow(self, entry: Entry) -> None:
        """Take note of the next record."""
        if entry.kind == PIECE:
            self._follow_piece(entry)
        elif entry.kind in (ACCEPTED, DISCARDED):
            until = entry.end if entry.kind == ACCEPTED else NOWHERE
            lease = self.leases.pop(entry.token, None)
            for number in lease.segments if lease is not None else ():
                if segment := self.segments.get(number):
                    segment.open -= 1
                    segment.until = max(segment.until, until)
            self._is_needed(entry.end[0], until)
        elif entry.kind == LET_GO:
            self.floor = max(self.floor, entry.let_go)

    def unneeded(self, passed: Place) -> list[int]:
        """Segments that nobody needs when every consumer has passed that place, in ascending order; never the last."""
        *others, _ = self.segments.items()
        return [number for number, segment in others if not segment.open and segment.until <= passed]

    def _follow_piece(self, entry: Entry) -> None:
        number = entry.start[0]
        if not entry.token:
            self._is_needed(number, entry.end)
            return
        lease = self.leases.get(entry.token)
        if lease is None or lease.segments[-1] != number:
            self.segments[number].open += 1
        self.leases[entry.token] = (
            Lease(entry.start, entry.count, (number,))
            if lease is None
            else lease.with_piece(entry.start, entry.count)
        )

    def _is_needed(self, number: int, until: Place) -> None:
        segment = self.segments[number]
        segment.until = max(segment.until, until)
