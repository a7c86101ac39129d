"""The vocabulary of the response store: what was fetched, by key, for as long as it is good.

It is a cache that many processes may share, and what records are built from again without asking the site.
Losing an entry costs a download, never a record. So after `open` no method raises because the storage is
down, full or damaged: what cannot be read is a miss, what cannot be written is lost, and a warning says so,
at most once a minute of each kind.

A store belongs to one event loop and is not shared between threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer as it was fetched."""

    key: str
    status: int
    """HTTP status; only the caller knows which ones are worth keeping."""
    url: str
    fetched_at: float
    """Seconds since the epoch, by the clock of the process that fetched it."""
    body: bytes
    """Without transfer and content encodings."""


class ResponseStore(Protocol):
    """What a backend has to do. One test suite holds every backend to it."""

    async def open(self) -> None:
        """Make ready. Raises `ConfigurationError` or, for a file not ours, `ForeignFile`."""

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        """Those of the keys that are stored and younger than `max_age` seconds, in one look-up."""

    async def get(self, key: str, max_age: float) -> StoredResponse | None:
        """The answer under this key if it is younger than `max_age` seconds."""

    async def put(self, key: str, status: int, url: str, body: bytes, crawl_id: str | None = None) -> bool:
        """Keep an answer fetched now, in place of an earlier one under this key; `get` finds it at once.

        With a `crawl_id`, `iterate` finds it too; an answer belongs to the crawl that put it last, so keys of
        answers that each crawl fetches anew hold the crawl's id. False: it could not be kept.
        """

    async def claim(self, key: str, seconds: float) -> bool:
        """True when no other worker is fetching the answer under this key, or has just put it.

        Then the others are told False for `seconds`, or until `put` or `disclaim`. A store that is used by one worker,
        or cannot be reached, says True.
        """

    async def disclaim(self, key: str) -> None:
        """The answer could not be fetched: others may try."""

    def iterate(self, crawl_id: str) -> AsyncIterator[StoredResponse]:
        """What was put under this crawl, in that order. The crawl may still be going on."""

    async def size(self) -> int:
        """Bytes that the store takes up."""

    async def prune(self, max_bytes: int, max_age: float) -> int:
        """Remove what is older than `max_age` seconds, then the oldest until `max_bytes` are enough.

        Returns how many are gone.

        Gives way to other work every few hundred answers.
        """

    async def close(self) -> None:
        """Let go of what `open` took. Everything put is kept."""
