"""Requests that others push to a Redis key, as scrapy-redis has it; all of it becomes a request or a refusal.

Whoever may write to Redis may push, so a value is read like any input: it makes one `GET`, or several, and nothing
else. What it cannot be made into is refused by name, and taken off the key.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Awaitable, Iterator, Sequence
from importlib.resources import files
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_durable.connection import redis_client
from scrapy_durable.exceptions import FrontierUnavailable, StartUrlRefused
from scrapy_durable.frontier.build import prefix_of
from scrapy_durable.participants import Participant

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy import Spider
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from scrapy_durable.frontier.contract import Inbox, Outbox

logger = logging.getLogger(__name__)

LONGEST = 8192
"""Bytes of a value: servers take no longer addresses."""
MOST_REQUESTS = 100
"""Requests that one value may be made into."""
_LOOK_INTERVAL = 1.0
"""Seconds between two looks at a key that was empty: each is one more round trip before an exchange."""
_LOOKS_APART = 20
"""The same in the time that a look takes, so that those at a server far away take no more than this part of a crawl."""
_LOOK_INTERVAL_BUSY = 10.0
"""The most that it comes to. Also for a worker that has more in hand than it may send now: what is pushed is for a site
that is free, if any.
"""
_NAMED = 100
"""Refusals that are logged one by one; more are only counted."""
_SHOWN = 100
"""Bytes of a refused value that its log line holds."""
_DEFAULT_KEY = "%(name)s:start_urls"
_STEERING = (
    "proxy",
    "bindaddress",
    "cookiejar",
    "dont_obey_robotstxt",
    "dont_retry",
    "download_slot",
    "http_auth_domain",
    "http_pass",
    "http_user",
)
"""`meta` that says by which way a request goes, and which rules hold for it: not for others to say."""
_TAKE = files("scrapy_durable.frontier").joinpath("lua", "start_urls.lua").read_text("utf-8")


class StartUrls(Participant):
    """The start key of one spider: a list, a set (`REDIS_START_URLS_AS_SET`) or a sorted set (`…_AS_ZSET`).

    Taking a value and having it queued are two steps, with the frontier between. Meanwhile it is kept under
    `{<prefix>}:taken`, with an id that its requests' keys derive from: one that a killed worker has taken is taken
    again, and what is queued of it already is refused as a duplicate. So each push is crawled once.

    Stats: `start_urls/taken`, `start_urls/refused`.
    """

    def __init__(
        self,
        client: Redis,
        key: str,
        kind: str,
        *,
        prefix: str,
        batch: int,
        lease_seconds: float,
        stats: StatsCollector,
    ) -> None:
        """`batch`: most values at once; `lease_seconds`: seconds until another worker's are taken again."""
        self.others_have = 0
        """How many values other workers have taken that are not in the frontier yet, at the last look."""
        self._empty_at = -math.inf
        """The monotonic time of the last look at a key that was empty."""
        self._took = 0.0
        """Seconds that it took."""
        self._client: Any = client
        self._key = key
        self._being_queued = f"{{{prefix}}}:taken"
        self._kind = kind
        self._batch = batch
        self._lease_seconds = lease_seconds
        self._stats = stats
        self._taken: list[bytes] = []
        self._sent = False
        """What was taken is in an outbox that is on its way, or was answered."""
        self._is_queued = False
        """That was answered."""
        self._said = ""

    def serve(self, spider: Spider) -> None:
        """Take what is pushed for this spider, where it names a key of its own, and keep a `RedisSpider` from taking it
        too: it would hold in memory what is nowhere else.
        """
        self._key = getattr(spider, "redis_key", None) or self._key
        if callable(getattr(spider, "next_requests", None)):
            spider.next_requests = lambda: iter(())  # type: ignore[attr-defined]

    def is_due(self, *, may_end: bool, is_busy: bool) -> bool:
        """Whether to look again: not while the last ones have not been dropped, nor, unless the crawl `may_end`, for a
        while after the key was found empty, which is longer for a worker that `is_busy`.
        """
        return not self._taken and (may_end or time.monotonic() >= self._empty_at + self._interval(is_busy))

    async def take(self, spider: Spider) -> list[tuple[bytes, list[Request]]]:
        """The requests of up to a batch of values, those of each with the id of the push, which have to be in the next
        outbox. Raises `FrontierUnavailable`.
        """
        began = time.monotonic()
        self._taken = await self._take()
        if not self._taken and not self.others_have:
            self._empty_at = time.monotonic()
            self._took = self._empty_at - began
        made = []
        for member in self._taken:
            batch, number, data = member.split(b":", 2)
            try:
                made.append((b"%b:%b" % (batch, number), requests_from(spider, data)))
            except StartUrlRefused as error:
                self._refuse(f"{data[:_SHOWN]!r}{' …' if len(data) > _SHOWN else ''}", str(error))
            else:
                self._stats.inc_value("start_urls/taken")
        return made

    def _interval(self, is_busy: bool) -> float:
        """Seconds between two looks at a key that was empty."""
        far = max(_LOOK_INTERVAL, _LOOKS_APART * self._took)
        return _LOOK_INTERVAL_BUSY if is_busy else min(far, _LOOK_INTERVAL_BUSY)

    def say(self, outbox: Outbox) -> None:
        """The requests of what was taken are in it."""
        self._sent = bool(self._taken)

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """They are in the frontier, or refused."""
        self._is_queued = self._sent

    async def drop(self) -> None:
        """Drop what was taken, once it is in the frontier. Raises `FrontierUnavailable`."""
        if self._is_queued:
            await self._call(self._client.zrem(self._being_queued, *self._taken))
            self._taken, self._sent, self._is_queued = [], False, False

    async def leave(self) -> None:
        """Close the connection; what was taken is dropped if it is queued, and else taken by the next crawl."""
        await self.drop()
        await self._client.aclose()

    async def _take(self) -> list[bytes]:
        keys = self._key, self._being_queued
        found = await self._call(
            self._client.eval(
                _TAKE, 2, *keys, self._kind, self._batch, LONGEST, token_hex(8), self._lease_seconds
            )
        )
        if found is None:
            return []
        kind, taken, cut, self.others_have = found
        if kind not in (self._kind.encode(), b"none"):
            self._say_once(f"it is a {kind.decode()}, not a {self._kind}")
        for length, beginning in zip(cut[::2], cut[1::2], strict=True):
            self._refuse(f"{beginning!r} …", f"{length} bytes, more than {LONGEST}")
        return list(taken)

    def _refuse(self, shown: str, why: str) -> None:
        """Say it of the first ones; whoever can push can push a million."""
        refused = self._stats.get_value("start_urls/refused", 0) + 1
        self._stats.set_value("start_urls/refused", refused)
        if refused <= _NAMED:
            logger.error("Refused what was pushed to %s: %s: %s", self._key, shown, why)
        if refused == _NAMED:
            logger.error("More that is refused from %s is counted, and not named any more", self._key)

    async def _call(self, answer: Awaitable[Any]) -> Any:
        """The answer; None when the server refuses, which is said and holds nothing up."""
        from redis.exceptions import ReadOnlyError, RedisError, ResponseError  # here: see `redis_client`

        try:
            return await answer
        except ReadOnlyError as error:
            raise FrontierUnavailable("start URLs: the server is a read-only replica") from error
        except ResponseError as error:
            self._say_once(str(error)[:200])
            return None
        except (RedisError, OSError, TimeoutError) as error:
            raise FrontierUnavailable(f"start URLs: {type(error).__name__}") from error

    def _say_once(self, why: str) -> None:
        if self._said != why:
            self._said = why
            logger.error("Nothing can be taken from %s: %s", self._key, why)


