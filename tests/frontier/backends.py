"""The backends of the frontier, each on the real thing, behind one handle with a clock that tests move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scrapy_durable.frontier.contract import Frontier, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_scripts import Script
from scrapy_durable.frontier.redis_server import RedisKeys
from scrapy_durable.frontier.sqlite import SqliteFrontier
from tests.redis_server import RedisServer

LEASE = 60.0
MAX_ATTEMPTS = 3
BEGIN = 1_800_000_000
"""The time at first, in seconds."""


class Backend(Protocol):
    """Makes frontiers on one and the same store, and moves the time that they see."""

    has_workers: bool
    """Whether several workers can be on it at once."""

    def open(
        self,
        worker: str = "w1",
        *,
        cap: int = 0,
        limits: Mapping[str, SlotLimit] | None = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> Frontier:
        """A frontier of that worker, on the store that is there."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass, for all frontiers of this backend."""
        ...

    async def clean(self) -> None:
        """Close everything, and leave an empty store."""
        ...


class SqliteBackend:
    """In the file `path`, or in memory."""

    has_workers = False

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.now = float(BEGIN)
        self._opened: list[SqliteFrontier] = []

    def open(
        self,
        worker: str = "w1",
        *,
        cap: int = 0,
        limits: Mapping[str, SlotLimit] | None = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> SqliteFrontier:
        frontier = SqliteFrontier(
            self.path,
            worker=worker,
            lease_seconds=LEASE,
            max_attempts=max_attempts,
            limits=limits or {},
            default_limit=SlotLimit(cap),
            clock=lambda: self.now,
        )
        self._opened.append(frontier)
        return frontier

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def clean(self) -> None:
        for frontier in self._opened:
            await frontier.close()
        self._opened.clear()
        if self.path is not None:
            for file in self.path.parent.glob(f"{self.path.name}*"):
                file.unlink()


def plain_client(port: int, **options: object) -> Redis:
    """A client that does not try again by itself, so that every fault reaches the frontier."""
    settings = {"socket_timeout": 20, "socket_connect_timeout": 20, "retry": Retry(NoBackoff(), 0), **options}
    return Redis(port=port, **settings)  # type: ignore[arg-type]


@cache
def at_handed_time(script: Script) -> Script:
    """The script with a clock that stands still at `BEGIN`, and is moved by its offset alone; itself, if it is that."""
    handed = f"{{'{BEGIN}', '0'}}"
    if handed in script.text:
        return script
    before, clock, after = script.text.partition("redis.call('TIME')")
    assert clock
    text = f"{before}{handed}{after}"
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


class KeysAtHandedTime(RedisKeys):
    """At the time that a test hands in, however long the server and the test take."""

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[str | int | bytes]) -> Any:
        return await super().run(at_handed_time(script), keys, arguments)

    async def run_in_turn(
        self, calls: Sequence[tuple[Script, Sequence[bytes], Sequence[str | int | bytes]]]
    ) -> list[Any]:
        return await super().run_in_turn([(at_handed_time(script), *rest) for script, *rest in calls])


class RedisBackend:
    """On a server that other tests use too, one after the other."""

    has_workers = True

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.offset = 0.0
        self._opened: list[RedisFrontier] = []

    def open(
        self,
        worker: str = "w1",
        *,
        cap: int = 0,
        limits: Mapping[str, SlotLimit] | None = None,
        port: int | None = None,
        prefix: str = "test",
        max_attempts: int = MAX_ATTEMPTS,
    ) -> RedisFrontier:
        frontier = RedisFrontier(
            KeysAtHandedTime(plain_client(port or self.server.port), prefix=prefix),
            worker=worker,
            lease_seconds=LEASE,
            max_attempts=max_attempts,
            limits=limits or {},
            default_limit=SlotLimit(cap),
        )
        frontier.clock_offset = self.offset
        self._opened.append(frontier)
        return frontier

    def advance(self, seconds: float) -> None:
        self.offset += seconds
        for frontier in self._opened:
            frontier.clock_offset = self.offset

    async def clean(self) -> None:
        for frontier in self._opened:
            await frontier.close()
        self._opened.clear()
        self.offset = 0.0
        with self.server.client() as client:
            client.flushall()
