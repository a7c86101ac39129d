"""The vocabulary of the response store: what was fetched, by key, for as long as it is good.

It is a cache that many processes may share, and what items are parsed from again without asking the site.
So it holds two kinds of answers: *shared* ones, which any crawl may use while they are young enough, and those
*of a crawl*, which are read back for that crawl only, and removed with it.

Losing an entry costs a download, or a reparse, never an item. So after `open` no method raises because the
storage is down, full or damaged: what cannot be read is a miss, what cannot be written is lost, and a warning
says so, at most once a minute of each kind.

A store belongs to one event loop and is not shared between threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

MOST_DERIVED = 256 * 1024
"""Bytes that are kept beside an answer at most."""


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
    derived: bytes = b""
    """What the spider has made of it, in a form of its own; empty where nothing is known, or others may have put it."""


@dataclass(frozen=True, slots=True)
class StoredCrawl:
    """What is stored of one crawl."""

    crawl_id: str
    keys: list[str]
    """Keys of its answers, sorted."""
    bytes: int
    """What they take up."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning has done."""

    removed: int
    """Answers that are gone."""
    bytes: int
    """What the others take up."""


class ResponseStore(Protocol):
    """What a backend has to do. One test suite holds every backend to it."""

    async def open(self) -> None:
        """Make ready. Raises `ConfigurationError` or, for a file not ours, `ForeignFile`."""

    async def unreadable(self) -> str:
        """Why nothing can be read just now, so that a miss says nothing, as in "does not answer"; "" when it can be."""

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        """The shared answers under these keys that are younger than `max_age` seconds, in one look-up."""

    async def get(self, key: str, max_age: float) -> StoredResponse | None:
        """The shared answer under this key if it is younger than `max_age` seconds."""

    async def put(
        self,
        key: str,
        status: int,
        url: str,
        body: bytes,
        *,
        fetched_at: float | None = None,
        crawl_id: str | None = None,
        derived: bytes = b"",
    ) -> bool:
        """Keep an answer in place of an earlier one under this key; `get` finds it at once.

        `fetched_at` is now when it is not given. With a `crawl_id` it belongs to that crawl: `iterate` finds it
        and `get` does not; its key holds the crawl's id, so that it is nobody else's. False: it could not be kept.

        What is `derived` from it stays with it, and goes with it; more than `MOST_DERIVED` bytes are left out.
        """

    async def derive(self, made: Mapping[str, tuple[float, bytes]]) -> None:
        """Keep what is derived from shared answers that were put without it: by key, `fetched_at` of the answer and
        what was made of it. Where another answer has come meanwhile, or the store cannot, nothing changes.
        """

    async def claim(self, key: str, seconds: float, max_age: float) -> bool:
        """True when no other worker is fetching the answer under this key, or has just put it.

        Then the others are told False for `seconds`, or until `put` or `disclaim`. An answer that is `max_age`
        seconds old counts for none. A store that is used by one worker, or cannot be reached, says True.
        """

    async def disclaim(self, key: str) -> None:
        """The answer could not be fetched: others may try."""

    async def crawls(self) -> list[StoredCrawl]:
        """The crawls of which anything is stored, in the order of their ids."""

    def iterate(self, crawl_id: str) -> AsyncIterator[StoredResponse]:
        """What was put under this crawl, in the order of the keys; what comes meanwhile may be among it or not."""

    async def rewrite(self, crawl_id: str, key: str, body: bytes) -> bool:
        """Have an answer of a crawl hold this body, and be as old, and stay as long, as it was.

        True when that is so, or there is no such answer any more; what it held is in no free page of a file either.
        False: it is not known.
        """

    async def size(self) -> int:
        """Bytes that the store takes up."""

    async def prune(self, max_bytes: int, max_age: float, max_crawl_age: float) -> Pruned:
        """Remove what is too old, then what is oldest until `max_bytes` are enough.

        Shared answers are too old after `max_age` seconds; a crawl as a whole, `max_crawl_age` seconds after
        its last answer was put. When bytes are short, crawls go first, each as a whole, the oldest first: a shared
        answer that is gone costs a download, and every crawl that needs it its reparse.

        Gives way to other work every few hundred answers.
        """

    async def close(self) -> None:
        """Let go of what `open` took. Everything put is kept."""
