"""The response store in Redis, shared by the workers of many machines."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, NamedTuple

import redis.asyncio
from redis.exceptions import AuthenticationError, AuthorizationError, RedisError

from scrapy_durable.responses.contract import Pruned, StoredCrawl, StoredResponse
from scrapy_durable.responses.packing import MAX_BODY, DamagedError
from scrapy_durable.responses.rare_log import RareLog
from scrapy_durable.responses.values import NotSignedError, Values, largest_value
from scrapy_durable.signatures import Signer

_STRETCH = 200
"""Shared answers per round trip when many are read or removed."""
_CRAWL_STRETCH = 8
"""Answers of a crawl per round trip: each may be large."""
_CENTURY = 100 * 365 * 86_400.0
_FAILURES = (RedisError, OSError)


class _Measured(NamedTuple):
    """A key of the store, as a survey finds it; sorts by age, the oldest first."""

    ends_ms: int
    """When it expires, in milliseconds since the epoch. What is left until then would depend on when it was asked."""
    size: int
    """Bytes that the server needs for it."""
    name: bytes


class RedisResponseStore:
    """A `ResponseStore` in Redis. Its keys, `prefix` being the hash tag of the spider, as in `{quotes}`:

    `<prefix>:response:<key>`
        string: an answer, in the form that `values.py` describes. Expires after `ttl`.
    `<prefix>:response-claim:<key>`
        string, empty: a worker is fetching that answer. Expires with its claim.
    `<prefix>:responses-of:<crawl id>`
        hash: key to answer, in the form above, of what belongs to that crawl. Expires as a whole, `crawl_ttl`
        after the last one was put.

    All keys share one hash tag, so that one script may read many of them on every server that speaks this
    protocol, and the tag is the frontier's, since a crawl needs both.

    A server that is down, slow, full or restarted makes misses and lost entries, never an error: every call
    gives up after `timeout` seconds. What others have put there is read only as far as it can be an answer: a
    value that is too large, or says to be, counts as damaged; with a `signer`, so does one that it has not signed.
    The client belongs to the store, which closes it, and must not decode responses.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        prefix: str,
        *,
        ttl: float,
        crawl_ttl: float,
        max_shared: int = MAX_BODY,
        max_of_crawl: int = MAX_BODY,
        timeout: float = 2.0,
        clock: Callable[[], float] = time.time,
        signer: Signer | None = None,
        on_not_signed: Callable[[], object] = lambda: None,
    ) -> None:
        """`ttl`, `crawl_ttl` and `timeout` are seconds; `max_shared` and `max_of_crawl` bytes of a body.
        `on_not_signed` is called for each value that the `signer` has not signed for its place.
        """
        self._client: Any = client  # its annotations mix the synchronous and the asynchronous answers
        self._prefix = f"{prefix}:response:"
        self._claim_prefix = f"{prefix}:response-claim:"
        self._crawl_prefix = f"{prefix}:responses-of:"
        self._ttl_ms = _milliseconds(ttl)
        self._crawl_ttl_ms = _milliseconds(crawl_ttl)
        self._max_shared = max_shared
        self._max_of_crawl = max_of_crawl
        self._claim = _script(client, "claim")
        self._read_shared = _script(client, "read_shared")
        self._read_of_crawl = _script(client, "read_of_crawl")
        self._replace_of_crawl = _script(client, "replace_of_crawl")
        self._timeout = timeout
        self._clock = clock
        self._values = Values(signer)
        self._on_not_signed = on_not_signed
        self._log = RareLog(logging.getLogger(__name__))

    async def open(self) -> None:
        """Nothing to do: the client connects when it is used."""

    async def unreadable(self) -> str:
        """Asks the server for a sign of life."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._client.ping()
        except (AuthenticationError, AuthorizationError):
            return "refuses the user or password"
        except _FAILURES:
            return "does not answer"
        return ""

    async def get_many(self, keys: Sequence[str], max_age: float) -> dict[str, StoredResponse]:
        """One round trip for all keys; another one removes what is damaged, which would stand in a claim's way."""
        since, damaged = self._clock() - max_age, list[str]()
        most, names = largest_value(self._max_shared), [self._prefix + key for key in keys]
        values = await self._in_time(self._read_shared(names, [most])) if keys else None
        found = {
            stored.key: stored
            for stored in self._unpacked(keys, None, values, self._max_shared, damaged)
            if stored.fetched_at > since
        }
        if damaged:
            await self._call("unlink", *(self._prefix + key for key in damaged))
        return found

    async def get(self, key: str, max_age: float) -> StoredResponse | None:
        """As `get_many` with one key."""
        return (await self.get_many((key,), max_age)).get(key)

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
        """One round trip, which ends the claim too; twice, as after a lost reply, has the effect of once."""
        if len(body) > (self._max_shared if crawl_id is None else self._max_of_crawl):
            self._log.warning("An answer is too large for the response store", f"{len(body)} bytes")
            return False
        at = self._clock() if fetched_at is None else fetched_at
        value = self._values.pack(StoredResponse(key, status, url, at, body, derived), crawl_id)
        try:
            async with asyncio.timeout(self._timeout), self._client.pipeline(transaction=True) as pipeline:
                if crawl_id is None:
                    pipeline.set(self._prefix + key, value, px=self._ttl_ms)
                    pipeline.unlink(self._claim_prefix + key)
                else:
                    pipeline.hset(self._crawl_prefix + crawl_id, key, value)
                    pipeline.pexpire(self._crawl_prefix + crawl_id, self._crawl_ttl_ms)
                await pipeline.execute()
        except _FAILURES as error:
            self._log.warning("An answer could not be kept in the response store", repr(error))
            return False
        return True

    async def derive(self, made: Mapping[str, tuple[float, bytes]]) -> None:
        """Nothing: an answer gets it when it is fetched again, so that none takes the place of a newer one."""

    async def claim(self, key: str, seconds: float, max_age: float) -> bool:
        """One round trip. Also False when the answer has come since the caller looked for it."""
        since = struct.pack(">d", self._clock() - max_age)
        names = [self._claim_prefix + key, self._prefix + key]
        claimed = await self._in_time(self._claim(names, [since, round(seconds * 1000)]))
        return bool(claimed != 0)  # one that cannot be asked stops nobody

    async def disclaim(self, key: str) -> None:
        """Remove the claim."""
        await self._call("unlink", self._claim_prefix + key)

    async def crawls(self) -> list[StoredCrawl]:
        """Walks through the server's keys."""
        found = []
        for _, size, name in await self._survey(self._crawl_prefix):
            crawl_id = name.decode(errors="replace").removeprefix(self._crawl_prefix)
            found.append(StoredCrawl(crawl_id, await self._keys_of(crawl_id), size))
        return sorted(found, key=lambda crawl: crawl.crawl_id)

    async def iterate(self, crawl_id: str) -> AsyncIterator[StoredResponse]:
        """Reads a stretch at a time."""
        keys = await self._keys_of(crawl_id)
        for start in range(0, len(keys), _CRAWL_STRETCH):
            stretch = keys[start : start + _CRAWL_STRETCH]
            most = largest_value(self._max_of_crawl)
            values = await self._in_time(
                self._read_of_crawl([self._crawl_prefix + crawl_id], [most, *stretch])
            )
            for stored in self._unpacked(stretch, crawl_id, values, self._max_of_crawl, []):
                yield stored

    async def rewrite(self, crawl_id: str, key: str, body: bytes) -> bool:
        """Two round trips; what has expired meanwhile does not come back, and what cannot be read is removed."""
        name, most = self._crawl_prefix + crawl_id, largest_value(self._max_of_crawl)
        values = await self._in_time(self._read_of_crawl([name], [most, key]))
        if values is None:
            return False
        stored = next(self._unpacked([key], crawl_id, values, self._max_of_crawl, []), None)
        if stored is None:
            return await self._call("hdel", name, key) is not None
        value = self._values.pack(replace(stored, body=body, derived=b""), crawl_id)
        there = hashlib.sha1(values[0], usedforsecurity=False).hexdigest()
        written = await self._in_time(self._replace_of_crawl([name], [key, there, value]))
        return written is not None and written >= 0

    async def size(self) -> int:
        """Bytes that the server needs for all answers. Walks through the server's keys."""
        surveys = [await self._survey(prefix) for prefix in (self._prefix, self._crawl_prefix)]
        return sum(found.size for survey in surveys for found in survey)

    async def prune(self, max_bytes: int, max_age: float, max_crawl_age: float) -> Pruned:
        """Goes by when each key expires, on the server's clock; nothing is removed when it does not tell its time.

        Walks through the server's keys.
        """
        of_crawls, found_shared, now = await asyncio.gather(
            self._survey(self._crawl_prefix), self._survey(self._prefix), self._call("time")
        )
        crawls, shared = sorted(of_crawls), sorted(found_shared)
        size = sum(found.size for found in (*crawls, *shared))
        if now is None:
            return Pruned(0, size)
        now_ms = now[0] * 1000 + now[1] // 1000
        removed = 0
        for crawl in crawls:
            left_ms = crawl.ends_ms - now_ms
            too_old = not max_crawl_age or left_ms <= self._crawl_ttl_ms - max_crawl_age * 1000
            if too_old or size > max_bytes:
                removed += await self._call("hlen", crawl.name) or 0
                await self._call("unlink", crawl.name)
                size -= crawl.size
            elif left_ms > self._crawl_ttl_ms:  # put when crawls were kept for longer
                await self._call("pexpire", crawl.name, self._crawl_ttl_ms)
        doomed = []
        for answer in shared:
            if answer.ends_ms - now_ms >= self._ttl_ms - max_age * 1000 and size <= max_bytes:
                break
            doomed.append(answer.name)
            size -= answer.size
        for start in range(0, len(doomed), _STRETCH):
            removed += await self._call("unlink", *doomed[start : start + _STRETCH]) or 0
        return Pruned(removed, size)

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def _keys_of(self, crawl_id: str) -> list[str]:
        """Keys of what the crawl has put, sorted."""
        names = await self._call("hkeys", self._crawl_prefix + crawl_id)
        return sorted(name.decode(errors="replace") for name in names or ())

    async def _call(self, command: str, *arguments: Any, **options: Any) -> Any:
        return await self._in_time(getattr(self._client, command)(*arguments, **options))

    async def _in_time(self, call: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout):
                return await call
        except _FAILURES as error:
            self._log.warning("The response store could not be read", repr(error))
            return None

    async def _survey(self, prefix: str) -> list[_Measured]:
        """The keys with that prefix, as far as the server answers."""
        pattern = "".join(f"[{char}]" if char in "*?[" else char for char in prefix) + "*"
        found: dict[bytes, _Measured] = {}
        cursor = 0
        while True:
            answer = await self._call("scan", cursor, match=pattern, count=1000)
            if answer is None:
                return list(found.values())
            cursor, names = answer
            measured = await self._in_time(_measured(self._client, names)) or ()
            found.update((one.name, one) for one in measured)
            if cursor == 0:
                return list(found.values())

    def _unpacked(
        self,
        keys: Sequence[str],
        crawl_id: str | None,
        values: Sequence[bytes | int | None] | None,
        most: int,
        damaged: list[str],
    ) -> Iterator[StoredResponse]:
        """What is stored under the keys, one after the other, `values` being what the scripts have returned; keys of
        what cannot be read go to `damaged`.
        """
        for key, value in zip(keys, values or (), strict=False):
            if value is None:
                continue
            try:
                yield self._values.unpack(key, crawl_id, value, most, self._clock())
            except NotSignedError as error:
                damaged.append(key)
                self._on_not_signed()
                self._log.warning(
                    "A stored answer is not signed with DURABLE_QUEUE_KEY and is not used",
                    f"{key!r}: {error}",
                )
            except DamagedError as error:
                damaged.append(key)
                self._log.warning("A stored answer is damaged and will be fetched again", f"{key!r}: {error}")


async def _measured(client: Any, names: list[bytes]) -> list[_Measured]:
    """Those of the keys that have not expired meanwhile."""
    async with client.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.pexpiretime(name)
            pipeline.memory_usage(name, samples=0)
        answers = await pipeline.execute()
    measured = zip(answers[::2], answers[1::2], names, strict=True)
    return [_Measured(ends, size, name) for ends, size, name in measured if size is not None]


def _script(client: Any, name: str) -> Callable[[Sequence[str], Sequence[Any]], Awaitable[Any]]:
    """Calls a script by its text: it is short, and a server that does not have it yet is asked once too."""
    text = (files(__package__) / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return lambda keys, arguments: client.eval(text, len(keys), *keys, *arguments)


def _milliseconds(seconds: float) -> int:
    """As Redis takes them: at least one, and not beyond what it can add to its clock."""
    return max(1, round(min(seconds, _CENTURY) * 1000))
