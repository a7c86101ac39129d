"""A request that waits for another's download lets others go first, and then waits for its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import TextResponse
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_durable.responses.middleware import STORE_KEY, ResponseStoreMiddleware, SharedDownloadFailed
from scrapy_durable.signals import request_shares_download, shared_download_failed
from tests.responses.test_middleware import CrawlerOfParts

URL = "http://site/specs/a/2017"
Scenario = Callable[[ResponseStoreMiddleware], Awaitable[None]]


class Spider:
    """Takes every body for an answer."""

    name = "cars"

    def is_answer(self, response: TextResponse) -> bool:
        return True


class Listener:
    """What the scheduler hears."""

    def __init__(self, signals: SignalManager) -> None:
        self.heard: list[tuple[str, Request]] = []
        signals.connect(self.on_waits, request_shares_download)
        signals.connect(self.on_failed, shared_download_failed)

    def on_waits(self, request: Request) -> bool:
        self.heard.append(("shares", request))
        return True

    def on_failed(self, request: Request) -> None:
        self.heard.append(("failed", request))


@pytest.fixture
def crawler(tmp_path: Path) -> Any:
    settings = Settings({"DURABLE_RESPONSES_DIR": str(tmp_path), "STATS_DUMP": False})
    crawler: Any = CrawlerOfParts(settings=settings, spider=Spider(), spidercls=Spider)
    crawler.signals = SignalManager(crawler)
    crawler.stats = MemoryStatsCollector(crawler)
    return crawler


def play(crawler: Any, scenario: Scenario) -> None:
    """Run the scenario on a middleware whose store is open."""

    async def whole() -> None:
        middleware = ResponseStoreMiddleware.from_crawler(crawler)
        await middleware.store.open()
        try:
            await scenario(middleware)
        finally:
            await middleware.store.close()

    asyncio.run(asyncio.wait_for(whole(), 20))


def asked() -> Request:
    return Request(URL, meta={STORE_KEY: "a/2017"}, dont_filter=True)


def answer() -> TextResponse:
    return TextResponse(URL, status=200, body=b"{}")


def test_it_is_said_once_and_at_once_that_a_request_waits(crawler: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        first, second = asked(), asked()
        assert await middleware.process_request(first) is None
        assert listener.heard == []
        waiting = asyncio.create_task(middleware.process_request(second))
        await asyncio.sleep(0.05)
        assert listener.heard == [("shares", second)]
        await middleware.process_response(first, answer())
        shared = await waiting
        assert shared is not None
        assert shared.flags == ["stored"]
        assert listener.heard == [("shares", second)]

    listener = Listener(crawler.signals)
    play(crawler, scenario)


def test_what_comes_from_the_store_at_once_never_waited(crawler: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        first = asked()
        assert await middleware.process_request(first) is None
        await middleware.process_response(first, answer())
        assert await middleware.process_request(asked()) is not None
        assert listener.heard == []

    listener = Listener(crawler.signals)
    play(crawler, scenario)


def test_when_the_download_fails_those_that_waited_are_leased_again(crawler: Any) -> None:
    """None of them holds up the one that comes in its turn."""

    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        first, others = asked(), [asked() for _ in range(3)]
        assert await middleware.process_request(first) is None
        waiting = [asyncio.create_task(middleware.process_request(other)) for other in others]
        await asyncio.sleep(0.05)
        await middleware.process_exception(first, OSError("reset"))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, SharedDownloadFailed) for outcome in outcomes)
        assert [kind for kind, _ in listener.heard] == ["shares"] * 3 + ["failed"] * 3
        assert await middleware.process_request(asked()) is None

    listener = Listener(crawler.signals)
    play(crawler, scenario)


def test_another_workers_download_is_waited_for_in_the_same_way(crawler: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        claims = [False, False, True, True]

        async def claim(key: str, seconds: float, max_age: float) -> bool:
            return claims.pop(0)

        middleware.store.claim = claim  # type: ignore[method-assign]
        waits = asked()
        with pytest.raises(SharedDownloadFailed):
            await middleware.process_request(waits)
        assert listener.heard == [("shares", waits), ("failed", waits)]
        assert await middleware.process_request(asked()) is None

    listener = Listener(crawler.signals)
    play(crawler, scenario)
