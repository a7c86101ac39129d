"""What databases do alike with records: put them in the order of their times, and set apart those they cannot hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from carscraper.stores.contract import Refused
from carscraper.stores.record import Record

_LONGEST_REASON = 300
"""Characters of what a server or its client says that are passed on."""


class Reading(NamedTuple):
    """A record, and the time at which it was read."""

    id: str
    """The listing's."""
    at: datetime
    record: Record


def rounds(
    records: Iterable[Record], problem: Callable[[Record], str | None], refused: list[Refused]
) -> list[list[Reading]]:
    """The records in rounds, each listing once a round, the oldest reading first; by id within a round, so that all
    workers take their locks in one order.

    What cannot be put in order, and that of which `problem` says one, is added to `refused`.
    """
    readings = []
    for record in records:
        try:
            at = _read_at(record)
        except ValueError as error:
            refused.append(refuse(record, f"scraped_at: {error}"))
            continue
        if found := problem(record):
            refused.append(refuse(record, found))
        else:
            readings.append(Reading(record.id, at, record))
    made: list[list[Reading]] = []
    turns: Counter[str] = Counter()
    for reading in sorted(readings, key=attrgetter("at")):
        turn = turns[reading.id]
        turns[reading.id] += 1
        if turn == len(made):
            made.append([])
        made[turn].append(reading)
    for one_round in made:
        one_round.sort(key=attrgetter("id"))
    return made


def _read_at(record: Record) -> datetime:
    """Raises `ValueError` for what is no time, or none with a zone."""
    at = record.read_at
    if at.tzinfo is None:
        raise ValueError(f"no time zone in {record.scraped_at!r}")
    return at


def refuse(record: Record, problem: object) -> Refused:
    """The record as one that a database cannot hold."""
    return Refused(record.id, record.url, one_line(problem))


def one_line(problem: object) -> str:
    """What a server or its client says: short, and without line breaks."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in str(problem)).split())
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
