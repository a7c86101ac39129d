"""The items of a crawl that has ended: each worker has its own stored, and waits for the others."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import FrontierLost, FrontierUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy_durable.frontier.contract import LogStatus
    from scrapy_durable.scheduler import FrontierScheduler

logger = logging.getLogger(__name__)

_POLL = 0.3
"""Seconds between two looks at the logs of the others."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How far the items of a crawl are where they should be."""

    missing: list[str] = field(default_factory=list)
    """What is not; a sentence each."""
    may_follow: bool = False
    """The next run of the same command may bring it: the crawl must not be forgotten."""


NOT_STORED = Stored(["the feeds are not stored; the same command stores them"], may_follow=True)
"""Of a worker that was stopped before."""


async def store_items(
    scheduler: FrontierScheduler, *, complete: bool, keep: bool, logs: Collection[LogStatus] | None = None
) -> Stored:
    """Have this worker's items stored, then wait until the others have theirs, or are gone.

    `complete`: nothing is missing of the crawl. `keep`: it is kept in the frontier, so nothing has to wait for anybody.
    `logs`: those of the crawl since it has ended; nobody is waited for when all others were closed by then.
    """
    scheduler.has_verdict = True
    missing = []
    if (items := scheduler.items) is not None:
        is_stored = await items.finish(complete=complete)
        if items.lost:  # known once all feeds have read the log
            missing.append(
                f"{items.lost} items that could not be serialized are lost with a process that was killed"
            )
        if not is_stored:
            return Stored([*missing, *NOT_STORED.missing], may_follow=True)
        if not keep:
            await _close_log(scheduler)
    if keep or (logs is not None and not _open_logs(logs, scheduler)):
        return Stored(missing)
    waiting = await _wait_for_the_others(scheduler)
    return Stored([*missing, *waiting], may_follow=bool(waiting))


async def _close_log(scheduler: FrontierScheduler) -> None:
    try:
        await scheduler.frontier.close_log()
    except FrontierLost:
        logger.debug("The crawl was forgotten meanwhile")


async def _wait_for_the_others(scheduler: FrontierScheduler) -> list[str]:
    """The workers that have not come back for their items; empty once all items of all workers are stored."""
    while True:
        try:
            logs = await scheduler.frontier.logs()
        except FrontierLost:
            return []  # forgotten, which nobody does before
        except FrontierUnavailable as error:
            logger.warning("The crawl cannot be finished yet: %s", error)
            await asyncio.sleep(_POLL)
            continue
        open_logs = _open_logs(logs, scheduler)
        if all(_is_gone(log, scheduler) for log in open_logs):
            return [
                f"the items of worker {log.name} ({log.worker}) are not stored: start it again in its directory, or "
                f"give them up with 'scrapy queue abandon {log.name}'"
                for log in open_logs
            ]
        await asyncio.sleep(_POLL)


def _open_logs(logs: Collection[LogStatus], scheduler: FrontierScheduler) -> list[LogStatus]:
    """Those of the others that are not done with."""
    return [log for log in logs if not log.closed and log.worker != scheduler.worker.name]


def _is_gone(log: LogStatus, scheduler: FrontierScheduler) -> bool:
    return scheduler.clock() - log.last_seen >= scheduler.worker.lease_seconds
