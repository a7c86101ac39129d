"""What the end of a crawl has to do with databases: wait for them, and have them mark what is gone."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.lifecycle import POLL
from scrapy_durable.stores import remote_stores
from scrapy_durable.waiting import Undelivered, as_seen_here, numbers, waiting_elsewhere

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import Status
    from scrapy_durable.scheduler import FrontierScheduler


class Deliveries:
    """Of one crawl, to all databases that are set. One that stands still is given up after `timeout` seconds."""

    def __init__(self, crawler: Crawler, timeout: float) -> None:
        self._crawler = crawler
        self._timeout = timeout

    async def wait(self) -> None:
        """Before the verdict, everything on its way shall have arrived."""
        await asyncio.gather(*(store.wait_until_delivered() for store in remote_stores(self._crawler)))

    async def wait_for_other_workers(
        self, scheduler: FrontierScheduler, status: Status
    ) -> dict[Undelivered, int]:
        """What waits on the disks of others in the end, by database and worker. Those that live are waited for as
        databases are; of those that are gone, what lies within reach is taken over and delivered. `status` is that of
        the crawl just now.
        """
        before: dict[Undelivered, int] = {}
        progress = time.monotonic()
        while True:
            if status.crawl_id != scheduler.identity.crawl_id:
                raise FrontierLost("another worker has ended the crawl meanwhile")
            stores = remote_stores(self._crawler)
            others = [worker for worker in status.workers if worker.worker != scheduler.identity.worker]
            alive_since = status.now - scheduler.worker.lease_seconds
            gone, living = (
                [
                    as_seen_here(each.report, stores)
                    for each in others
                    if (each.last_seen >= alive_since) is lives
                ]
                for lives in (False, True)
            )
            elsewhere, awaited = waiting_elsewhere(here=map(numbers, stores), gone=gone, living=living)
            if not awaited or time.monotonic() > progress + self._timeout:
                return elsewhere
            if awaited != before:
                before, progress = awaited, time.monotonic()
            await asyncio.sleep(POLL)
            await self.wait()
            status = await scheduler.frontier.status()

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> None:
        """Have the listings marked that a complete crawl has not seen, and wait for it."""
        for store in remote_stores(self._crawler):
            store.mark_removed(seen, begun_at, removed_at)
        await self.wait()

    @property
    def undelivered(self) -> dict[str, int]:
        """How many records have not arrived, by the name of the database."""
        return {store.name: store.undelivered for store in remote_stores(self._crawler)}
