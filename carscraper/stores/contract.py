"""The vocabulary of the stores: what goes to a database, and what a database has to do.

A record is a reading of one listing at one time. A database keeps one row (document) per listing, keyed by
its id, and changes it by these rules, each atomic for the listing, whatever else is written meanwhile:

- a reading older than `last_seen` changes nothing but `first_seen`, when it is even older than that; of two that
  were read in the same millisecond, the one with the lesser digest is the older;
- one with the digest that is stored already moves `last_seen`, and nothing else;
- one whose specification could not be had leaves what is known of it;
- any other replaces url, scraped_at, raw parts and typed values; a price that differs from the one before
  is added to the price history with the time of the reading, in the place of another one of that millisecond;
- either takes `removed_at` back when it is younger than that.

So a record may be delivered any number of times, in any order.

A database belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from carscraper.items import Car
from carscraper.stores.record import Record


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that a database cannot hold, though it holds its neighbours."""

    id: str
    """The listing's identifier."""
    url: str
    problem: str
    """What is wrong with it, on one line, as the database or its client says."""


@dataclass(frozen=True, slots=True)
class StoredCar:
    """What a database holds of a listing."""

    car: Car
    """As it was last read when it differed; its `scraped_at` is the time of that reading."""
    first_seen: datetime
    last_seen: datetime
    removed_at: datetime | None
    """When a complete crawl no longer saw it; None while it is on the site. All times in UTC."""


class Database(Protocol):
    """What a store behind an address has to do. One test suite holds each of them to it."""

    name: str
    """For people: `MongoDB`, `PostgreSQL`."""
    key: str
    """For names of files and stats: `mongo`, `postgres`."""
    target: str
    """Where records go, without user and password: `127.0.0.1:27017/cars`. What waits on disk belongs to it."""

    keep_removed: float
    """Seconds that a listing is kept after it was marked as removed; infinite unless somebody has set it."""

    async def open(self) -> None:
        """Connect, see that everything needed is permitted, and make what is missing: tables, indexes.

        Raises `StoreRefused` when trying again is of no use (a wrong password, no rights, a layout of a later
        version), `StoreUnavailable` when it is; then it may be called again.
        """

    async def upsert(self, records: Sequence[Record]) -> list[Refused]:
        """Write the records durably; returns those that this database cannot hold, which stay out alone.

        Several records of one listing may be among them. Raises `StoreUnavailable` when it is not known
        whether they were written; the same call may be made again. Raises `StoreRefused`.
        """

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> int:
        """Set `removed_at` for the listings on the site that a complete crawl has not seen.

        `seen` are the ids that it has. Only those count that were last seen before `begun_at`, so that what
        another crawl found meanwhile stays. Times as in `Car.scraped_at`. Returns how many; errors as of `upsert`.

        Then deletes those that were removed `keep_removed` seconds before `removed_at`, or earlier, with their history.
        """

    async def erase(self, ids: Collection[str]) -> int:
        """Delete these listings with their history, as if they had never been read, whatever their state.

        A record that is delivered afterwards brings its listing back. Returns how many there were; errors as of
        `upsert`.
        """

    def trim(self) -> None:
        """Let go of what is only kept to be faster: nothing comes for now, and memory is needed."""

    def cars(self) -> AsyncIterator[StoredCar]:
        """All listings in the order of their ids, a few hundred in memory at a time; errors as of `upsert`."""

    async def close(self) -> None:
        """Let go of the connection; never raises."""


def unseen(listings: Iterable[str], seen: Collection[str]) -> list[str]:
    """Those of the listings, of a stretch of all, that are not among so many others, which are gone through once."""
    gone = set(listings)
    if gone:
        gone.difference_update(seen)
    return sorted(gone)


def removed_until(removed_at: str, keep: float) -> datetime | None:
    """The time before which listings were removed that are to be deleted at `removed_at`; None when none are."""
    now = datetime.fromisoformat(removed_at)
    try:
        return now - timedelta(seconds=keep)
    except OverflowError:  # longer than there is a calendar, or for ever
        return None
