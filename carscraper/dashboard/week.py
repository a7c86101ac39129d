"""The price changes of the last seven days, from the end of `changes.jsonl`, which may be huge."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest
from pathlib import Path
from typing import IO, NamedTuple

import orjson

from carscraper.changes.lines import ADDED, REMOVED, RETURNED, RUN, Head, head_of
from carscraper.changes.prices import told_of
from scrapy_durable.plain import plain

DAYS = 7
MOST_BYTES = 512 << 20
"""Of the end of the file that is read: a week of 700,000 listings."""
MOST_LISTINGS = 100_000
"""Whose prices are remembered; of others, none is shown."""
SHOWN = 10
"""Drops, and rises."""


class Move(NamedTuple):
    """What the price of one listing has come to within the week."""

    listing: str
    name: str
    """Make, model and year, as far as they are known."""
    before: int
    after: int

    @property
    def difference(self) -> int:
        """In rand."""
        return self.after - self.before


@dataclass(slots=True)
class Week:
    """What a week has changed."""

    since: datetime
    """The runs from then on."""
    runs: int = 0
    last_run: str = ""
    """When the last catalogue was published, of all runs that were read; empty: none was."""
    added: int = 0
    removed: int = 0
    moved: int = 0
    """Listings whose price is not what it was, but for those that have gone since."""
    drops: list[Move] = field(default_factory=list)
    """The largest first."""
    rises: list[Move] = field(default_factory=list)
    is_cut: bool = False
    """There was more than is read or remembered."""
    damaged: int = 0
    """Lines that cannot be read."""

    @property
    def listings(self) -> set[str]:
        """Those that are shown."""
        return {move.listing for move in (*self.drops, *self.rises)}


def last_week(path: Path, now: datetime) -> Week:
    """The week before a moment. Raises `FileNotFoundError` and `OSError`."""
    week = Week(now - timedelta(days=DAYS))
    moves = _Moves()
    earliest = week.since.strftime("%Y-%m-%dT%H:%M:%SZ")
    with path.open("rb") as file:
        week.is_cut = _go_near_the_end(file)
        for line in file:
            head = head_of(line)
            if not line.endswith(b"\n"):
                break  # being written
            try:
                if head is None:
                    week.damaged += 1
                elif head.kind == RUN:
                    week.last_run = max(week.last_run, head.at)
                    _count_run(week, line, head.at >= earliest)
                elif head.at >= earliest:
                    moves.take(head, line)
            except (ValueError, KeyError, TypeError, AttributeError):
                week.damaged += 1
    week.is_cut = week.is_cut or moves.is_cut
    found = moves.found()
    week.moved = len(found)
    week.drops = [move for move in nsmallest(SHOWN, found, key=_difference) if move.difference < 0]
    week.rises = [move for move in nlargest(SHOWN, found, key=_difference) if move.difference > 0]
    return week


def _difference(move: Move) -> int:
    return move.difference


def _go_near_the_end(file: IO[bytes]) -> bool:
    """Whether what is before is passed over."""
    start = file.seek(0, 2) - MOST_BYTES
    file.seek(max(0, start))
    if start > 0:
        file.readline()
    return start > 0


def _count_run(week: Week, line: bytes, is_of_the_week: bool) -> None:
    run = orjson.loads(line)
    if is_of_the_week:
        week.added += int(run[ADDED]) + int(run[RETURNED])
        week.removed += int(run[REMOVED])
        week.runs += 1


class _Moves:
    """The first and the last price of each listing."""

    def __init__(self) -> None:
        self._known: dict[str, Move] = {}
        self._gone: set[str] = set()
        self.is_cut = False

    def take(self, head: Head, line: bytes) -> None:
        """Take in a line, in their order."""
        known = self._known.get(head.listing)
        match head.kind:
            case "price":
                self._take_price(head.listing, known, line)
            case "removed" if known:
                self._gone.add(head.listing)
            case "returned":
                self._gone.discard(head.listing)
            case "erased":
                self._known.pop(head.listing, None)

    def _take_price(self, listing: str, known: Move | None, line: bytes) -> None:
        change = orjson.loads(line)
        values = change["fields"]["car_attrs.price"]
        before, after = (told_of({"price": values.get(name)})[-1] for name in ("before", "after"))
        if known:
            before = known.before
        elif len(self._known) >= MOST_LISTINGS:
            self.is_cut = True
            return
        if before and after:
            make, model, year, _ = told_of(change["car"])
            name = plain(" ".join(str(part) for part in (make, model, year) if part is not None))
            self._known[listing] = Move(listing, name, before, after)

    def found(self) -> list[Move]:
        """Those whose price is another than at the beginning, and that are there."""
        return [move for move in self._known.values() if move.difference and move.listing not in self._gone]
