"""Two workers that could each fill the cap of a site have an even part of it, and never exceed it together."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from benchmarks.workers import Site, start_worker
from tests.crawling import HANGS
from tests.redis_server import RedisServer

CAP, PAGES, COUNTED = 16, 400, 240
"""The parts of the first ones are counted: the last ones of a queue are whose spares they are."""
LEAST = 0.4
"""Part of the work that each has; the first to come has the whole cap until another asks."""


class FullSite(Site):
    """Answers all at once, when as many are in flight as may be: so no worker is ahead because another stands still.
    Once those that count are answered, it answers at once.
    """

    def __init__(self) -> None:
        super().__init__(0.0)
        self._changed = asyncio.Condition()
        self._to_answer = 0

    async def _pass_time(self) -> None:
        await self.open.wait()
        async with self._changed:
            if self.in_flight >= CAP or len(self.answered) >= COUNTED:
                self._to_answer = self.in_flight
                self._changed.notify_all()
            await self._changed.wait_for(lambda: self._to_answer)
            self._to_answer -= 1


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
    parts = Counter(agent for _, agent in site.answered[:COUNTED])
    assert min(parts["one"], parts["other"]) >= LEAST * COUNTED
