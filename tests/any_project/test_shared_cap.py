"""Two workers that could each fill the cap of a site have an even part of it, and never exceed it together."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from benchmarks.workers import Site, start_worker
from tests.crawling import HANGS
from tests.redis_server import RedisServer

CAP, PAGES, ROUNDS = 16, 800, 15
LEAST = 0.4
"""Part of the work that each has."""
_PAUSE = 0.3
"""Seconds between two answers while one worker alone has the whole cap."""


class FullSite(Site):
    """Answers all at once, in rounds: when as many are in flight as may be, of both workers. Where one of them has the
    whole cap, since the other has not come yet, or stands still for longer than its part is kept, one is answered from
    time to time, so that it can be shared again. After the rounds that count it answers at once.
    """

    def __init__(self) -> None:
        super().__init__(0.0)
        self.rounds: list[Counter[str]] = []
        """How many of each worker were in flight."""
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    async def _pass_time(self, agent: str) -> None:
        await self.open.wait()
        if len(self.rounds) < ROUNDS:
            answer = asyncio.get_running_loop().create_future()
            self._waiting.append((agent, answer))
            self._look()
            await answer

    def _look(self) -> None:
        if len(self._waiting) < CAP:
            return
        found = Counter(agent for agent, _ in self._waiting)
        if len(found) > 1:
            self.rounds.append(found)
            self._answer(CAP)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._answer_one)

    def _answer_one(self) -> None:
        self._timer = None
        self._answer(1)

    def _answer(self, number: int) -> None:
        for _, answer in self._waiting[:number]:
            answer.set_result(None)
        del self._waiting[:number]


async def crawled(directory: Path) -> FullSite:
    """The site, once two workers have crawled it."""
    site = FullSite()
    await site.start()
    with RedisServer() as server, server.client() as client:
        workers = [
            start_worker(str(directory), name, server.port, site.port, PAGES, CAP, CAP)
            for name in ("one", "other")
        ]
        try:
            async with asyncio.timeout(HANGS):
                while client.hlen("{pages}:workers") < len(workers):
                    await asyncio.sleep(0.02)
                site.open.set()
                assert [await asyncio.to_thread(worker.wait) for worker in workers] == [0, 0]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
            await site.close()
    return site


def test_two_workers_have_an_even_part_of_a_cap_that_each_could_fill(tmp_path: Path) -> None:
    site = asyncio.run(crawled(tmp_path))
    assert len(site.answered) == PAGES
    assert site.most == CAP
    parts = sum(site.rounds, Counter())
    assert min(parts["one"], parts["other"]) >= LEAST * parts.total()
