"""Where a crawl's state outlives its process: a `JOBDIR` or a Redis, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol

from redis.asyncio import Redis

from scrapy_durable.frontier.contract import Frontier, SlotLimit, Status
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_server import RedisKeys
from scrapy_durable.frontier.sqlite import SqliteFrontier
from tests.redis_server import RedisServer


class Store(Protocol):
    """One of the two, empty at first."""

    options: dict[str, Any]
    """What `tests.crawling.crawl` is told to use it."""

    def status(self) -> Status:
        """What the frontier counts now."""
        ...


class JobDir:
    """A frontier in a file."""

    def __init__(self, path: Path) -> None:
        self.options: dict[str, Any] = {"jobdir": path}
        self._path = path / "frontier.sqlite"

    def status(self) -> Status:
        return asyncio.run(_status(SqliteFrontier(self._path, worker="seen from outside", **_LIMITS)))


class SharedRedis:
    """A frontier on a Redis that is emptied first."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.options: dict[str, Any] = {"redis_url": server.url}
        with server.client() as client:
            client.flushall()

    def status(self) -> Status:
        client = Redis(port=self.server.port)
        return asyncio.run(
            _status(RedisFrontier(RedisKeys(client, prefix="cars"), worker="seen from outside", **_LIMITS))
        )


_LIMITS: dict[str, Any] = {"limits": {}, "default_limit": SlotLimit(0)}


async def _status(frontier: Frontier) -> Status:
    try:
        return await frontier.status()
    finally:
        await frontier.close()
