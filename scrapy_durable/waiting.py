"""What waits on the disks of a crawl's workers for a database: as each reports it, and all of it together.

A worker counts by the process that has written the records, which is itself or one whose records it has taken over.
So the same records may be named by several, one after the other; they only ever become fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy_durable.stores import RemoteStore

_KIND, _PLACE = "undelivered", "place"
_MOST = 11
"""Others of which a worker names what they have left, for each database, those that it took over last: a report has a
bound. One that it does not name keeps the number that its own worker said last.
"""


class Undelivered(NamedTuple):
    """Where records wait."""

    database: str
    worker: str
    """The one that has written them."""


def numbers(store: RemoteStore) -> dict[str, int]:
    """What a worker reports of one store: absolute numbers by names, and on which disk they are."""
    recent = list(store.waiting.items())[-_MOST - 1 :]
    waiting = {f"{_KIND}:{store.name}:{worker}": number for worker, number in recent}
    return {**waiting, f"{_PLACE}:{store.name}": store.place}


def is_of_a_store(name: str) -> bool:
    """Whether a number of that name is one of `numbers`."""
    return name.startswith((f"{_KIND}:", f"{_PLACE}:"))


def as_seen_here(report: Mapping[str, int], stores: Iterable[RemoteStore]) -> dict[str, int]:
    """Another worker's report, with zeros for what it has left on this worker's own disk and is not there any more.

    Whoever has delivered that may be no part of this crawl: a crawl of something else, or `scrapy deliver`.
    """
    seen = dict(report)
    by_name = {store.name: store for store in stores}
    for place in _named(report):
        store = by_name.get(place.database)
        on_this_disk = store is not None and report.get(f"{_PLACE}:{place.database}") == store.place
        if store is not None and on_this_disk and not store.has_backlog_of(place.worker):
            seen[f"{_KIND}:{place.database}:{place.worker}"] = 0
    return seen


def waiting_elsewhere(
    *,
    here: Iterable[Mapping[str, int]],
    gone: Iterable[Mapping[str, int]],
    living: Iterable[Mapping[str, int]],
) -> tuple[dict[Undelivered, int], dict[Undelivered, int]]:
    """What waits on other disks than this worker's own, and what of that another worker has that lives: it may still
    deliver it.

    From the numbers of this worker's stores, and the reports of the workers that are gone and of those that live.
    """
    ours, theirs = list(map(_named, here)), list(map(_named, living))
    lowest: dict[Undelivered, int] = {}
    for numbers_by_place in (*ours, *theirs, *map(_named, gone)):
        for place, number in numbers_by_place.items():
            lowest[place] = min(number, lowest.get(place, number))
    elsewhere = {
        place: number
        for place, number in sorted(lowest.items())
        if number > 0 and not any(place in one for one in ours)
    }
    held = {place for one in theirs for place, number in one.items() if number}
    return elsewhere, {place: number for place, number in elsewhere.items() if place in held}


def _named(report: Mapping[str, int]) -> dict[Undelivered, int]:
    found = {}
    for name, number in report.items():
        kind, _, rest = name.partition(":")
        database, _, worker = rest.partition(":")
        if kind == _KIND:
            found[Undelivered(database, worker)] = number
    return found
