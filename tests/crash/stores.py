"""Where a crawl's state outlives its process: a `JOBDIR` or a Redis, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from redis.asyncio import Redis

from scrapy_durable.frontier.contract import Frontier, Pause, SlotLimit, Status
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_server import RedisKeys
from scrapy_durable.frontier.sqlite import SqliteFrontier
from tests.crawling import HANGS
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
        self._paused = list[str]()
        with server.client() as client:
            client.flushall()

    def status(self) -> Status:
        return asyncio.run(_status(self._frontier()))

    def pause(self) -> None:
        """Have nothing of any slot leased until `resume`."""
        self._paused = asyncio.run(_pause(self._frontier()))

    def resume(self) -> None:
        """End that."""
        asyncio.run(_resume(self._frontier(), self._paused))

    def _frontier(self) -> RedisFrontier:
        keys = RedisKeys(Redis(port=self.server.port), prefix="cars")
        return RedisFrontier(keys, worker="seen from outside", **_LIMITS)


_LIMITS: dict[str, Any] = {"limits": {}, "default_limit": SlotLimit(0)}
_BY_HAND = "by hand"


async def _status(frontier: Frontier) -> Status:
    try:
        return await frontier.status()
    finally:
        await frontier.close()


async def _pause(frontier: RedisFrontier) -> list[str]:
    slots = list((await frontier.status()).slots)
    for slot in slots:
        await frontier.pause(slot, Pause(HANGS, _BY_HAND))
    await frontier.close()
    return slots


async def _resume(frontier: RedisFrontier, slots: Iterable[str]) -> None:
    for slot in slots:
        assert await frontier.resume(slot, _BY_HAND)
    await frontier.close()
