"""`scrapy` that dies at a named point: `CRASH_POINT` names it, `CRASH_AT` says at which passing (1 is the first).

Dying is `os._exit(137)`: no `finally`, no buffer written, as with `kill -9`. The production code knows nothing of it:
its methods are replaced here, before Scrapy starts.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import scrapy.cmdline

from carscraper.changes.log import Changes
from carscraper.output.archive import Archive
from carscraper.stores.backlog import Backlog
from carscraper.stores.backlogs import Backlogs
from carscraper.stores.delivery import Delivery
from carscraper.stores.mongo.database import MongoDatabase
from carscraper.stores.postgres.database import PostgresDatabase
from scrapy_durable.frontier.contract import Outbox
from scrapy_durable.frontier.redis import FORGET, RedisFrontier
from scrapy_durable.frontier.redis_scripts import Call, Script
from scrapy_durable.frontier.redis_server import RedisKeys
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.responses.redis import RedisResponseStore
from scrapy_durable.responses.sqlite import SqliteResponseStore

KILLED = 137

Condition = Callable[..., bool]


def always(*arguments: Any) -> bool:
    """Every call counts."""
    return True


def says(name: str) -> Condition:
    """Exchanges whose outbox has something in that field."""
    return lambda frontier, outbox, want: bool(getattr(outbox, name))


def leases_something(frontier: object, outbox: Outbox, want: int) -> bool:
    """Exchanges that ask for leases."""
    return want > 0


def forgets(frontier: object, script: object, *arguments: Any) -> bool:
    """Calls of the script that removes a crawl."""
    return script is FORGET


def tells_what_is_kept(frontier: object, name: str, part: object) -> bool:
    """Calls that leave the last of what a worker has kept."""
    return name.startswith("kept:") and name.count(":") == 1


def tells_what_is_published(frontier: object, name: str, part: object) -> bool:
    """Calls that say that a worker's share is published."""
    return name.startswith("published:")


FRONTIERS = (SqliteFrontier, RedisFrontier)
STORES = (SqliteResponseStore, RedisResponseStore)
DATABASES = (MongoDatabase, PostgresDatabase)
POINTS: dict[str, tuple[tuple[Any, ...], str, Condition]] = {
    "begin": (FRONTIERS, "begin", always),
    "lease": (FRONTIERS, "exchange", leases_something),
    "entries": (FRONTIERS, "exchange", says("entries")),
    "downloaded": (FRONTIERS, "exchange", says("downloaded")),
    "acks": (FRONTIERS, "exchange", says("acks")),
    "response": (STORES, "put", always),
    "rewrite": (STORES, "rewrite", always),
    "erase-mongo": ((MongoDatabase,), "erase", always),
    "erase-postgres": ((PostgresDatabase,), "erase", always),
    "fsync": ((os,), "fsync", always),
    "flush": ((Archive,), "write", always),
    "fdatasync": ((os,), "fdatasync", always),
    "rename": ((Path,), "replace", always),
    "claim": (FRONTIERS, "elect_finisher", always),
    "ledger-read": ((Archive,), "kept", always),
    "cars.json": ((Archive,), "publish", always),
    "changes-prepared": ((Changes,), "_prepare", always),
    "changes-appended": ((Changes,), "_append", always),
    "run.json": ((Archive,), "report", always),
    "archive-ended": ((Archive,), "end", always),
    "part": (FRONTIERS, "leave_part", tells_what_is_kept),
    "share": (FRONTIERS, "leave_part", tells_what_is_published),
    "verdict": (FRONTIERS, "publish_verdict", always),
    "forget": (FRONTIERS, "forget", always),
    "upsert-mongo": ((MongoDatabase,), "upsert", always),
    "upsert-postgres": ((PostgresDatabase,), "upsert", always),
    "mark-removed": (DATABASES, "mark_removed", always),
    "leave": ((Delivery,), "_leave", always),
    "position": ((Backlog,), "note", always),
    "adopted-delivered": ((Backlogs,), "drop", always),
    "forget-keys": ((RedisKeys,), "run_all", forgets),
}
"""Name to where it is; the point itself is `before <name>` or `after <name>`, or `amid forget-keys`."""


def die_at(owner: Any, method: str, counts: Condition, side: str, passing: int) -> None:
    """Have the process die before or after the `passing`-th call that counts."""
    original = getattr(owner, method)
    passed = 0

    def reached(arguments: tuple[Any, ...]) -> bool:
        nonlocal passed
        passed += counts(*arguments)
        return passed == passing and counts(*arguments)

    @functools.wraps(original)
    def blocking(*arguments: Any, **options: Any) -> Any:
        reached_now = reached(arguments)
        if reached_now and side == "before":
            os._exit(KILLED)
        result = original(*arguments, **options)
        if reached_now:
            os._exit(KILLED)
        return result

    @functools.wraps(original)
    async def waiting(*arguments: Any, **options: Any) -> Any:
        reached_now = reached(arguments)
        if reached_now and side == "before":
            os._exit(KILLED)
        result = await original(*arguments, **options)
        if reached_now:
            os._exit(KILLED)
        return result

    setattr(owner, method, waiting if inspect.iscoroutinefunction(original) else blocking)


def die_amid_forgetting(number: int) -> None:
    """Have the process die when the server has done so many of the calls that remove a crawl; -1: all but the last."""
    original = RedisKeys.run_all

    async def cut_off(keys: RedisKeys, script: Script, calls: Sequence[Call]) -> list[Any]:
        await original(keys, script, calls[:number])
        os._exit(KILLED)

    RedisKeys.run_all = cut_off  # type: ignore[method-assign]


if __name__ == "__main__":
    side, name = os.environ["CRASH_POINT"].split()
    passing = int(os.environ.get("CRASH_AT", "1"))
    owners, method, counts = POINTS[name]
    if side == "amid":
        die_amid_forgetting(passing)
    else:
        for owner in owners:
            die_at(owner, method, counts, side, passing)
    sys.exit(scrapy.cmdline.execute())
