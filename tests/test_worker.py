"""Whether another worker may still be running is judged by what was read since, and not by what is being read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_durable.exceptions import FrontierUnavailable
from scrapy_durable.frontier.contract import Frontier, Outbox, WorkerStatus
from scrapy_durable.identity import crawl_clock
from scrapy_durable.worker import Worker

LEASE_SECONDS = 60.0


class Peers:
    """A frontier that tells of other workers when it is let."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[list[WorkerStatus] | FrontierUnavailable] = asyncio.Queue()

    async def workers(self) -> list[WorkerStatus]:
        answer = await self.answers.get()
        if isinstance(answer, FrontierUnavailable):
            raise answer
        return answer


def with_worker(use: Callable[[Worker, Peers, Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
    """Call it with a worker, its frontier, and what lets a read go on to its end."""

    async def run() -> None:
        crawler = get_crawler()
        crawler.spider = Spider(name="any")
        nothing: dict[str, int] = {}
        worker = Worker(
            crawler,
            "this",
            Outbox(),
            {},
            crawl_clock(crawler),
            lease_seconds=LEASE_SECONDS,
            shared=True,
            kept=lambda: 0,
            more=lambda: nothing,
        )
        peers = Peers()

        async def read() -> None:
            await cast("Any", worker)._reading

        try:
            await use(worker, peers, read)
        finally:
            worker.close()

    asyncio.run(run())


def test_one_may_live_until_those_there_are_have_been_read_since_it_was_met() -> None:
    async def use(worker: Worker, peers: Peers, read: Callable[[], Awaitable[None]]) -> None:
        assert worker.may_live("other")
        worker.read_peers(cast("Frontier", peers))
        assert worker.may_live("other"), "the answer is on its way"
        peers.answers.put_nowait([])
        await read()
        assert not worker.may_live("other")

    with_worker(use)


def test_one_may_live_when_the_read_has_failed() -> None:
    async def use(worker: Worker, peers: Peers, read: Callable[[], Awaitable[None]]) -> None:
        assert worker.may_live("other")
        worker.read_peers(cast("Frontier", peers))
        peers.answers.put_nowait(FrontierUnavailable("away"))
        await read()
        assert worker.may_live("other")

    with_worker(use)


def test_one_that_was_heard_of_when_it_was_read_may_live_however_old_the_read_is() -> None:
    """As after a time without the frontier, when leases come with its first answer, and who is there comes later."""

    async def use(worker: Worker, peers: Peers, read: Callable[[], Awaitable[None]]) -> None:
        now = time.time()
        worker._clock.begin(now)
        worker.read_peers(cast("Frontier", peers))
        peers.answers.put_nowait([WorkerStatus("other", 0, now - 1)])
        await read()
        worker._clock.hear(now + 2 * LEASE_SECONDS)
        assert worker.may_live("other")
        worker._next_read = 0.0
        worker.read_peers(cast("Frontier", peers))
        peers.answers.put_nowait([WorkerStatus("other", 0, now - 1)])
        await read()
        assert not worker.may_live("other")

    with_worker(use)
