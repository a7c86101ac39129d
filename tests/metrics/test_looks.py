"""Whoever asks, and however many: one look at a time, and none when the last is fresh."""

from __future__ import annotations

import asyncio

from scrapy_durable.exceptions import FrontierUnavailable
from scrapy_durable.metrics.looks import FRESH, Looks
from scrapy_durable.status.report import Report, nothing_seen


class Looked:
    """Counts the looks, and how many are made at once; fails when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looks = self.at_once = self.most_at_once = 0
        self.fails = False
        self.kept = Looks(self._look, clock=lambda: self.now)

    async def _look(self) -> Report:
        self.looks += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.fails:
            raise FrontierUnavailable("Redis is away")
        return nothing_seen()


async def scrapes(looked: Looked, number: int) -> None:
    await asyncio.gather(*(looked.kept.refresh() for _ in range(number)))


def test_many_who_ask_cost_one_look() -> None:
    async def story() -> None:
        looked = Looked()
        await scrapes(looked, 20)
        assert (looked.looks, looked.most_at_once) == (1, 1)
        looked.now += FRESH / 2
        await scrapes(looked, 1)
        assert looked.looks == 1
        looked.now += FRESH
        await scrapes(looked, 20)
        assert (looked.looks, looked.most_at_once) == (2, 1)

    asyncio.run(story())


def test_what_a_look_raises_is_told_until_one_is_answered() -> None:
    async def story() -> None:
        looked = Looked()
        looked.fails = True
        await scrapes(looked, 3)
        assert (looked.kept.report, looked.kept.why_not, looked.looks) == (None, "Redis is away", 1)
        looked.fails = False
        looked.now += FRESH
        await scrapes(looked, 3)
        assert looked.kept.report is not None
        assert (looked.kept.why_not, looked.looks) == ("", 2)

    asyncio.run(story())
