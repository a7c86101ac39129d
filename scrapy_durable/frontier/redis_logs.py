"""The item logs of a crawl on a Redis server, and what is remembered for them.

Whose a log is, is fenced with the nonce that each process has: another worker of the same name does not have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from scrapy_durable.exceptions import FrontierError, LogAbandoned
from scrapy_durable.frontier.contract import LogStatus
from scrapy_durable.frontier.log_names import MOST_LOGS, checked_log_name, is_log_name, too_many_logs
from scrapy_durable.frontier.redis_crawl import RedisCrawl
from scrapy_durable.frontier.redis_messages import read_logs, reading
from scrapy_durable.frontier.redis_scripts import load_script

JOIN_LOG = load_script("join_log")
CLOSE_LOG = load_script("close_log")
LOGS = load_script("logs")
ABANDON_LOG = load_script("abandon_log")
CLAIM_ITEMS = load_script("claim_items")
FIRSTS_BUCKETS = 1 << 13
"""Hashes that claims are spread over: up to a million of them, none outgrows `hash-max-listpack-entries`."""
_CLAIM_BYTES = 12
_MOST_CLAIMS = 1000
"""In one call: a millisecond for the server."""


class RedisLogs(RedisCrawl):
    """What `RedisFrontier` does for item logs; see the contract."""

    async def join_log(self, log: str) -> list[int]:
        """Take the log over, and return what is remembered for it."""
        name = checked_log_name(log)
        arguments = (self._joined(), self._worker, self._nonce, name, MOST_LOGS, self._offset())
        reply = await self._keys.run(JOIN_LOG, self._keys.fixed, arguments)
        with reading("an item log"):
            state, *rest = reply
            if state == b"joined":
                tokens = [int(token) for token in rest[0]]
                self._log = name
                return tokens
        if state == b"abandoned":
            raise LogAbandoned(name)
        raise too_many_logs(name, self._keys.place)

    async def claim_items(self, keys: Sequence[str]) -> list[bool]:
        """Which of them are this worker's log's; a claim takes some twenty bytes of the server."""
        claimed = list[bool]()
        for first in range(0, len(keys), _MOST_CLAIMS):
            digests = [_digest(key) for key in keys[first : first + _MOST_CLAIMS]]
            buckets = [self._keys.firsts(int.from_bytes(digest[:2]) % FIRSTS_BUCKETS) for digest in digests]
            arguments: list[str | bytes] = [self._joined(), self._worker, self._nonce, self._log or ""]
            reply = await self._keys.run(CLAIM_ITEMS, [*self._keys.fixed, *buckets], [*arguments, *digests])
            with reading("the claims to items"):
                state, *rest = reply
                if state == b"claimed":
                    claimed += [bool(is_ours) for _, is_ours in zip(digests, rest, strict=True)]
                    continue
            if state == b"abandoned":
                raise LogAbandoned(self._log or "")
            raise FrontierError(f"worker {self._worker} has no item log")
        return claimed

    async def close_log(self) -> None:
        """Note that this worker's log is done with."""
        arguments = (self._joined(), self._worker, self._nonce, self._log or "", self._offset())
        reply = await self._keys.run(CLOSE_LOG, self._keys.fixed, arguments)
        with reading("an item log"):
            state, *rest = reply
        if state == b"abandoned":
            raise LogAbandoned(self._log or "")
        if state == b"unconfirmed":
            raise FrontierError(f"the item log {self._log} has {rest[0]} leases unconfirmed")
        if state != b"closed":
            raise FrontierError(f"worker {self._worker} has no item log")

    async def logs(self) -> list[LogStatus]:
        """Those that have joined the crawl, by name."""
        reply = await self._keys.run(LOGS, self._keys.fixed, [])
        with reading("an item log"):
            return read_logs(reply)

    async def abandon_log(self, name: str) -> int | None:
        """Give the log up; returns how many leases were unconfirmed."""
        if not is_log_name(name):
            return None
        dropped: int = await self._keys.run(ABANDON_LOG, self._keys.fixed, [name])
        return None if dropped < 0 else dropped


def _digest(key: str) -> bytes:
    return blake2b(key.encode(errors="surrogatepass"), digest_size=_CLAIM_BYTES).digest()
