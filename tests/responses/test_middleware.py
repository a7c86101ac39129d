"""What is stored is not asked for again, and what is under way is not asked for twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_durable.identity import CrawlIdentity
from scrapy_durable.responses.contract import StoredResponse
from scrapy_durable.responses.keeping import AT_ONCE
from scrapy_durable.responses.middleware import FETCHED_AT, KEPT, STORE_KEY, ResponseStoreMiddleware
from scrapy_durable.stores import DurableStore, FlushedStore, durable_stores

URL = "http://site/specs/a/2017"
CRAWL = "20261120T101500Z-abcdef"


class CrawlerOfParts(SimpleNamespace):
    """What the middleware needs of a crawler; the crawl's clock is kept by it."""

    __hash__ = object.__hash__


class Spider:
    """Takes every body for an answer but `b"broken"`."""

    name = "cars"

    def is_answer(self, response: Response) -> bool:
        return response.body != b"broken"

    def name_kept(self, request: Request, response: Response, crawl_id: str, fetched_at: float) -> str | None:
        return f"page/{crawl_id}/{fetched_at}" if self.is_answer(response) else None


class AnySpider:
    """Says nothing of answers."""

    name = "any"


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Any]:
    """Runs a scenario on a middleware whose store is open; returns what the scenario returns."""

    def run(
        scenario: Callable[[ResponseStoreMiddleware], Awaitable[Any]], spider: type = Spider, **changed: Any
    ) -> Any:
        async def whole() -> Any:
            settings = Settings({"DURABLE_RESPONSES_DIR": str(tmp_path), "STATS_DUMP": False, **changed})
            crawler: Any = CrawlerOfParts(settings=settings, spider=spider(), spidercls=spider)
            crawler.signals = SignalManager(crawler)
            identity = CrawlIdentity(CRAWL, "worker", resumable=False)
            crawler.engine = SimpleNamespace(scheduler=SimpleNamespace(identity=identity))
            crawler.stats = MemoryStatsCollector(crawler)
            middleware = ResponseStoreMiddleware.from_crawler(crawler)
            await middleware.store.open()
            try:
                return await scenario(middleware)
            finally:
                await middleware.store.close()

        return asyncio.run(asyncio.wait_for(whole(), 20))

    return run


def asked(key: str | None = "a/2017") -> Request:
    return Request(URL, meta={STORE_KEY: key} if key else {}, dont_filter=True)


def answer(body: bytes = b"{}", status: int = 200, flags: list[str] | None = None) -> Response:
    return TextResponse(URL, status=status, body=body, flags=flags)


