"""A worker on a crawl on a Redis server: its name, its keys, and which crawl it has joined."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.frontier.contract import Outbox, SlotLimit
from scrapy_durable.frontier.redis_messages import microseconds
from scrapy_durable.frontier.redis_server import RedisKeys


class RedisCrawl:
    """What all methods of `RedisFrontier` stand on; its docstring tells the arguments."""

    def __init__(
        self,
        keys: RedisKeys,
        *,
        worker: str,
        lease_seconds: float = 60,
        max_attempts: int = 5,
        limits: Mapping[str, SlotLimit],
        default_limit: SlotLimit,
    ) -> None:
        self.clock_offset = 0.0
        self._keys = keys
        self._worker = worker
        self._lease = microseconds(lease_seconds)
        self._max_attempts = max_attempts
        self._limits = limits
        self._default_limit = default_limit
        self._nonce = secrets.token_hex(8)
        self._log: str | None = None
        self._number = 0
        self._unanswered: tuple[Outbox, int] | None = None
        self._crawl_id: str | None = None
        self._is_inspected = False
        """Whether the server was found fit just before the crawl is begun."""

    async def close(self) -> None:
        """Close the client's connections."""
        await self._keys.close()

    def _joined(self) -> str:
        if self._crawl_id is None:
            raise FrontierLost("no crawl has been joined")
        return self._crawl_id

    def _offset(self) -> int:
        return microseconds(self.clock_offset)
