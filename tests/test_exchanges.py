"""How long the frontier has been empty is known only as long as it answers."""

from __future__ import annotations

import asyncio
from typing import cast

from scrapy.utils.test import get_crawler

from scrapy_durable.exceptions import FrontierUnavailable
from scrapy_durable.exchanges import Exchanges
from scrapy_durable.frontier.contract import Frontier, Inbox, Lease, Outbox
from scrapy_durable.leases import Leases
from scrapy_durable.timing import Timing

EMPTY = Inbox([], [], [], [], 0, None, 0.0)


class Away:
    """A frontier that is empty, and away at every exchange but the first until it is back."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_back = asyncio.Event()

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        self.asked += 1
        if self.asked > 1 and not self.is_back.is_set():
            raise FrontierUnavailable("away")
        return EMPTY


async def see_idle() -> None:
    outbox, frontier = Outbox(), Away()
    timing = Timing(outbox, Leases(outbox, 1, 60.0), shared=True)

    async def take_in(leases: list[Lease]) -> None: ...

    async def prepare() -> None: ...

    crawler = get_crawler(settings_dict={"SCHEDULER_IDLE_BEFORE_CLOSE": 0})
    exchanges = Exchanges(
        crawler, cast("Frontier", frontier), outbox, timing, [timing], want=lambda: 1, take_in=take_in
    )

    async def until(asked: int) -> None:
        async with asyncio.timeout(60):
            while frontier.asked < asked:
                await asyncio.sleep(0.01)
                timing.wake_now()

    exchanges.start(prepare, lambda: None)
    try:
        await until(2)
        assert not exchanges.is_idle, "it has not answered since"
        frontier.is_back.set()
        await until(frontier.asked + 1)
        assert exchanges.is_idle
    finally:
        exchanges.cancel()


def test_a_crawl_is_not_idle_while_the_frontier_does_not_answer() -> None:
    asyncio.run(see_idle())
