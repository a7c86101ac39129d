"""`scrapy` with a scheduler that breaks its promise, named by `MUTANT`: to show that the crash tests can fail.

With `DISK=stuck`, no batch is ever committed.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

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
    """As soon as the callback has run, while its records wait in memory for their batch."""
    Task.durable = property(lambda self: True)  # type: ignore[method-assign,assignment]


def count_as_durable_on_arrival() -> None:
    """What is meant for a database counts as kept while it waits in memory."""
    Delivery.durable = property(  # type: ignore[assignment]
        lambda self: self.received, lambda self, number: None
    )
    Delivery._let_go = let_go_of_all  # type: ignore[method-assign]


def let_go_of_all(self: Delivery, upto: int) -> None:
    self._pending.clear()
    self._roomy.set()


def never_commit(self: Archive, kind: str, lines: list[bytes]) -> Path:
    """A batch that a disk has been given, and does not finish with."""
    threading.Event().wait()
    raise AssertionError("woken up by nobody")


if __name__ == "__main__":
    if os.environ.get("DISK") == "stuck":
        Archive.commit = never_commit  # type: ignore[method-assign]
    globals()[os.environ["MUTANT"]]()
    sys.exit(scrapy.cmdline.execute())
