"""An add-on that logs what a crawl and the frontier say to each other, and what it sends and when it is answered."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from scrapy import Request
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings

from scrapy_durable.frontier.contract import Inbox, Outbox
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.scheduler import frontier_scheduler
from tests.own_clock import OwnClock

LOGGED = {"ADDONS": '{"tests.exchanges.ExchangesAddon": 0}'}
"""What a crawl is told to have its exchanges logged."""

logger = logging.getLogger(__name__)


@dataclass
class Exchange:
    """One exchange; times are seconds of the machine's monotonic clock, `own_…` of the worker's own."""

    since: float
    """When it was begun for the first time: one that was not answered is said again."""
    began: float
    own_began: float
    pauses: list[float]
    changes: list[tuple[int, float]]
    """The paces that were asked for: the version that each was to follow, and the interval."""
    ended: float = 0.0
    own_ended: float = 0.0
    answered: bool = False
    leases: list[str] = field(default_factory=list)
    """The names of those that it brought."""
    paces: list[tuple[int, float]] = field(default_factory=list)
    """For each change, the version and interval that hold now."""


@dataclass
class Sent:
    """One request at the moment when it goes to the site; times as above."""

    url: str
    at: float
    own_at: float
    lease: str | None
    """The name of its lease; None: it has none, as that for robots.txt."""


class ExchangesAddon:
    """Puts `Exchanges` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][Exchanges] = 0


class Exchanges:
    """Logs each exchange, and each request that is sent."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = OwnClock()
        self._since: float | None = None
        for kind in (RedisFrontier, SqliteFrontier):
            kind.exchange = self._logged(kind.exchange)  # type: ignore[method-assign]
        self._send = AiohttpDownloadHandler.download_request
        AiohttpDownloadHandler.download_request = self._logged_send()  # type: ignore[method-assign]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Exchanges:
        return cls(crawler)

    def _logged(self, exchange: Callable[[Any, Outbox, int], Awaitable[Inbox]]) -> Any:
        async def logged(frontier: Any, outbox: Outbox, want: int) -> Inbox:
            began = time.monotonic()
            self._since = began if self._since is None else self._since
            changes = [(change.version, change.interval) for change in outbox.paces.values()]
            made = Exchange(
                self._since,
                began,
                self._clock(),
                [pause.seconds for pause in outbox.pauses.values()],
                changes,
            )
            try:
                inbox = await exchange(frontier, outbox, want)
                made.answered, self._since = True, None
                made.leases = [f"{lease.key} {lease.token}" for lease in inbox.leases]
                made.paces = [(pace.version, pace.interval) for pace in inbox.paces.values()]
            finally:
                made.ended, made.own_ended = time.monotonic(), self._clock()
                logger.info("exchange %s", json.dumps(asdict(made)))
            return inbox

        return logged

    def _logged_send(self) -> Any:
        async def logged(handler: AiohttpDownloadHandler, request: Request) -> Response:
            scheduler = frontier_scheduler(self._crawler)
            assert scheduler is not None
            task = scheduler._leases.get(request)
            lease = f"{task.lease.key} {task.lease.token}" if task else None
            sent = Sent(request.url, time.monotonic(), self._clock(), lease)
            logger.info("sent %s", json.dumps(asdict(sent)))
            response = await self._send(handler, request)
            logger.info("answered in %.3f s", time.monotonic() - sent.at)
            return response

        return logged


def exchanges(log: str) -> list[Exchange]:
    """Those of a crawl in their order, by its log."""
    return [Exchange(**json.loads(found)) for found in re.findall(r"exchange (\{.*\})$", log, re.MULTILINE)]


def sends(log: str) -> list[Sent]:
    """The requests that a crawl has sent, in their order, by its log."""
    return [Sent(**json.loads(found)) for found in re.findall(r"sent (\{.*\})$", log, re.MULTILINE)]


def latencies(log: str) -> list[float]:
    """Seconds that each answer has taken that a crawl has had, by its log."""
    return [float(found) for found in re.findall(r"answered in ([\d.]+) s$", log, re.MULTILINE)]
