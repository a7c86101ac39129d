"""The one task that exchanges with the frontier, so that a slow or frozen Redis never blocks the reactor."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from scrapy_durable import engine
from scrapy_durable.exceptions import (
    FrontierDamaged,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
    cause,
)
from scrapy_durable.frontier.contract import Frontier, Inbox, Lease, Outbox
from scrapy_durable.participants import Participant
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from scrapy_durable.identity import CrawlClock
    from scrapy_durable.timing import Timing

logger = logging.getLogger(__name__)

_SET_BACK = 2.0
"""Seconds that a clock may be corrected by without a word."""

Beside = Callable[[], Coroutine[None, None, None] | None]
"""Called when an outbox is about to be sent; what it returns goes on until it is answered, or longer."""


class Exchanges:
    """Sends what the participants say, and tells them what the frontier answers.

    Stats: `frontier/exchanges`, `frontier/unavailable`.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        outbox: Outbox,
        timing: Timing,
        participants: Sequence[Participant],
        *,
        want: Callable[[], int],
        take_in: Callable[[list[Lease]], Awaitable[None]],
    ) -> None:
        """`participants` speak in their order; `want` says how many leases may come, and `take_in` takes them in."""
        self.unanswered: Outbox | None = None
        """What was sent and has to be sent again, the same, before anything newer."""
        self.closing = False
        self.has_ended_elsewhere = False
        """True once another worker has finished the crawl, so that it is gone from the frontier."""
        self._crawler = crawler
        self._stats = crawler.stats
        self._frontier = frontier
        self._outbox = outbox
        self._timing = timing
        self._participants = participants
        self._want = want
        self._take_in = take_in
        self._idle_since: float | None = None
        self._idle_before_close = crawler.settings.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")
        self._opened = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, beside: Beside, check: Callable[[], None]) -> None:
        """Exchange until the crawl is closed; `beside` says what goes on beside each, which may raise `FrontierError`;
        `check` is called before it is decided whether one is due.
        """
        self._task = asyncio.create_task(self._run(beside, check))
        self._task.add_done_callback(self._on_task_ended)

    @property
    def has_started(self) -> bool:
        """False when the crawl was refused at the start."""
        return self._task is not None

    def opened(self) -> None:
        """The spider is open."""
        self._opened.set()

    def cancel(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()

    @property
    def is_idle(self) -> bool:
        """True when the frontier was empty for all workers, for as long as `SCHEDULER_IDLE_BEFORE_CLOSE` says, and
        there is nothing to say.
        """
        return (
            self._idle_since is not None
            and time.monotonic() >= self._idle_since + self._idle_before_close
            and not self._has_something_to_say
        )

    @property
    def _has_something_to_say(self) -> bool:
        """An exchange that is under way and says nothing looks for news only: the end need not wait for it."""
        return self._outbox.says_something or (self.unanswered is not None and self.unanswered.says_something)

    async def exchange(self, beside: Beside = lambda: None) -> None:
        """One exchange, and what goes on beside it. Raises `FrontierError` of either."""
        outbox = self.unanswered
        if outbox is None:
            for participant in self._participants:
                participant.say(self._outbox)
            outbox = self.unanswered = self._outbox.take()
        want = self._want()
        self._timing.exchanging()
        inbox, failure = await _both(self._frontier.exchange(outbox, want), beside())
        self.unanswered = None
        self._stats.inc_value("frontier/exchanges")
        if inbox.unfinished or failure or self._idle_since is None:
            self._idle_since = None if inbox.unfinished or failure else time.monotonic()
        for participant in self._participants:
            participant.hear(outbox, inbox)
        await self._take_in(inbox.leases)
        if failure:
            raise failure

    async def finish(self) -> None:
        """Wait for what is under way. Raises `FrontierError` when it has failed."""
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled() and self._task.exception() is not None:
                raise FrontierError("the exchanges with it have failed")

    async def send_the_rest(self, release: Callable[[], None]) -> None:
        """Exchange until nothing is left to say. An answer may bring leases, which `release` is for.

        Raises `FrontierError`.
        """
        while self.unanswered or self._outbox.says_something:
            try:
                await self.exchange()
            except FrontierLost:
                if not await self._ended_elsewhere():
                    raise
            release()

    async def _run(self, beside: Beside, check: Callable[[], None]) -> None:
        def is_pressing() -> bool:
            check()
            return self.unanswered is not None or any(each.is_urgent for each in self._participants)

        pause = 0.1
        while not (self.closing or self.has_ended_elsewhere):
            await self._timing.wait(is_pressing)
            check()
            try:
                await self.exchange(beside)
                pause = 0.1
            except FrontierUnavailable as error:
                logger.warning("The frontier does not answer (%s); trying again in %.1f s", error, pause)
                self._stats.inc_value("frontier/unavailable")
                self._idle_since = None  # whether it has stayed empty is not known
                await self._timing.sleep(pause)
                pause = min(pause * 2, 5.0)
            except FrontierLost as error:
                if not await self._ended_elsewhere():
                    logger.critical("The crawl is gone from the frontier: %s", error)
                    self._stop("frontier_lost")
                return
            except FrontierError as error:
                logger.critical("The frontier refuses: %s", error)
                self._stop("frontier_failed")
                return

    async def _ended_elsewhere(self) -> bool:
        """True when the crawl is gone because another worker has finished it; then the engine may go idle."""
        try:
            ended = await self._frontier.verdict() is not None
        except FrontierError:
            return False
        if ended:
            self.crawl_ended()
            engine.wake(self._crawler)
        return ended

    def crawl_ended(self) -> None:
        """It is gone from the frontier, and its verdict is published."""
        self.has_ended_elsewhere = True
        for participant in self._participants:
            participant.crawl_ended()
        self.unanswered, _ = None, self._outbox.take()  # nobody is there to hear it

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        """Without its exchanges a crawl would stand still for ever, and say nothing."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("The exchanges with the frontier failed here", exc_info=error)
            self._stopping = asyncio.create_task(self._stop_once_open(error))

    async def _stop_once_open(self, error: BaseException) -> None:
        """Scrapy closes in good order only what it has opened."""
        await self._opened.wait()
        why = f"the exchanges with the frontier have failed: {cause(error)}"
        stop_crawl(self._crawler, "frontier_failed", why)

    def _stop(self, reason: str) -> None:
        self._stopping = asyncio.create_task(self._crawler.engine.close_spider_async(reason=reason))


async def _both(
    exchange: Coroutine[None, None, Inbox], beside: Coroutine[None, None, None] | None
) -> tuple[Inbox, Exception | None]:
    """Wait for both; returns the answer, and why the other has failed. Raises what the exchange raises."""
    if beside is None:
        return await exchange, None
    inbox, failure = await asyncio.gather(exchange, beside, return_exceptions=True)
    if isinstance(inbox, BaseException):
        raise inbox
    return inbox, failure if isinstance(failure, Exception) else None


class FrontierStats(Participant):
    """Counts what the frontier has refused.

    Stats: `frontier/refused`, `frontier/stale`, `frontier/dead`.
    """

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """Count it."""
        if inbox.refused:
            self._stats.inc_value("frontier/refused", len(inbox.refused))
        if inbox.stale:
            self._stats.inc_value("frontier/stale", len(inbox.stale))
            logger.warning("%d leases had expired; others may have taken them over", len(inbox.stale))
        if dead := len(inbox.dead_lettered) + len(outbox.dead_lettered):
            self._stats.inc_value("frontier/dead", dead)


class FrontierTime(Participant):
    """Keeps the crawl's clock by the frontier's."""

    def __init__(self, clock: CrawlClock) -> None:
        self._clock = clock
        self._ahead = 0.0

    def begin(self, now: float, ahead: float) -> None:
        """The crawl was joined at this time; `ahead` as in `Inbox`."""
        self._clock.begin(now)
        self._note_ahead(ahead)

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """The time at this exchange."""
        self._clock.hear(inbox.now)
        self._note_ahead(inbox.ahead)

    def _note_ahead(self, ahead: float) -> None:
        """Log it, once for each time, when the clock that the frontier goes by was set back."""
        if ahead > self._ahead + _SET_BACK:
            logger.warning("The clock was set back by %.0f s; the crawl counts on from where it was", ahead)
        self._ahead = ahead


class LongestWait(Participant):
    """Refuses a frontier in which all that is queued waits for longer than anything of this crawl can."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """Raises `FrontierDamaged`."""
        due = inbox.next_due
        if due is not None and due > self._seconds:
            raise FrontierDamaged(
                f"all that is queued waits for {due:.3g} s, and nothing of this crawl waits for more than "
                f"{self._seconds:.0f} s, so somebody else has changed a time; `scrapy queue forget`, and "
                "crawl again"
            )
