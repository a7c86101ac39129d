"""A response store as the crawls of one namespace see it: another's shared answers are not theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from scrapy_durable.responses.contract import Pruned, ResponseStore, StoredCrawl, StoredResponse

_BEHIND = "#"
"""Between the namespace and the key: an address without a fragment has none."""


class NamespaceStore:
    """A `ResponseStore` whose shared answers, and the claims to them, are kept under their namespace and their key.

    `namespace` may be the address of an API, `https://api.example.com/v1`; an empty one puts nothing in front of keys.
    What belongs to a crawl needs none: its key holds the crawl's id.
    """

    def __init__(self, store: ResponseStore, namespace: str) -> None:
        self._store = store
        self._prefix = f"{namespace}{_BEHIND}" if namespace else ""

    async def open(self) -> None:
        """Make ready; see the contract."""
        await self._store.open()

    async def unreadable(self) -> str:
        """Why nothing can be read just now; see the contract."""
        return await self._store.unreadable()

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        """The namespace's shared answers under these keys; see the contract."""
        found = await self._store.get_many([self._prefix + key for key in keys], max_age)
        start = len(self._prefix)
        return {key[start:]: _under(key[start:], stored) for key, stored in found.items()}

    async def get(self, key: str, max_age: float) -> StoredResponse | None:
        """The namespace's shared answer under this key; see the contract."""
        stored = await self._store.get(self._prefix + key, max_age)
        return stored and _under(key, stored)

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
        """Keep an answer of this namespace; see the contract."""
        full = key if crawl_id else self._prefix + key
        return await self._store.put(
            full, status, url, body, fetched_at=fetched_at, crawl_id=crawl_id, derived=derived
        )

    async def derive(self, made: Mapping[str, tuple[float, bytes]]) -> None:
        """Keep what is derived from answers of this namespace; see the contract."""
        await self._store.derive({self._prefix + key: value for key, value in made.items()})

    async def claim(self, key: str, seconds: float, max_age: float) -> bool:
        """True when no other worker is fetching this namespace's answer under this key; see the contract."""
        return await self._store.claim(self._prefix + key, seconds, max_age)

    async def disclaim(self, key: str) -> None:
        """The answer could not be fetched: others may try."""
        await self._store.disclaim(self._prefix + key)

    async def crawls(self) -> list[StoredCrawl]:
        """The crawls of which anything is stored, of any namespace."""
        return await self._store.crawls()

    def iterate(self, crawl_id: str) -> AsyncIterator[StoredResponse]:
        """What was put under this crawl; see the contract."""
        return self._store.iterate(crawl_id)

    async def rewrite(self, crawl_id: str, key: str, body: bytes) -> bool:
        """Have an answer of a crawl, of any namespace, hold this body; see the contract."""
        return await self._store.rewrite(crawl_id, key, body)

    async def size(self) -> int:
        """Bytes that the store takes up, with what other namespaces have in it."""
        return await self._store.size()

    async def prune(self, max_bytes: int, max_age: float, max_crawl_age: float) -> Pruned:
        """Remove what is too old or too much, of any namespace; see the contract."""
        return await self._store.prune(max_bytes, max_age, max_crawl_age)

    async def close(self) -> None:
        """Let go of what `open` took."""
        await self._store.close()


def _under(key: str, stored: StoredResponse) -> StoredResponse:
    """The same answer under another key; `dataclasses.replace` takes five times as long."""
    return StoredResponse(key, stored.status, stored.url, stored.fetched_at, stored.body, stored.derived)
