"""The end of a crawl: for all its workers, once, with a verdict; and what then becomes of its state.

    idle for all workers ──claim──► one worker is elected ──► verdict ──publish──► forgotten
           │                                │                    │
           └─ others wait for the verdict ◄─┘ more to do:        └─ dead letters: kept, for `scrapy queue retry-dead`
                                              the crawl goes on

A crawl that is stopped (Ctrl-C, `CLOSESPIDER_…`) has no end: its state is kept, and the same command goes on with it.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import orjson
from scrapy import signals

from scrapy_durable.crawl_numbers import CrawlNumbers, crawl_numbers, others_live
from scrapy_durable.engine import finish_before_closing
from scrapy_durable.exceptions import FrontierLost, FrontierUnavailable, cause
from scrapy_durable.frontier.build import is_shared
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler
from scrapy_durable.stopping import is_stopping
from scrapy_durable.storing import NOT_STORED, Stored, store_items

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine
    from typing import Self

    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import LogStatus, Status

logger = logging.getLogger(__name__)

POLL = 0.3
"""Seconds between two looks for the verdict of the worker that was elected."""


class AnyVerdict(Protocol):
    """What the core needs of a verdict, whoever reaches it."""

    @property
    def complete(self) -> bool:
        """False when anything is lost, or is not known to be there."""

    @property
    def may_replace(self) -> bool:
        """Whether feeds of this crawl take the place of what earlier ones have left."""

    @property
    def reasons(self) -> list[str]:
        """Why it is not complete."""


V = TypeVar("V", bound=AnyVerdict)


class Lifecycle(ABC, Generic[V]):
    """Ends a crawl in good order, and says whether anything is missing.

    When the frontier is empty for all workers, one of them is elected, reaches the verdict and publishes it; the
    others wait for it. The crawl is then forgotten, so that the next run starts afresh; one with dead letters is kept,
    so that `scrapy queue retry-dead` and another run can complete it, and so is every crawl when `SCHEDULER_PERSIST`
    is True: its requests stay seen. Whatever fails on the way ends the crawl in one line, `failure`.

    When a crawl is complete, a site says in a class of its own that derives from this one; `any_project.py` has what
    holds for any. Under a scheduler that keeps no leases it does nothing, unless the site says so.

    `verdict` is there once the crawl has ended; the exit status hangs on it. Stat: `verdict/complete`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._finishing: asyncio.Task[None] | None = None
        self._ended = False
        self.verdict: V | None = None
        self.failure: str | None = None
        """What failed while the crawl was finished, on one line."""
        self.numbers: CrawlNumbers | None = None
        """Of the whole crawl, on the worker that was elected to finish it."""
        self._stored = Stored()
        self.is_at_work = False
        """True once the spider was opened, unless the scheduler keeps no leases: then nobody knows what is missing."""
        crawler.signals.connect(self._on_opened, signals.spider_opened)
        crawler.signals.connect(self._on_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    # What a site says

    async def _prepare(self) -> None:
        """Wait for what has to be done before the crawl counts as ended on this worker."""

    async def _leave_parts(self, scheduler: FrontierScheduler) -> None:
        """Leave in the frontier what the elected worker may need of this one. Called again and again while the crawl is
        finished; may raise what the frontier raises.
        """

    async def _wait_for_publication(self, scheduler: FrontierScheduler, verdict: V) -> list[str]:
        """What other workers have not published of what they have to, a sentence each; called when this one has its
        own in place.
        """
        return []

    @abstractmethod
    async def _finish(self, scheduler: FrontierScheduler, status: Status) -> V | None:
        """The verdict, with all that follows from it in place; None when there is more to do, which is queued by then.

        `status` is that of the crawl since this worker was elected. Called on the elected worker, and again if that
        failed. Raises whatever it likes: the crawl ends then.
        """

    def _serialize(self, verdict: V) -> bytes:
        """The verdict for the other workers. It is a dataclass of what JSON has, unless a site says otherwise."""
        return orjson.dumps(verdict)

    @abstractmethod
    async def _read(self, published: bytes) -> V:
        """The verdict that the elected worker has published, as it is on this one. Raises `FrontierDamaged`."""

    @abstractmethod
    def _keeps_crawl(self, verdict: V) -> bool:
        """Whether a crawl with this verdict is kept in the frontier."""

    async def _report_stored(self) -> None:
        """Leave word of how far the items are stored."""

    async def _finish_alone(self) -> V | None:
        """The same as `_finish` under another scheduler than the frontier's."""
        self._ended = True
        return None

    @abstractmethod
    async def _stopped(self, reason: str) -> V | None:
        """The verdict on a crawl that was stopped before its end; None when others go on with it."""

    @abstractmethod
    def _say(self, verdict: V) -> None:
        """Make the verdict known in logs and stats."""

    async def _report_failure(self) -> None:
        """Leave word of `failure`."""

    def summary(self) -> list[str]:
        """How the crawl ended, in a line or two for people."""
        if self.failure is not None:
            return [f"NOT COMPLETE: the crawl could not be finished: {self.failure}"]
        if self.verdict is None:
            return ["ended before there was a verdict; run the same command again"]
        if self.is_complete:
            return ["complete"]
        return [f"NOT COMPLETE: {'; '.join([*self.verdict.reasons, *self._stored.missing])}"]

    @property
    def is_complete(self) -> bool:
        """True when the crawl has ended, nothing is lost, and every item is stored."""
        complete = self.verdict is not None and self.verdict.complete
        return complete and not (self.failure or self._stored.missing)

    # What holds for every site

    def _on_opened(self) -> None:
        self.is_at_work = self._takes_part()
        if self.is_at_work:
            finish_before_closing(self._crawler, self._reach_end, is_over=self._is_over)

    def _takes_part(self) -> bool:
        return frontier_scheduler(self._crawler) is not None

    def _is_over(self) -> bool:
        scheduler = frontier_scheduler(self._crawler)
        return scheduler is not None and scheduler.ended_elsewhere

    async def _reach_end(self) -> bool:
        """Called when nothing on this worker keeps the spider open. True when it may close."""
        if self._ended or self.failure:
            return True
        self._finishing = asyncio.create_task(self._guarded(self._end()))
        await asyncio.wait([self._finishing])
        return self._ended

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a part of the finish. Whatever it raises ends here: in one line, and in the end of the crawl."""
        try:
            await work
        except Exception as error:
            self.failure = cause(error)
            logger.critical("The crawl cannot be finished: %s", self.failure)
            logger.debug("It failed here", exc_info=error)
            self._crawler.stats.set_value("verdict/complete", False)
            if not is_stopping(self._crawler):
                self._stopping = asyncio.create_task(
                    self._crawler.engine.close_spider_async(reason="finish_failed")
                )

    async def _end(self) -> None:
        """Have the crawl finished, by this worker or another. When it returns before that, the crawl goes on."""
        await self._prepare()
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is None:
            if (verdict := await self._finish_alone()) is not None:
                self._adopt(verdict)
            return
        if scheduler.items is not None:
            await scheduler.items.settle()
        while scheduler.ended and not self._ended:
            try:
                await self._leave_parts(scheduler)
                if (status := await self._elected(scheduler)) is not None:
                    await self._conclude_as_elected(scheduler, status)
                    return
                if (published := await scheduler.frontier.verdict()) is not None:
                    verdict = await self._read(published)
                    self._adopt(verdict)
                    await self._store_items(scheduler, verdict)
                    return
            except (FrontierUnavailable, FrontierLost) as error:
                logger.warning("The crawl cannot be finished yet: %s", error)
            await asyncio.sleep(POLL)

    async def _conclude_as_elected(self, scheduler: FrontierScheduler, status: Status) -> None:
        """Nothing, when something was queued meanwhile, by this worker or another."""
        verdict = await self._finish(scheduler, status)
        if verdict is None or not scheduler.ended:
            return
        if not await scheduler.frontier.publish_verdict(self._serialize(verdict)):
            return
        self.numbers = crawl_numbers(status.workers, scheduler.worker.name, scheduler.worker.own_numbers)
        self._adopt(verdict)
        await self._store_items(scheduler, verdict, status.logs)
        await self._let_go(scheduler, verdict)

    async def _store_items(
        self, scheduler: FrontierScheduler, verdict: V, logs: Collection[LogStatus] | None = None
    ) -> None:
        keep = self._keeps_crawl(verdict)
        self._stored = await store_items(scheduler, complete=verdict.may_replace, keep=keep, logs=logs)
        if missing := await self._wait_for_publication(scheduler, verdict):
            self._stored = Stored([*self._stored.missing, *missing], may_follow=True)
        self._crawler.stats.set_value("verdict/complete", self.is_complete)
        for sentence in self._stored.missing:
            logger.error("Not every item is stored: %s", sentence)
        await self._report_stored()

    async def _let_go(self, scheduler: FrontierScheduler, verdict: V) -> None:
        if self._keeps_crawl(verdict) or self._stored.may_follow:
            return
        if not self._crawler.settings.getbool("SCHEDULER_PERSIST"):
            if not await scheduler.frontier.forget(unless_unfinished=True):
                logger.warning(
                    "Requests were queued while the crawl was being finished: the next run goes on with them"
                )
                return
            scheduler.is_forgotten = True
        if scheduler.items is not None:
            await scheduler.items.remove()

    @staticmethod
    async def _elected(scheduler: FrontierScheduler) -> Status | None:
        try:
            return await scheduler.frontier.elect_finisher()
        except FrontierLost:
            return None  # forgotten by the worker that was elected; its verdict stays a while

    def _adopt(self, verdict: V) -> None:
        """The crawl has ended with this verdict."""
        self._ended = True
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is not None and scheduler.items is not None:
            self._stored = NOT_STORED  # until they are
        self.verdict = verdict
        self._crawler.stats.set_value("verdict/complete", verdict.complete)
        self._say(verdict)

    def _on_closed(self, reason: str) -> Coroutine[Any, Any, None] | None:
        return self._end_closed(reason) if self.is_at_work else None

    async def _end_closed(self, reason: str) -> None:
        if self._finishing is not None:
            await self._end_finishing(self._finishing)
        if self._ended or not self._has_begun:
            return
        if not self.failure:
            await self._guarded(self._end_stopped(reason))
        if self.failure:
            try:
                await self._report_failure()
            except Exception as error:  # noqa: BLE001 (what failed first has been said, and counts)
                logger.debug("Nothing says so but the log: %s", cause(error))

    async def _end_stopped(self, reason: str) -> None:
        verdict = await self._stopped(reason)
        if verdict is None:
            self._crawler.stats.set_value("verdict/complete", False)
        else:
            self._adopt(verdict)

    async def _end_finishing(self, finishing: asyncio.Task[None]) -> None:
        """The spider is closed: a finish that is under way is given up."""
        finishing.cancel()

    @property
    def _has_begun(self) -> bool:
        """False when the crawl was refused at its start."""
        scheduler = frontier_scheduler(self._crawler)
        return scheduler is not None and scheduler.has_begun

    def _others_live(self, scheduler: FrontierScheduler, status: Status) -> bool:
        """Never with a frontier in a file: one process at a time has it, and whoever it names has died."""
        return is_shared(self._crawler.settings) and others_live(
            status.workers, scheduler.worker.name, status.now, scheduler.worker.lease_seconds
        )
