"""`scrapy` that dies at a named point on an item's way: `CRASH_POINT` names it, `CRASH_AT` says at which passing.

`MUTANT` names a safeguard that is taken away before, to show that it is what holds there. The production code knows
nothing of either: its methods are replaced here, before Scrapy starts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scrapy.cmdline

from scrapy_durable import lifecycle
from scrapy_durable.frontier.contract import Outbox
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.item_log import ItemLog
from scrapy_durable.keys import Keys
from scrapy_durable.logged_items import LoggedItems
from scrapy_durable.spider_state import SpiderState
from scrapy_durable.start import SLOT
from scrapy_durable.start_urls import StartUrls
from scrapy_durable.storing import Stored

KILLED = 137

FRONTIERS = (SqliteFrontier, RedisFrontier)
Condition = Callable[..., bool]


def always(*arguments: Any, **options: Any) -> bool:
    """Every call counts."""
    return True


def says(name: str) -> Condition:
    """Exchanges whose outbox has something in that field."""
    return lambda frontier, outbox, want: bool(getattr(outbox, name))


def has_items(log: ItemLog) -> bool:
    """Flushes of items."""
    return log.durable < log.received


def says_what_was_pushed(frontier: Any, outbox: Outbox, want: int) -> bool:
    """Exchanges that queue more than the spider's start."""
    return any(entry.slot != SLOT for entry in outbox.entries)


def has_taken(urls: StartUrls) -> bool:
    """Of a worker that has queued what was pushed."""
    return bool(urls._taken)


def is_a_feed(source: Any, target: Any, **options: Any) -> bool:
    """Renames that put a feed in place."""
    return Path(target).parent.name == "feeds"


POINTS: dict[str, tuple[tuple[Any, ...], str, Condition]] = {
    "pushed": (FRONTIERS, "exchange", says_what_was_pushed),
    "push dropped": ((StartUrls,), "drop", has_taken),
    "log flush": ((ItemLog,), "write", has_items),
    "logged": (FRONTIERS, "exchange", says("logged")),
    "confirmed": (FRONTIERS, "exchange", says("confirmed")),
    "feed rename": ((os,), "replace", is_a_feed),
    "log closed": (FRONTIERS, "close_log", always),
    "forget": (FRONTIERS, "forget", always),
}


def die_at(point: str, passing: int) -> None:
    """Have the process end at that passing of `before …` or `after …`."""
    when, _, name = point.partition(" ")
    owners, method, counts = POINTS[name]
    passed = 0

    def note(*arguments: Any, **options: Any) -> bool:
        nonlocal passed
        passed += bool(counts(*arguments, **options))
        return bool(counts(*arguments, **options)) and passed == passing

    for owner in owners:
        original = getattr(owner, method)
        if inspect.iscoroutinefunction(original):

            @functools.wraps(original)
            async def replaced(*arguments: Any, _original: Any = original, **options: Any) -> Any:
                due = note(*arguments, **options)
                if due and when == "before":
                    os._exit(KILLED)
                result = await _original(*arguments, **options)
                if due:
                    os._exit(KILLED)
                return result

        else:

            @functools.wraps(original)
            def replaced(*arguments: Any, _original: Any = original, **options: Any) -> Any:
                due = note(*arguments, **options)
                if due and when == "before":
                    os._exit(KILLED)
                result = _original(*arguments, **options)
                if due:
                    os._exit(KILLED)
                return result

        setattr(owner, method, replaced)


def acknowledge_before_the_flush() -> None:
    """A request is done while its items are in memory: the disk takes none."""
    write = ItemLog.write

    async def write_but_items(self: ItemLog) -> None:
        if has_items(self):
            await asyncio.Event().wait()
        await write(self)

    ItemLog.write = write_but_items  # type: ignore[method-assign]
    LoggedItems.stores = property(lambda self: [])  # type: ignore[assignment]


def forget_what_was_accepted() -> None:
    """The frontier does not say which leases it has accepted."""
    for frontier in FRONTIERS:
        join = frontier.join_log

        async def join_log(self: Any, log: str, _join: Any = join) -> list[int]:
            await _join(self, log)
            return []

        frontier.join_log = join_log  # type: ignore[method-assign]


def confirm_before_the_flush() -> None:
    """The frontier is told to forget what this log does not hold yet: the disk takes no acceptance."""
    hear = LoggedItems.hear

    def hear_and_confirm(self: LoggedItems, outbox: Outbox, inbox: Any) -> None:
        hear(self, outbox, inbox)
        self._outbox.confirmed.extend(held.token for held in outbox.logged)

    LoggedItems.hear = hear_and_confirm  # type: ignore[method-assign]
    ItemLog.accept = lambda self, tokens: None  # type: ignore[method-assign]


def forget_which_push_it_was() -> None:
    """What is made of a push again has other keys."""
    Keys.pushed = lambda self, children, push: None  # type: ignore[method-assign]


def keep_the_state_until_the_end() -> None:
    """As Scrapy's own extension does."""
    SpiderState.received = property(lambda self: self.durable)  # type: ignore[assignment]


def write_the_state_slowly() -> None:
    """A disk for which requests have to wait."""
    write = SpiderState._write

    async def write_slowly(self: SpiderState) -> None:
        await asyncio.sleep(0.5)
        await write(self)

    SpiderState._write = write_slowly  # type: ignore[method-assign]


def forget_before_the_feeds() -> None:
    """The crawl is forgotten while items wait for their feed."""

    async def store_items(scheduler: Any, *, complete: bool, keep: bool, logs: Any) -> Stored:
        return Stored()

    lifecycle.store_items = store_items  # type: ignore[assignment]


if __name__ == "__main__":
    if mutant := os.environ.get("MUTANT"):
        globals()[mutant]()
    if point := os.environ.get("CRASH_POINT"):
        die_at(point, int(os.environ.get("CRASH_AT", "1")))
    sys.exit(scrapy.cmdline.execute())
