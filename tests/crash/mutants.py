"""`scrapy` with a scheduler that breaks its promise, named by `MUTANT`: to show that the crash tests can fail.

With `DISK=stuck`, no record is ever flushed.
"""

from __future__ import annotations

import asyncio
import os
import sys

import scrapy.cmdline
from scrapy import Request

from carscraper.output.archive import Archive
from carscraper.stores.delivery import Delivery
from scrapy_durable.leases import Task
from scrapy_durable.scheduler import FrontierScheduler


def acknowledge_when_leased() -> None:
    """As any queue does that pops: what is leased is gone from it."""
    leased = FrontierScheduler.next_request

    def next_request(self: FrontierScheduler) -> Request | None:
        request = leased(self)
        if request is not None:
            self._outbox.acks.append(self._leases[request].held)
        return request

    FrontierScheduler.next_request = next_request  # type: ignore[method-assign]


def acknowledge_before_durable() -> None:
    """As soon as the callback has run, while its records wait in memory to be flushed."""
    Task.durable = property(lambda self: True)  # type: ignore[method-assign,assignment]


def position_ahead() -> None:
    """What is left to the log counts as delivered to the database."""
    leave = Delivery._leave

    async def leave_and_pass(self: Delivery, **options: bool) -> None:
        await leave(self, **options)
        if self._own is not None:
            self._own._passed = self._own._left
            await self._own.note()

    Delivery._leave = leave_and_pass  # type: ignore[method-assign]


async def never_flush(self: Archive) -> None:
    """Something that a disk has been given, and does not finish with."""
    await asyncio.Event().wait()


if __name__ == "__main__":
    if os.environ.get("DISK") == "stuck":
        Archive.write = never_flush  # type: ignore[method-assign]
    globals()[os.environ["MUTANT"]]()
    sys.exit(scrapy.cmdline.execute())