def test_a_request_without_a_key_passes_by(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        for _ in range(2):
            assert await middleware.process_request(asked(None)) is None
            await middleware.process_response(asked(None), answer())

    play(scenario)


def test_what_was_answered_once_is_served_from_the_store(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        first = asked()
        assert await middleware.process_request(first) is None
        await middleware.process_response(first, answer(b'{"data": []}', 404))
        stored = await middleware.process_request(asked())
        assert stored is not None
        assert (stored.status, stored.body, stored.flags) == (404, b'{"data": []}', ["stored"])
        # Coming back out of the store, it is not kept a second time.
        assert await middleware.process_response(asked(), stored) is stored

    play(scenario)


def test_requests_for_one_key_share_one_download(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        first = asked()
        assert await middleware.process_request(first) is None
        waiting = [asyncio.create_task(middleware.process_request(asked())) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        await middleware.process_response(first, answer(b"{1}"))
        answers = await asyncio.gather(*waiting)
        assert [shared.body for shared in answers if shared] == [b"{1}"] * 5

    play(scenario)


def test_an_answer_goes_on_while_it_is_put_and_is_durable_then(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        answers, put = asyncio.Event(), middleware.store.put

        async def put_late(*arguments: Any, **options: Any) -> bool:
            await answers.wait()
            return await put(*arguments, **options)

        middleware.store.put = put_late  # type: ignore[method-assign]
        assert isinstance(middleware, FlushedStore)
        assert isinstance(middleware, DurableStore)
        request = asked()
        assert await middleware.process_request(request) is None
        waiting = asyncio.create_task(middleware.process_request(asked()))
        for one in (page(), request):
            response = answer(b"{1}")
            assert await middleware.process_response(one, response) is response
        shared, later = await waiting, await middleware.process_request(asked())
        assert shared is not None
        assert later is not None
        assert (shared.body, later.body) == (b"{1}", b"{1}"), "what is not stored yet is known here"
        assert (middleware.received, middleware.durable) == (2, 0)
        answers.set()
        await middleware.flush()
        assert (middleware.received, middleware.durable) == (2, 2)
        assert len(await pages(middleware)) == 1
        assert await middleware.store.get("a/2017", 1000.0)

    play(scenario)


def test_a_request_waits_for_the_answers_that_are_put(play: Any) -> None:
    """As `scheduler.py` asks it of all stores, before it acknowledges."""

    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        nobody = SimpleNamespace(middlewares=())
        engine = SimpleNamespace(
            scraper=SimpleNamespace(itemproc=nobody),
            downloader=SimpleNamespace(middleware=SimpleNamespace(middlewares=(middleware,))),
        )
        crawler: Any = SimpleNamespace(engine=engine, extensions=nobody)
        assert durable_stores(crawler) == [middleware]

    play(scenario)


def test_no_more_answers_are_on_their_way_to_a_store_than_it_takes_at_once(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        answers = asyncio.Event()

        async def put_late(*arguments: Any, **options: Any) -> bool:
            await answers.wait()
            return True

        middleware.store.put = put_late  # type: ignore[method-assign]
        for _ in range(AT_ONCE):
            await middleware.process_response(page(), answer())
        one_more = asyncio.create_task(middleware.process_response(page(), answer()))
        assert not (await asyncio.wait([one_more], timeout=0.05))[0]
        answers.set()
        await one_more

    play(scenario)


def test_another_key_does_not_wait(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        assert await middleware.process_request(asked("a/2017")) is None
        assert await middleware.process_request(asked("a/2018")) is None

    play(scenario)


@pytest.mark.parametrize("way", ["exception", "status 500", "broken", "partial"])
def test_when_the_download_fails_exactly_one_of_those_that_wait_tries(play: Any, way: str) -> None:
    async def fail(middleware: ResponseStoreMiddleware, request: Request) -> None:
        if way == "exception":
            await middleware.process_exception(request, OSError("reset"))
        else:
            responses = {
                "status 500": answer(status=500),
                "broken": answer(b"broken"),
                "partial": answer(flags=["partial"]),
            }
            await middleware.process_response(request, responses[way])

    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        first = asked()
        assert await middleware.process_request(first) is None
        others = [asked() for _ in range(3)]
        waiting = {asyncio.create_task(middleware.process_request(other)): other for other in others}
        await asyncio.sleep(0.05)
        await fail(middleware, first)
        done, _ = await asyncio.wait(waiting, timeout=0.5)
        [tries] = done
        assert tries.result() is None
        await middleware.process_response(waiting[tries], answer(b"{2}"))
        rest = await asyncio.gather(*(task for task in waiting if task is not tries))
        assert [shared.body for shared in rest if shared] == [b"{2}"] * 2

    play(scenario)


def test_failures_are_not_kept(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        for failed in (answer(status=500), answer(b"broken"), answer(flags=["partial"])):
            request = asked()
            assert await middleware.process_request(request) is None
            await middleware.process_response(request, failed)

    play(scenario)


async def pages(middleware: ResponseStoreMiddleware) -> list[StoredResponse]:
    await middleware.flush()
    return [stored async for stored in middleware.store.iterate(CRAWL)]


def page() -> Request:
    return Request(URL, meta={KEPT: True}, dont_filter=True)


def test_a_listing_page_is_kept_with_the_time_that_its_records_have_and_never_served(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        request = page()
        assert await middleware.process_request(request) is None
        response = answer(b"{1}")
        assert await middleware.process_response(request, response) is response
        [kept] = await pages(middleware)
        assert (kept.status, kept.url, kept.body) == (200, URL, b"{1}")
        assert kept.fetched_at == request.meta[FETCHED_AT]
        assert kept.key == f"page/{CRAWL}/{kept.fetched_at}"
        assert await middleware.process_request(page()) is None

    play(scenario)


def test_a_listing_page_that_is_no_answer_is_not_kept(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        for failed in (answer(status=404), answer(b"broken"), answer(flags=["partial"])):
            await middleware.process_response(page(), failed)
        assert await pages(middleware) == []

    play(scenario)


def test_no_page_is_kept_when_none_shall_be_but_its_time_is_noted(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        request = page()
        await middleware.process_response(request, answer())
        assert await pages(middleware) == []
        assert isinstance(request.meta[FETCHED_AT], float)

    play(scenario, DURABLE_RESPONSES_KEEP=0)


def test_of_a_spider_that_says_nothing_of_answers_each_with_a_good_status_is_kept(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        for key, status in (("a", 200), ("b", 404), ("c", 500)):
            await middleware.process_request(asked(key))
            await middleware.process_response(asked(key), answer(b"broken", status))
        await middleware.flush()
        assert set(await middleware.store.get_many(["a", "b", "c"], 1000.0)) == {"a", "b"}
        await middleware.process_response(page(), answer(b"one"))
        await middleware.process_response(page(), answer(b"two"))
        assert {kept.body for kept in await pages(middleware)} == {b"one", b"two"}

    play(scenario, AnySpider)


def test_without_a_directory_nothing_is_stored(play: Any) -> None:
    async def scenario(middleware: ResponseStoreMiddleware) -> None:
        raise AssertionError("there is a middleware")

    with pytest.raises(NotConfigured):
        play(scenario, DURABLE_RESPONSES_DIR="")
