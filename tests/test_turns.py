"""Requests that are started together do not go in step."""

from __future__ import annotations

import asyncio

from scrapy import Request

from scrapy_durable.turns import TurnsMiddleware

PARTS = 6
"""Of the way behind the middleware, each in a turn of the event loop of its own."""


async def go(middleware: TurnsMiddleware | None, number: int, sent: list[int], steps: list[int]) -> None:
    """One request on its way; `steps` are the requests that have gone a part of it, one after the other."""
    if middleware is not None:
        await middleware.process_request(Request(f"https://example.com/{number}"))
    for _ in range(PARTS):
        steps.append(number)
        await asyncio.sleep(0)
    sent.append(number)


def parts_before_the_first(middleware: TurnsMiddleware | None, requests: int) -> int:
    """How many parts of the way all of them have gone by the time that the first is sent."""

    async def together() -> int:
        sent: list[int] = []
        steps: list[int] = []
        before = 0
        tasks = [asyncio.create_task(go(middleware, number, sent, steps)) for number in range(requests)]
        while not sent:
            await asyncio.sleep(0)
            before = len(steps)
        await asyncio.gather(*tasks)
        assert sent == sorted(sent)
        return before

    return asyncio.run(together())


def test_the_first_is_sent_before_the_last_is_on_its_way() -> None:
    assert parts_before_the_first(TurnsMiddleware(), 100) < 300
    assert parts_before_the_first(None, 100) == 100 * PARTS, "in step, without it"


def test_whoever_comes_alone_does_not_wait() -> None:
    async def alone() -> None:
        middleware = TurnsMiddleware()
        for number in range(3):
            passing = middleware.process_request(Request(f"https://example.com/{number}"))
            try:
                passing.send(None)
            except StopIteration:
                pass
            else:
                raise AssertionError("it waits")
            await asyncio.sleep(0)

    asyncio.run(alone())


def test_one_that_is_cancelled_holds_up_nobody() -> None:
    async def cancelled() -> list[int]:
        middleware = TurnsMiddleware()
        sent: list[int] = []
        tasks = [asyncio.create_task(go(middleware, number, sent, [])) for number in range(20)]
        await asyncio.sleep(0)
        tasks[10].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await go(middleware, 20, sent, [])
        return sent

    assert asyncio.run(cancelled()) == [*range(10), *range(11, 21)]
