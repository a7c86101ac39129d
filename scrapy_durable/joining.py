"""Which crawl this process joins, the one that is there or one that it begins; and how it leaves it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import ConfigurationError, ForeignCrawl, FrontierDamaged
from scrapy_durable.frontier.build import is_shared
from scrapy_durable.identity import is_crawl_id, new_crawl_id

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

    from scrapy_durable.frontier.contract import CrawlState, DeadLetter, Frontier, Status
    from scrapy_durable.worker import Worker

logger = logging.getLogger(__name__)


async def join(frontier: Frontier, spider: Spider, settings: BaseSettings, worker: Worker) -> CrawlState:
    """Join the crawl that the spider declares by its `identity`, or else by its name.

    `SCHEDULER_FLUSH_ON_START` has an unfinished one forgotten before. Raises `ConfigurationError` where there is that
    of another, and `FrontierError`.
    """
    if settings.getbool("SCHEDULER_FLUSH_ON_START"):
        await forget_unless_shared(frontier, settings, worker, "SCHEDULER_FLUSH_ON_START")
    identity = str(getattr(spider, "identity", spider.name))
    try:
        state = await frontier.begin(new_crawl_id(await frontier.time()), identity)
    except ForeignCrawl as error:
        own = "SCHEDULER_QUEUE_KEY" if is_shared(settings) else "JOBDIR"
        raise ConfigurationError(
            f"{error}: finish that one by its own command, give it up with 'scrapy queue forget', or give this one "
            f"a {own} of its own"
        ) from error
    if not is_crawl_id(state.crawl_id):
        raise FrontierDamaged(
            f"the frontier holds a crawl of the id {state.crawl_id[:80]!r}, which none of ours has, so "
            "somebody else has written it; `scrapy queue forget`, and crawl again"
        )
    return state


async def look_back(
    frontier: Frontier, settings: BaseSettings, worker: Worker
) -> tuple[Status, list[DeadLetter]]:
    """What a worker leaves behind; unless `SCHEDULER_PERSIST`, it forgets that. Raises `FrontierError`."""
    left = await asyncio.gather(frontier.status(), frontier.dead_letters())
    if not settings.getbool("SCHEDULER_PERSIST", True):
        await forget_unless_shared(frontier, settings, worker, "SCHEDULER_PERSIST=False")
    return left


async def forget_unless_shared(
    frontier: Frontier, settings: BaseSettings, worker: Worker, asked_by: str
) -> None:
    """Forget the crawl as the setting `asked_by` asks, but never while another worker is running."""
    status = await frontier.status()
    running = [
        other.worker
        for other in (status.workers if is_shared(settings) else ())
        if other.worker != worker.name and status.now - other.last_seen < worker.lease_seconds
    ]
    if running:
        logger.warning("%s is not obeyed: %s is at work on this crawl", asked_by, ", ".join(running))
    else:
        await frontier.forget()
