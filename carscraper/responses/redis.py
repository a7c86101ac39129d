"""The response store in Redis, shared by the workers of many machines."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import redis.asyncio
from redis.exceptions import RedisError

from carscraper.responses.contract import StoredResponse
from carscraper.responses.packing import MAX_BODY, DamagedError, Packer
from carscraper.responses.rare_log import RareLog

_HEADER = struct.Struct(">BHdI")
_FORMAT = 1
_STRETCH = 200
"""Keys per round trip when many are read or removed."""
_FAILURES = (RedisError, OSError)


class RedisResponseStore:
    """A `ResponseStore` in Redis. Its keys, `prefix` being the hash tag of the project, as in `{cars}`:

    `<prefix>:response:<key>`
        string: format (1 byte), status (2), time fetched (8, a double), length of the URL (4), the URL in
        UTF-8, and the body as one Zstandard frame. Expires after `ttl`.
    `<prefix>:response-claim:<key>`
        string, empty: a worker is fetching that answer. Expires with its claim.
    `<prefix>:responses-of:<crawl id>`
        sorted set: keys put under that crawl, by the time fetched. Expires `ttl` after the last one.

    All keys share one hash tag, so that one MGET may ask for many of them on every server that speaks this
    protocol, and the tag is the frontier's, since a crawl needs both: a specification takes up about 1 KB,
    the whole catalogue 20 MB.

    A server that is down, slow, full or restarted makes misses and lost entries, never an error: every call
    gives up after `patience` seconds. The client belongs to the store, which closes it, and must not decode
    responses.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        prefix: str,
        *,
        ttl: float,
        patience: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`ttl` and `patience` are seconds."""
        self._client: Any = client  # its annotations mix the synchronous and the asynchronous answers
        self._prefix = f"{prefix}:response:"
        self._claim_prefix = f"{prefix}:response-claim:"
        self._crawl_prefix = f"{prefix}:responses-of:"
        self._ttl_ms = max(1, round(ttl * 1000))
        self._patience = patience
        self._clock = clock
        self._packer = Packer()
        self._log = RareLog(logging.getLogger(__name__))

    async def open(self) -> None:
        """Nothing to do: the client connects when it is used."""

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        """One MGET for all keys."""
        since = self._clock() - max_age
        return {stored.key: stored for stored in await self._read(keys) if stored.fetched_at > since}

    async def get(self, key: str, max_age: float) -> StoredResponse | None:
        """As `get_many` with one key."""
        return (await self.get_many((key,), max_age)).get(key)

    async def put(self, key: str, status: int, url: str, body: bytes, crawl_id: str | None = None) -> bool:
        """One round trip, which ends the claim too; twice, as after a lost reply, has the effect of once."""
        if len(body) > MAX_BODY:
            self._log.warning("An answer is too large for the response store", f"{len(body)} bytes")
            return False
        fetched_at = self._clock()
        address = url.encode()
        value = _HEADER.pack(_FORMAT, status, fetched_at, len(address)) + address + self._packer.pack(body)
        try:
            async with asyncio.timeout(self._patience):
                async with self._client.pipeline(transaction=True) as pipeline:
                    pipeline.set(self._prefix + key, value, px=self._ttl_ms)
                    pipeline.unlink(self._claim_prefix + key)
                    if crawl_id is not None:
                        pipeline.zadd(self._crawl_prefix + crawl_id, {key: fetched_at})
                        pipeline.pexpire(self._crawl_prefix + crawl_id, self._ttl_ms)
                    await pipeline.execute()
        except _FAILURES as error:
            self._log.warning("An answer could not be kept in the response store", repr(error))
            return False
        return True

    async def claim(self, key: str, seconds: float) -> bool:
        """One round trip. Also False when the answer has come since the caller looked for it."""
        claim = self._claim_prefix + key
        try:
            async with asyncio.timeout(self._patience), self._client.pipeline(transaction=False) as pipeline:
                # With NX and GET the answer is the claim that stands in the way.
                pipeline.set(claim, b"", nx=True, get=True, px=round(seconds * 1000))
                pipeline.exists(self._prefix + key)
                standing, has_come = await pipeline.execute()
        except _FAILURES as error:
            self._log.warning("The response store could not be read", repr(error))
            return True
        if has_come and standing is None:
            await self.disclaim(key)
        return standing is None and not has_come

    async def disclaim(self, key: str) -> None:
        """Remove the claim."""
        await self._call("unlink", self._claim_prefix + key)

    async def iterate(self, crawl_id: str) -> AsyncIterator[StoredResponse]:
        """Reads a stretch at a time. What another crawl put again since, or what has expired, is left out."""
        done = 0
        while True:
            stretch = await self._call("zrange", self._crawl_prefix + crawl_id, done, done + _STRETCH - 1)
            if not stretch:
                return
            done += len(stretch)
            for stored in await self._read([key.decode() for key in stretch]):
                yield stored

    async def size(self) -> int:
        """Bytes of all stored values, keys and overhead not counted. Walks through the server's keys."""
        return sum(length for _, length, _ in await self._survey())

    async def prune(self, max_bytes: int, max_age: float) -> int:
        """Goes by the time left to each answer, on the server's clock. Walks through the server's keys."""
        least_left = self._ttl_ms - max_age * 1000
        survey = sorted(await self._survey())
        kept = sum(length for _, length, _ in survey)
        doomed = []
        for left, length, key in survey:
            if left >= least_left and kept <= max_bytes:
                break
            doomed.append(key)
            kept -= length
        removed = 0
        for start in range(0, len(doomed), _STRETCH):
            removed += await self._call("unlink", *doomed[start : start + _STRETCH]) or 0
        return removed

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def _read(self, keys: Sequence[str]) -> list[StoredResponse]:
        values = await self._call("mget", [self._prefix + key for key in keys]) if keys else None
        found = (
            self._unpacked(key, value)
            for key, value in zip(keys, values or (), strict=False)
            if value is not None
        )
        return [stored for stored in found if stored is not None]

    async def _call(self, command: str, *arguments: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self._patience):
                return await getattr(self._client, command)(*arguments, **options)
        except _FAILURES as error:
            self._log.warning("The response store could not be read", repr(error))
            return None

    async def _survey(self) -> list[tuple[int, int, bytes]]:
        """Milliseconds left, length of the value, and key of each stored answer."""
        pattern = "".join(f"[{char}]" if char in "*?[" else char for char in self._prefix) + "*"
        found: dict[bytes, tuple[int, int, bytes]] = {}
        cursor = 0
        while True:
            answer = await self._call("scan", cursor, match=pattern, count=1000)
            if answer is None:
                return list(found.values())
            cursor, keys = answer
            found.update((key, (left, length, key)) for left, length, key in await self._measured(keys))
            if cursor == 0:
                return list(found.values())

    async def _measured(self, keys: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
        try:
            async with asyncio.timeout(self._patience), self._client.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.pttl(key)
                    pipeline.strlen(key)
                answers = await pipeline.execute()
        except _FAILURES as error:
            self._log.warning("The response store could not be read", repr(error))
            return iter(())
        return zip(answers[::2], answers[1::2], keys, strict=True)

    def _unpacked(self, key: str, value: bytes) -> StoredResponse | None:
        try:
            return _read_value(key, value, self._packer)
        except (DamagedError, struct.error, UnicodeDecodeError) as error:
            self._log.warning("A stored answer is damaged and will be fetched again", f"{key!r}: {error}")
            return None


def _read_value(key: str, value: bytes, packer: Packer) -> StoredResponse:
    form, status, fetched_at, length = _HEADER.unpack_from(value)
    start = _HEADER.size + length
    if form != _FORMAT or len(value) < start:
        raise DamagedError("an unknown format, or cut")
    return StoredResponse(
        key, status, value[_HEADER.size : start].decode(), fetched_at, packer.unpack(value[start:])
    )
