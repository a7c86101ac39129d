"""The response store is pruned beside the beginning and the end of a crawl, and once more only when more has come."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import signals
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_durable.responses.contract import Pruned
from scrapy_durable.responses.retention import Retention
from tests.responses.test_middleware import AnySpider, CrawlerOfParts


class Store:
    """Notes how often it is pruned."""

    def __init__(self) -> None:
        self.pruned = 0
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def prune(self, *limits: float) -> Pruned:
        await asyncio.sleep(0)
        assert self.is_open
        self.pruned += 1
        return Pruned(removed=1, bytes=100 - self.pruned)

    async def close(self) -> None:
        self.is_open = False


async def ended(tmp_path: Path, *more: str, reason: str = "finished") -> tuple[Store, dict[str, Any]]:
    """A crawl that is idle twice, with more of these answers in between and after that."""
    store = Store()
    settings = Settings({"DURABLE_RESPONSES_DIR": str(tmp_path), "STATS_DUMP": False})
    crawler: Any = CrawlerOfParts(settings=settings, spider=AnySpider(), spidercls=AnySpider)
    crawler.signals = SignalManager(crawler)
    crawler.stats = MemoryStatsCollector(crawler)
    crawler.engine = SimpleNamespace()
    _ = Retention(crawler, store)  # type: ignore[arg-type]
    await crawler.signals.send_catch_log_async(signals.spider_opened)
    for when in ("between", "after"):
        crawler.signals.send_catch_log(signals.spider_idle)
        if when in more:
            crawler.stats.inc_value("responses/stored")
    await crawler.signals.send_catch_log_async(signals.spider_closed, reason=reason)
    return store, crawler.stats.get_stats()


@pytest.mark.parametrize(
    ("more", "number"), [((), 2), (("between",), 3), (("after",), 3), (("between", "after"), 4)]
)
def test_it_is_pruned_at_its_ends_and_again_when_more_has_come(
    tmp_path: Path, more: tuple[str, ...], number: int
) -> None:
    store, stats = asyncio.run(ended(tmp_path, *more))
    assert store.pruned == number
    assert not store.is_open
    assert (stats["responses/removed"], stats["responses/bytes"]) == (number, 100 - number)


def test_a_crawl_that_is_stopped_waits_for_none_of_it(tmp_path: Path) -> None:
    store, stats = asyncio.run(ended(tmp_path, reason="shutdown"))
    assert not store.is_open
    assert "responses/bytes" not in stats