def build_start_urls(
    settings: BaseSettings, spider: str, stats: StatsCollector, *, lease_seconds: float
) -> StartUrls | None:
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
    batch = settings.getint("CONCURRENT_REQUESTS") or 16
    prefix = prefix_of(settings, spider)
    return StartUrls(client, key, kind, prefix=prefix, batch=batch, lease_seconds=lease_seconds, stats=stats)


def requests_from(spider: Spider, data: bytes) -> list[Request]:
    """The requests for one pushed value: by the spider's `make_request_from_data` when it has one, else the
    URL itself.

    Raises `StartUrlRefused` when there are none, or they are more than a `GET` of an address.
    """
    try:
        requests = list(_made(spider, data))
    except StartUrlRefused:
        raise
    except UnicodeDecodeError as error:
        raise StartUrlRefused("not UTF-8") from error
    except Exception as error:  # a spider's own code, given whatever somebody has pushed
        raise StartUrlRefused(f"{type(error).__name__}: {str(error)[:200]!r}") from error
    if not requests:
        raise StartUrlRefused("no request comes of it")
    for request in requests:
        _check(request)
    return requests


def _made(spider: Spider, data: bytes) -> Iterator[Request]:
    make = getattr(spider, "make_request_from_data", None)
    made = make(data) if make else Request(data.decode().strip(), dont_filter=True)
    several = made if inspect.isgenerator(made) or isinstance(made, Sequence) else (made,)
    for number, request in enumerate(several):
        if not isinstance(request, Request):
            raise StartUrlRefused("no request comes of it")
        if number == MOST_REQUESTS:
            raise StartUrlRefused(f"more than {MOST_REQUESTS} requests come of it")
        yield request


def _check(request: Request) -> None:
    """Raise `StartUrlRefused` for more than a `GET` of an address."""
    if request.method != "GET" or request.body:
        raise StartUrlRefused(f"a {request.method!r}, or with a body; others may only have addresses read")
    if request.headers or request.cookies:
        raise StartUrlRefused("with headers or cookies; others may only have addresses read")
    for name in _STEERING:
        if name in request.meta:
            raise StartUrlRefused(f"with meta {name!r}; others may only have addresses read")
