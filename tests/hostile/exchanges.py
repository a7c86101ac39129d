"""An add-on that logs what a crawl says to the frontier of pauses, and when it is given leases."""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import asdict, dataclass

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from carscraper.frontier.contract import Inbox, Outbox
from carscraper.scheduler import frontier_scheduler
from tests.own_clock import OwnClock

LOGGED = {"ADDONS": '{"tests.hostile.exchanges.ExchangesAddon": 0}'}
"""What a crawl is told to have its exchanges logged."""

logger = logging.getLogger(__name__)


@dataclass
class Exchange:
    """One exchange; times are seconds of the machine's monotonic clock, `own_…` of the worker's own."""

    began: float
    own_began: float
    pauses: list[float]
    ended: float = 0.0
    own_ended: float = 0.0
    answered: bool = False
    leases: int = 0


class ExchangesAddon:
    """Puts `Exchanges` among the extensions; named in the setting `ADDONS`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings["EXTENSIONS"][Exchanges] = 0


class Exchanges:
    """Logs each exchange, from when the crawl has begun."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = OwnClock()
        crawler.signals.connect(self._begin, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Exchanges:
        return cls(crawler)

    def _begin(self) -> None:
        scheduler = frontier_scheduler(self._crawler)
        assert scheduler is not None
        exchange = scheduler.frontier.exchange

        async def logged(outbox: Outbox, want: int) -> Inbox:
            made = Exchange(time.monotonic(), self._clock(), list(outbox.pauses.values()))
            try:
                inbox = await exchange(outbox, want)
                made.answered, made.leases = True, len(inbox.leases)
            finally:
                made.ended, made.own_ended = time.monotonic(), self._clock()
                logger.info("exchange %s", json.dumps(asdict(made)))
            return inbox

        scheduler.frontier.exchange = logged  # type: ignore[method-assign]


def exchanges(log: str) -> list[Exchange]:
    """Those of a crawl in their order, by its log."""
    return [Exchange(**json.loads(found)) for found in re.findall(r"exchange (\{.*\})$", log, re.MULTILINE)]
