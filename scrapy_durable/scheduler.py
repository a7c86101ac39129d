"""Scrapy's scheduler on a frontier: synchronous to the engine, asynchronous to the queue.

The engine asks `next_request` and is answered from a small buffer of leases; what it says goes to an outbox.
One task exchanges both with the frontier, so that a slow or frozen Redis never holds up the reactor.

What becomes of a lease meanwhile, and when the frontier is told, stands in `leases.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, cast

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro

from scrapy_durable import engine
from scrapy_durable.config import Config
from scrapy_durable.crawl_numbers import KEPT, LEFT
from scrapy_durable.exceptions import (
    CodecError,
    ConfigurationError,
    DurableError,
    ForeignCrawl,
    FrontierDamaged,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
    KeptElsewhere,
    cause,
)
from scrapy_durable.frontier import codec
from scrapy_durable.frontier.build import build_frontier, is_resumable, is_shared, slot_limits
from scrapy_durable.frontier.contract import (
    CrawlState,
    DeadLetter,
    Entry,
    Frontier,
    Lease,
    Outbox,
    Status,
    WorkerStatus,
)
from scrapy_durable.identity import CrawlIdentity, crawl_clock, is_crawl_id, new_crawl_id, new_worker_name
from scrapy_durable.keys import Keys
from scrapy_durable.leases import Leases, Task
from scrapy_durable.serializing import LOST, Serializer
from scrapy_durable.signals import request_waited_in_vain, request_waits
from scrapy_durable.start import SLOT as START_SLOT
from scrapy_durable.start import Start, has_middleware
from scrapy_durable.start_urls import build_start_urls
from scrapy_durable.stopping import stop_crawl
from scrapy_durable.stores import durable_stores, remote_stores
from scrapy_durable.throttle.pacing import build_pacing
from scrapy_durable.waiting import is_of_a_store, numbers

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from scrapy_durable.throttle.policy import Answer

logger = logging.getLogger(__name__)

_TICK = 0.02
"""Seconds between two exchanges while there is work: long enough to fill a batch, too short to be noticed."""
_SHORT_TICK = 0.002
"""Seconds between two exchanges when the time of a next request comes sooner than a tick."""
_LINGER = 0.1
"""Seconds that news waits for more at most, while most of what was leased is still under way."""
_IDLE_POLL = 0.5
"""Seconds between two looks at a shared frontier while this worker has nothing to do."""
_LOOK = 2.0
"""Seconds between two looks at what other workers have reported."""
_SET_BACK = 2.0
"""Seconds that a clock may be corrected by without a word."""
_DAYS = 2 * 86_400.0
"""Seconds that everything may wait for at most, unless `DURABLE_MAX_RETRY_AFTER` is longer, in the crawl of a spider
that declares what it queues.
"""
_FAREWELL = 3.0
"""Seconds that the last exchange may take when the crawl is stopped; after that, leases expire by themselves.
"""


class FrontierScheduler(BaseScheduler):
    """A drop-in for `scrapy_redis.scheduler.Scheduler` that loses nothing.

    In memory by default; in `JOBDIR` when that is set; shared through Redis when `REDIS_URL` is set. What
    `frontier.codec` cannot serialize stays in the memory of this process (`serializing.py`), unless the spider declares
    what it queues: then it is refused. `meta={"delay": seconds}` delays a request.

    Whoever ends a crawl asks `ended`: the frontier is empty for all workers, every lease settled.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._config = Config.from_settings(crawler.settings)
        self._worker = new_worker_name()
        self.frontier: Frontier = build_frontier(
            crawler.settings, self._worker, spider=crawler.spidercls.name
        )
        self._shared = is_shared(crawler.settings)
        self._stats = crawler.stats
        self._outbox = Outbox()
        self._report: dict[str, int] = {}
        self._clock = crawl_clock(crawler)
        self._ahead = 0.0
        room = crawler.settings.getint("CONCURRENT_REQUESTS") or 100
        self._leases = Leases(self._outbox, room, self._config.lease_seconds)
        self._unanswered: Outbox | None = None
        self._unfinished: int | None = None
        self._wait_until: float | None = None
        self._last_exchange = 0.0
        self._start_urls = build_start_urls(crawler.settings, crawler.spidercls.name, crawler.stats)
        self._pacing = build_pacing(crawler.settings)
        resumable = is_resumable(crawler.settings)
        self._serializer = Serializer(self._worker, crawler.stats, resumable=resumable)
        self._met: dict[str, float] = {}
        """Other workers of which this one was given a marker, and the monotonic time of the first."""
        declared = codec.is_declared(crawler.spider or crawler.spidercls)
        self.keys = Keys(self._fingerprint, self._worker, derive=not declared)
        is_element = resumable and not declared and has_middleware(crawler)
        self.start = Start(self._leases, self._push, is_element=is_element)
        self._usual_limit, self._limits = slot_limits(crawler.settings)
        self._longest_wait = max(_DAYS, self._config.max_retry_after + self._config.retry_max_delay)
        self._idle_since: float | None = None
        self._idle_before_close = crawler.settings.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        """Set while the outbox holds time that a site's next request may have."""
        self._closing = False
        self._opened = asyncio.Event()
        self._exchanging: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._ended_elsewhere = False
        self._has_asked = False
        self.has_begun = False
        """True once it has joined its crawl; False when that was refused."""
        self.workers: list[WorkerStatus] | None = None
        """Those of the crawl, this one among them, as seen a few seconds ago; None before the first look."""
        self._next_look = 0.0
        self.last_status: Status | None = None
        self.last_dead: list[DeadLetter] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Scrapy's own scheduler in memory for `scrapy fetch` and the like, which never join a crawl.

        Raises `ConfigurationError` when a setting is refused.
        """
        if engine.is_at_a_command(crawler):
            return cast("Self", engine.private_scheduler(crawler))
        return cls(crawler)

    # Scrapy's contract

    def open(self, spider: Spider) -> Deferred[None]:
        """Join the crawl that the spider's `identity` names.

        Raises `ConfigurationError` or `FrontierError` when the frontier is not fit for it, or holds another one.
        """
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        """Say what is left to say, give back what was not used, and let go. Takes a few seconds at most."""
        return deferred_from_coro(self._leave())

    def enqueue_request(self, request: Request) -> bool:
        """Put a request in the outbox. False when it is refused, or others have ended the crawl; duplicates are found
        by the frontier.
        """
        if self._ended_elsewhere:
            return False
        try:
            entry = self._entry(request)
        except CodecError as error:
            logger.error("Refused %s, which cannot be serialized: %s", request, error)
            return False
        self._push(entry)
        self._stats.inc_value("frontier/enqueued")
        if (original := self.keys.copied_from(request)) is not None:
            self.note_result(original)
        return True

    def next_request(self) -> Request | None:
        """The next leased request, or None when none has arrived yet."""
        while lease := self._leases.pop():
            try:
                request = self._serializer.read(lease)
            except KeptElsewhere as error:
                self._return_or_give_up(lease, error.worker)
                continue
            except CodecError as error:
                logger.error("Buried a request that cannot be read back: %s", error)
                self._leases.bury_unread(lease, f"unreadable: {error}")
                continue
            if not self._leases.at_work:
                self._news.set()  # from now on there is something to watch
            self._leases.hand_out(request, lease)
            self.keys.hand_out(request, lease.key)
            self._space_out(lease.slot)
            self._stats.inc_value("frontier/dequeued")
            return request
        return None

    def has_pending_requests(self) -> bool:
        """True until nothing is queued, delayed or leased, by this worker or any other."""
        return not self.ended

    # What the middlewares and extensions of this project ask

    @property
    def ended(self) -> bool:
        """True when the frontier was empty for all workers, for as long as `SCHEDULER_IDLE_BEFORE_CLOSE`
        says, and nothing has been said since.
        """
        return self._ended_elsewhere or (
            self._idle_since is not None
            and time.monotonic() >= self._idle_since + self._idle_before_close
            and not (self._leases or self._unanswered or self._outbox.says_something)
        )

    def is_leased(self, request: Request) -> bool:
        """False for one that has not come out of the frontier (robots.txt)."""
        return self._leases.get(request) is not None

    def failures(self, request: Request) -> int:
        """How often the leased request was put off by `retry` before; a lease that a kill has ended does not count."""
        return self._leases[request].lease.failures

    def expect_results(self) -> None:
        """Somebody calls `note_result` for every request that is not dropped: bury those that are."""
        self._leases.results_expected = True

    def note_result(self, request: Request) -> None:
        """The leased request has an outcome that its callback, its errback or a middleware has dealt with.

        One that has not left the downloader by then has never been there. If it was given back, its time may have gone
        to a robots.txt.
        """
        if task := self._leases.get(request):
            task.seen = True
            if task.outcome is None:
                self._land_unsent(task)

    def retry(self, request: Request, delay: float, reason: str) -> None:
        """When the leased request finishes, queue it again after `delay` seconds instead of acknowledging it."""
        task = self._leases[request]
        task.retry(delay, reason)
        task.silence(request)

    def bury(self, request: Request, reason: str) -> bool:
        """When the leased request finishes, make it a dead letter instead of acknowledging it.

        False when it is not leased, or something else was said of it before.
        """
        task = self._leases.get(request)
        return task is not None and task.bury(reason)

    def give_back(self, request: Request) -> None:
        """When the leased request finishes, queue it again at once, as if it had not been handed out."""
        task = self._leases[request]
        task.give_back()
        task.silence(request)

    def pause(self, request: Request, seconds: float) -> None:
        """Hand out nothing more for the request's site, to any worker, for `seconds`."""
        slot = self._slot(request)
        self._outbox.pauses[slot] = max(seconds, self._outbox.pauses.get(slot, 0.0))
        self._leases.return_waiting(slot)
        self._news.set()

    def note_answer(self, request: Request, answer: Answer) -> None:
        """Have the site's pace follow from this answer, for all workers, with the next exchange."""
        if self._pacing is not None:
            self._pacing.note(self._slot(request), answer, time.monotonic())

    def slow_to(self, request: Request, seconds: float) -> bool:
        """Have the request's site asked so many seconds apart at least, up to `AUTOTHROTTLE_MAX_DELAY`; False when
        nothing does.
        """
        if self._pacing is not None:
            self._pacing.at_least(self._slot(request), seconds)
        return self._pacing is not None

    def interval(self, request: Request) -> float:
        """Seconds between two requests to the request's site, of all workers, as last heard; 0: no matter."""
        return self._interval(self._slot(request))

    def report(self, name: str, number: int) -> None:
        """Have this number of this worker's own stand in the frontier, for all to see; absolute, never an increment.

        It travels with the next exchange, in one step with its acks; `WorkerStatus.report` gives it back. Names and
        numbers are within the bounds of `frontier.report`.
        """
        if not self._ended_elsewhere and self._report.get(name) != number:
            self._report[name] = number
            self._outbox.report = dict(self._report)

    @property
    def worker(self) -> str:
        """The name that this process works under."""
        return self._worker

    @property
    def own_numbers(self) -> dict[str, int]:
        """What this worker has done as it is now; `crawl_numbers` puts it together with what others report.

        It reports less itself: items that a kill would have it read again are not kept yet.
        """
        return {
            name: int(self._stats.get_value(stat, 0)) for name, stat in self._config.reported_stats.items()
        }

    @property
    def lease_seconds(self) -> float:
        """Seconds after which a worker that is not heard of any more counts as gone."""
        return self._config.lease_seconds

    # Opening and closing

    async def _open(self, spider: Spider) -> None:
        self._spider = spider
        self._serializer.begin(spider)
        self._leases.stores = durable_stores(self._crawler)
        try:
            state = await self._begin()
        except DurableError:
            await self.frontier.close()
            engine.refuse_to_open(self._crawler)
            raise
        self._clock.begin(state.now)
        self._note_ahead(state.ahead)
        self.start.begin(self.keys.begin(state.crawl_id))
        self.has_begun = True
        self.identity = CrawlIdentity(state.crawl_id, self._worker, is_resumable(self._crawler.settings))
        if not self.identity.resumable:
            logger.info("A crawl that is killed cannot be resumed: neither JOBDIR nor REDIS_URL is set")
        if state.resumed:
            logger.info("Going on with crawl %s", state.crawl_id)
        else:
            logger.info("Beginning crawl %s", state.crawl_id)
        connect = self._crawler.signals.connect
        connect(self._opened.set, signals.spider_opened)
        connect(self._on_left_downloader, signals.request_left_downloader)
        connect(self._on_waits, request_waits)
        connect(self._on_waited_in_vain, request_waited_in_vain)
        connect(self._on_spider_error, signals.spider_error)
        connect(self._on_item_error, signals.item_error)
        self._exchanging = asyncio.create_task(self._exchange_for_ever())
        self._exchanging.add_done_callback(self._on_exchanges_ended)
        from twisted.internet import reactor  # not before Scrapy has installed it

        cast("Any", reactor).addSystemEventTrigger("before", "shutdown", self._leave_at_once)

    async def _begin(self) -> CrawlState:
        """Join the crawl that the spider declares. Raises `ConfigurationError` where there is that of another."""
        if self._crawler.settings.getbool("SCHEDULER_FLUSH_ON_START"):
            await self._forget_unless_shared("SCHEDULER_FLUSH_ON_START")
        identity = str(getattr(self._spider, "identity", self._spider.name))
        try:
            state = await self.frontier.begin(new_crawl_id(await self.frontier.time()), identity)
        except ForeignCrawl as error:
            own = "SCHEDULER_QUEUE_KEY" if self._shared else "JOBDIR"
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

    def _leave_at_once(self) -> Deferred[None]:
        """Scrapy is forced to end (a second signal): give back what is in hand too, and let nothing hold this
        up.
        """
        if self._leaving is None:
            self._leases.return_at_work()
        return deferred_from_coro(self._leave())

    def _leave(self) -> asyncio.Task[None]:
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._close())
        return self._leaving

    async def _close(self) -> None:
        self._closing = True
        self._news.set()
        if self._exchanging is None:  # refused at the start
            await self.frontier.close()
            return
        try:
            async with asyncio.timeout(_FAREWELL):
                await self._last_exchanges(self._exchanging)
                self.start.give_back()
                self._sweep()
                self._leases.return_waiting()
                self._say_what_is_lost()
                self.report(LEFT, 1)
                while self._unanswered or self._outbox.says_something:
                    await self._exchange_unless_ended()
                    self._leases.return_waiting()  # the answer to an earlier exchange may still bring leases
                self.last_status = await self.frontier.status()
                self.last_dead = await self.frontier.dead_letters()
                if not self._crawler.settings.getbool("SCHEDULER_PERSIST", True):
                    await self._forget_unless_shared("SCHEDULER_PERSIST=False")
                if self._start_urls is not None:
                    await self._start_urls.close()
        except (TimeoutError, FrontierError) as error:
            held = len(self._leases) + len(self._outbox.acks)
            logger.warning(
                "Left without the frontier's answer (%s); %d leases will expire", error or "timed out", held
            )
            self._exchanging.cancel()
        await self.frontier.close()

    def _say_what_is_lost(self) -> None:
        if lost := self._serializer.lost_at_the_end:
            logger.warning("%d requests could not be serialized, and are lost with this process", lost)

    async def _stop_once_open(self, error: BaseException) -> None:
        """Scrapy closes in good order only what it has opened."""
        await self._opened.wait()
        why = f"the exchanges with the frontier have failed: {cause(error)}"
        stop_crawl(self._crawler, "frontier_failed", why)

    async def _exchange_unless_ended(self) -> None:
        try:
            await self._exchange()
        except FrontierLost:
            if not await self._has_ended_elsewhere():
                raise

    @staticmethod
    async def _last_exchanges(exchanging: asyncio.Task[None]) -> None:
        await asyncio.wait([exchanging])
        if exchanging.exception() is not None:
            raise FrontierError("the exchanges with it have failed")

    async def _forget_unless_shared(self, asked_by: str) -> None:
        """Forget the crawl as a setting asks, but never while another worker is at it."""
        status = await self.frontier.status()
        now_at_it = [
            worker.worker
            for worker in (status.workers if self._shared else ())
            if worker.worker != self._worker and status.now - worker.last_seen < self._config.lease_seconds
        ]
        if now_at_it:
            logger.warning("%s is not obeyed: %s is at work on this crawl", asked_by, ", ".join(now_at_it))
        else:
            await self.frontier.forget()

    # The exchange

    async def _exchange_for_ever(self) -> None:
        pause = 0.1
        while not self._closing:
            await self._wait_for_news()
            self._sweep()
            try:
                await self._take_start_urls()
                await self._exchange()
                await self._look_at_workers()
                pause = 0.1
            except FrontierUnavailable as error:
                logger.warning("The frontier does not answer (%s); trying again in %.1f s", error, pause)
                self._stats.inc_value("frontier/unavailable")
                await self._sleep_unless_closing(pause)
                pause = min(pause * 2, 5.0)
            except FrontierLost as error:
                if not await self._has_ended_elsewhere():
                    logger.critical("The crawl is gone from the frontier: %s", error)
                    self._stop("frontier_lost")
                return
            except FrontierError as error:
                logger.critical("The frontier refuses: %s", error)
                self._stop("frontier_failed")
                return

    def _on_exchanges_ended(self, exchanging: asyncio.Task[None]) -> None:
        """Without its exchanges a crawl would stand still for ever, and say nothing."""
        if not exchanging.cancelled() and (error := exchanging.exception()) is not None:
            logger.debug("The exchanges with the frontier failed here", exc_info=error)
            self._farewell = asyncio.create_task(self._stop_once_open(error))

    async def _exchange(self) -> None:
        """One exchange. An outbox that was not answered is said again, the same, before anything newer."""
        outbox = self._unanswered
        if outbox is None:
            self._leases.settle()
            self._report_what_waits()
            self._leases.renew_in_time()
            if self._pacing is not None:
                self._outbox.paces = self._pacing.changes()
            for name, number in {**self.own_numbers, KEPT: self._leases.kept}.items():
                self.report(name, number)
            self._serializer.say(self._outbox)
            outbox = self._unanswered = self._outbox.take()
            self._urgent.clear()
        want = 0 if self._serializer.puts_back else self._want()
        self._last_exchange = time.monotonic()
        inbox = await self.frontier.exchange(outbox, want)
        self._unanswered = None
        self._stats.inc_value("frontier/exchanges")
        self._clock.hear(inbox.now)
        self._note_ahead(inbox.ahead)
        self._unfinished = inbox.unfinished
        if inbox.unfinished or self._idle_since is None:
            self._idle_since = None if inbox.unfinished else time.monotonic()
        due = inbox.next_due
        if due is not None and due > self._longest_wait and hasattr(self._spider, "queued"):
            raise FrontierDamaged(
                f"all that is queued waits for {due:.3g} s, and nothing of this crawl waits for more than "
                f"{self._longest_wait:.0f} s, so somebody else has changed a time; `scrapy queue forget`, and "
                "crawl again"
            )
        self._wait_until = None if due is None else time.monotonic() + due
        if inbox.refused:
            self._stats.inc_value("frontier/refused", len(inbox.refused))
        if inbox.stale:
            self._stats.inc_value("frontier/stale", len(inbox.stale))
            logger.warning("%d leases had expired; others may have taken them over", len(inbox.stale))
            self._leases.forget(inbox.stale)
        if inbox.buried:
            self._stats.inc_value("frontier/dead", len(inbox.buried))
        if outbox.burials:
            self._stats.inc_value("frontier/dead", len(outbox.burials))
        if self._pacing is not None:
            self._pacing.learned(outbox.paces, inbox.paces, time.monotonic())
        self._outbox.entries += self._serializer.hear(outbox, inbox)
        self.start.hear(outbox, inbox)
        self._leases.add([lease for lease in inbox.leases if not self.start.take(lease)])
        if inbox.leases or self.ended:
            engine.wake(self._crawler)
        if self._start_urls is not None:
            await self._start_urls.drop()

    def _note_ahead(self, ahead: float) -> None:
        """Say it, once for each time, when the clock that the frontier goes by was set back."""
        if ahead > self._ahead + _SET_BACK:
            logger.warning("The clock was set back by %.0f s; the crawl counts on from where it was", ahead)
        self._ahead = ahead

    async def _look_at_workers(self) -> None:
        """Every few seconds; once, when no other can be at it."""
        if self.workers is None or (self._shared and time.monotonic() >= self._next_look):
            self._next_look = time.monotonic() + _LOOK
            self.workers = await self.frontier.workers()

    def _report_what_waits(self) -> None:
        """What is acknowledged because it is on this machine's disk is counted in the same exchange."""
        waiting = {
            name: number for store in remote_stores(self._crawler) for name, number in numbers(store).items()
        }
        for name in [name for name in self._report if is_of_a_store(name) and name not in waiting]:
            del self._report[name]  # a report has a bound, and there may have been many in the course of time
        for name, number in waiting.items():
            self.report(name, number)

    def _want(self) -> int:
        """How many leases may come. Where there is an interval it is one until the site has been asked something, since
        what waits for its robots.txt loses its time.
        """
        if self._closing:
            return 0
        if not self._has_asked and any(
            self._interval(slot) for slot in self._leases.slots if slot != START_SLOT
        ):
            return 0
        return self._leases.free

    async def _wait_for_news(self) -> None:
        """Return when there is something to say or to be had, but not more often than each tick, unless it is
        urgent.
        """
        earliest = self._last_exchange + _TICK
        if self._wait_until is not None and self._wait_until < earliest:
            earliest = max(self._wait_until, self._last_exchange + _SHORT_TICK)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, earliest - time.monotonic())):
                await self._urgent.wait()
        while not (self._closing or self._has_something_to_say() or self._may_be_given_something()):
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._nap())

    def _has_something_to_say(self) -> bool:
        self._sweep()
        self._leases.settle()
        return (
            self._unfinished is None
            or self._unanswered is not None
            or self._urgent.is_set()
            or self._serializer.puts_back
            or self._leases.need_renewal
            or (self._outbox.says_something and (self._leases.hungry or self._has_lingered))
        )

    @property
    def _has_lingered(self) -> bool:
        return time.monotonic() >= self._last_exchange + _LINGER

    def _may_be_given_something(self) -> bool:
        """True when a time has come that held something back, or others may have queued something."""
        now = time.monotonic()
        due = self._wait_until is not None and now >= self._wait_until
        return due or (self._shared and self._leases.starving and now >= self._last_exchange + _IDLE_POLL)

    def _nap(self) -> float:
        """Seconds until it is worth looking again, if nobody calls before."""
        now = time.monotonic()
        nap = _TICK if self._leases.at_work else _IDLE_POLL
        return nap if self._wait_until is None else max(0.0, min(nap, self._wait_until - now))

    async def _take_start_urls(self) -> None:
        """Queue what others have pushed to the start key; it is taken off there once it is in the frontier."""
        if self._start_urls is None or not self._leases.starving or self._closing:
            return
        if self._unanswered is not None:
            return  # that outbox is said again first, and what is taken now would not be in it
        for request in await self._start_urls.take(self._spider):
            self.enqueue_request(request)

    async def _has_ended_elsewhere(self) -> bool:
        """True when the crawl is gone because another worker has closed its books; then the engine may go
        idle, and what this worker still has in hand, having slept through the end, counts no more.
        """
        try:
            ended = await self.frontier.verdict() is not None
        except FrontierError:
            return False
        if ended:
            self._ended_elsewhere = True
            self.start.end()
            self._leases.return_waiting()
            self._unanswered, _ = None, self._outbox.take()  # nobody is there to hear it
            engine.wake(self._crawler)
        return ended

    async def _sleep_unless_closing(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._closing and (rest := until - time.monotonic()) > 0:
            await asyncio.sleep(min(rest, 0.1))

    def _sweep(self) -> None:
        """Look what the engine still has in hand."""
        passed_on = self._stats.get_value("item_scraped_count", 0)
        downloading = engine.downloading(self._crawler)
        if starting := self.start.at_work(engine.items_at_work(self._crawler)):
            downloading = {*downloading, *starting}
        self._leases.sweep(downloading, engine.in_progress(self._crawler), passed_on)

    def _push(self, entry: Entry) -> None:
        self._outbox.entries.append(entry)
        if self._leases.starving:
            self._news.set()

    def _entry(self, request: Request) -> Entry:
        key = self.keys.of(request)
        slot = self._slot(request)
        entry = Entry(
            key=key,
            slot=slot,
            callback=getattr(request.callback, "__name__", "parse"),
            payload=self._serializer.payload(request, key),
            priority=request.priority,
            delay=self._delay(request),
        )
        if self._pacing is not None:
            self._pacing.enter(slot)
        return entry

    def _delay(self, request: Request) -> float:
        """Raises `CodecError` for a delay that is none, where the spider declares what it queues; to any other, a value
        of this name may mean something else.
        """
        delay = request.meta.get("delay", 0)
        if isinstance(delay, int | float) and not isinstance(delay, bool) and 0 <= delay < 1e9:
            return float(delay)
        if codec.is_declared(self._spider):
            raise CodecError(f"meta['delay'] must be seconds from now, not {delay!r}")
        return 0.0

    def _return_or_give_up(self, lease: Lease, worker: str) -> None:
        """Of a request that is in the memory of another worker: it may have it yet, or has died with it."""
        if self._may_live(worker):
            self._serializer.put_back(lease)
        else:
            url = codec.url_of(lease.payload)
            logger.error("Gave up %s, which could not be serialized, and was lost with its worker", url)
            self._leases.bury_unread(lease, LOST)
        self._news.set()

    def _may_live(self, worker: str) -> bool:
        """Whether another worker may still be at it: it is heard of, or nobody has looked since it was first met."""
        if not self._shared or worker == self._worker:
            return False
        met = self._met.setdefault(worker, time.monotonic())
        for each in self.workers or ():
            if each.worker == worker:
                return (
                    not each.report.get(LEFT) and self._clock() - each.last_seen < self._config.lease_seconds
                )
        return self._next_look - _LOOK < met

    def _fingerprint(self, request: Request) -> bytes:
        return self._crawler.request_fingerprinter.fingerprint(request)

    def _slot(self, request: Request) -> str:
        return engine.site_of(self._crawler, request)

    def _interval(self, slot: str) -> float:
        learned = self._pacing.interval(slot) if self._pacing is not None else None
        return max(self._limits.get(slot, self._usual_limit).interval, learned or 0.0)

    def _space_out(self, slot: str) -> None:
        """Have the downloader keep the site's interval too: two leases that a busy worker finds at once, though
        they came one after the other, leave it one after the other.
        """
        engine.space_out(self._crawler, slot, self._interval(slot))

    def _stop(self, reason: str) -> None:
        self._farewell = asyncio.create_task(self._crawler.engine.close_spider_async(reason=reason))

    # Signals

    def _land_unsent(self, task: Task) -> None:
        if self._leases.land_unsent(task) and self._interval(task.lease.slot) > 0:
            self._urgent.set()
            self._news.set()

    def _on_waits(self, request: Request) -> bool:
        if task := self._leases.get(request):
            task.waits = True
            self._land_unsent(task)
        return task is not None

    def _on_waited_in_vain(self, request: Request) -> None:
        self.give_back(request)

    def _on_left_downloader(self, request: Request) -> None:
        self._has_asked = True
        if task := self._leases.get(request):
            self._leases.land(task)
            self._news.set()

    def _on_spider_error(self, failure: Failure, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            self.bury(request, f"{type(failure.value).__name__}: {failure.value}")

    def _on_item_error(self, failure: Failure, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            self.bury(request, f"a pipeline failed: {type(failure.value).__name__}: {failure.value}")


def frontier_scheduler(crawler: Crawler) -> FrontierScheduler | None:
    """The running scheduler when it keeps leases; None under another one, such as Scrapy's own.

    `isinstance` would say yes to any class with the right methods: `BaseScheduler` has a metaclass for that.
    """
    scheduler = crawler.engine.scheduler
    return scheduler if FrontierScheduler in type(scheduler).__mro__ else None  # type: ignore[return-value]
