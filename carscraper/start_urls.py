"""Start URLs that others push to a Redis key, as scrapy-redis has it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from redis.exceptions import RedisError
from scrapy import Request

from carscraper.connection import redis_client
from carscraper.exceptions import FrontierUnavailable

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy import Spider
    from scrapy.settings import BaseSettings

_DEFAULT_KEY = "%(name)s:start_urls"


class StartUrls:
    """The start key of one spider: a list, a set (`REDIS_START_URLS_AS_SET`) or a sorted set (`…_AS_ZSET`).

    Looking and removing are two steps, with the frontier between: a worker that dies after the first leaves
    the URL where it was, so it may be crawled twice but is never lost.
    """

    def __init__(self, client: Redis, key: str, kind: str, batch: int) -> None:
        self._client: Any = client
        self._key = key
        self._kind = kind
        self._batch = batch

    async def peek(self) -> list[bytes]:
        """Up to a batch of what is waiting, first come first. Raises `FrontierUnavailable`."""
        if self._kind == "set":
            asked = self._client.srandmember(self._key, self._batch)
        elif self._kind == "zset":
            asked = self._client.zrevrange(self._key, 0, self._batch - 1)
        else:
            asked = self._client.lrange(self._key, 0, self._batch - 1)
        waiting: list[bytes] = await self._call(asked)
        return waiting

    async def remove(self, values: Sequence[bytes]) -> None:
        """Take off what is in the frontier by now; what is gone already is no error. Raises
        `FrontierUnavailable`.
        """
        if self._kind == "set":
            await self._call(self._client.srem(self._key, *values))
        elif self._kind == "zset":
            await self._call(self._client.zrem(self._key, *values))
        else:
            for value in values:
                await self._call(self._client.lrem(self._key, 1, value))

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _call(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except (RedisError, OSError, TimeoutError) as error:
            raise FrontierUnavailable(f"start URLs: {type(error).__name__}") from error


def build_start_urls(settings: BaseSettings, spider: str) -> StartUrls | None:
    """The start key that the settings of scrapy-redis name for the spider; None without Redis."""
    client = redis_client(settings)
    if client is None:
        return None
    kind = "list"
    if settings.getbool("REDIS_START_URLS_AS_SET"):
        kind = "set"
    elif settings.getbool("REDIS_START_URLS_AS_ZSET"):
        kind = "zset"
    key = (settings.get("REDIS_START_URLS_KEY") or _DEFAULT_KEY) % {"name": spider}
    return StartUrls(client, key, kind, settings.getint("CONCURRENT_REQUESTS") or 16)


def requests_from(spider: Spider, data: bytes) -> Iterator[Request]:
    """The requests for one pushed value: by the spider's `make_request_from_data` when it has one, else the
    URL itself.
    """
    make = getattr(spider, "make_request_from_data", None)
    made = make(data) if make else Request(data.decode(), dont_filter=True)
    if isinstance(made, Request):
        yield made
    elif inspect.isgenerator(made) or isinstance(made, Sequence):
        yield from cast("Iterator[Request]", made)
