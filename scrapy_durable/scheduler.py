"""Scrapy's scheduler on a frontier: synchronous to the engine, asynchronous to the queue.

The engine asks `next_request` and is answered from a small buffer of leases; what it says goes to an outbox.

| part | trade |
|---|---|
| `leases` | what becomes of a lease, and when the frontier is told |
| `outcomes` | what middlewares and signals say of a leased request |
| `exchanges`, `timing` | the task that exchanges with the frontier, and when |
| `joining` | which crawl this process joins |
| `keys`, `parents`, `start` | what a request's key is, so that a parent that is done again repeats nothing |
| `serializing` | requests in the frontier, and in memory when they cannot be serialized |
| `throttle.sites` | how fast each site may be asked |
| `worker` | what this process reports, and knows of others |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro

from scrapy_durable import engine
from scrapy_durable.config import Config
from scrapy_durable.crawl_numbers import KEPT
from scrapy_durable.duplicates import Duplicates
from scrapy_durable.entries import Entries
from scrapy_durable.exceptions import CodecError, DurableError, FrontierError, KeptElsewhere
from scrapy_durable.exchanges import Exchanges, FrontierStats, FrontierTime, LongestWait
from scrapy_durable.frontier import codec
from scrapy_durable.frontier.build import build_frontier, is_resumable, is_shared
from scrapy_durable.frontier.contract import DeadLetter, Entry, Frontier, Lease, Outbox, Status
from scrapy_durable.identity import CrawlIdentity, crawl_clock, new_worker_name
from scrapy_durable.joining import join, look_back
from scrapy_durable.keys import Keys
from scrapy_durable.leases import Leases
from scrapy_durable.logged_items import build_logged_items
from scrapy_durable.outcomes import Outcomes
from scrapy_durable.participants import Participant
from scrapy_durable.serializing import LOST, Serializer
from scrapy_durable.start import Start, has_middleware
from scrapy_durable.start_urls import build_start_urls
from scrapy_durable.stores import durable_stores, flush_stores
from scrapy_durable.throttle.sites import Sites
from scrapy_durable.timing import Timing
from scrapy_durable.worker import Worker

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)

_DAYS = 2 * 86_400.0
"""Seconds that a declared request waits at most, unless `DURABLE_MAX_RETRY_AFTER` is longer."""
_GRACE_PERIOD = 3.0
"""Seconds that the last exchanges may take when the crawl is stopped; after that, leases expire by themselves."""


class FrontierScheduler(BaseScheduler):
    """A drop-in for `scrapy_redis.scheduler.Scheduler` that loses nothing.

    In memory by default; in `JOBDIR` when that is set; shared through Redis when `REDIS_URL` is set. What
    `frontier.codec` cannot serialize stays in the memory of this process (`serializing.py`), unless the spider declares
    what it queues: then it is refused. `meta={"delay": seconds}` delays a request.

    Whoever finishes a crawl asks `ended`: the frontier is empty for all workers, every lease settled.

    Stats: `frontier/enqueued`, `frontier/dequeued`.
    """

    frontier: Frontier
    identity: CrawlIdentity
    """Known once it has joined its crawl."""

    def __init__(self, crawler: Crawler) -> None:
        settings, stats = crawler.settings, crawler.stats
        config = Config.from_settings(settings)
        name = new_worker_name()
        shared, resumable = is_shared(settings), is_resumable(settings)
        declared = codec.is_declared(crawler.spider or crawler.spidercls)
        self.clock = clock = crawl_clock(crawler)
        self._crawler = crawler
        self._stats = stats
        self._kept_stat = config.reported_stats.get(KEPT, "item_scraped_count")
        self._outbox = outbox = Outbox()
        self.frontier = build_frontier(settings, name, spider=crawler.spidercls.name)
        self._leases = Leases(outbox, settings.getint("CONCURRENT_REQUESTS") or 100, config.lease_seconds)
        self._leases.takes_spares = lambda: shared and self._asks
        self._timing = Timing(outbox, self._leases, shared=resumable)
        self._start_urls = build_start_urls(
            settings, crawler.spidercls.name, stats, lease_seconds=config.lease_seconds
        )
        self._serializer = Serializer(name, stats, resumable=resumable)
        self._time = FrontierTime(clock)
        self.sites = Sites(crawler, outbox, self._leases, self._timing)
        self.outcomes = Outcomes(self._leases, self.sites, self._timing)
        self.worker = Worker(
            crawler,
            name,
            outbox,
            config.reported_stats,
            clock,
            lease_seconds=config.lease_seconds,
            shared=shared,
            kept=lambda: self._leases.kept,
            more=lambda: self.items.numbers if self.items else {},
        )
        self.keys = Keys(crawler.request_fingerprinter.fingerprint, name, derive=not declared)
        is_element = resumable and not declared and has_middleware(crawler)
        self.start = Start(self._leases, self._push, is_element=is_element)
        self._duplicates = Duplicates(crawler)
        self.items = build_logged_items(
            crawler, outbox, self._leases, self._timing, max_bytes=config.item_log_max_bytes
        )
        """This worker's items on their way to those who store them each once; None where nobody does."""
        self.has_verdict = False
        """True once the crawl has ended: nothing is taken in any more."""
        participants: list[Participant] = [
            self._time,
            self._timing,
            self._leases,
            self.sites,
            self.worker,
            self._serializer,
            self.start,
            FrontierStats(stats),
            self._duplicates,
        ]
        participants += [one for one in (self.items, self._start_urls) if one is not None]
        if declared:
            participants.insert(0, LongestWait(max(_DAYS, config.max_retry_after + config.retry_max_delay)))
        self._entries = Entries(self.keys, self.sites, self._serializer, declared=declared)
        self._exchanges = Exchanges(
            crawler,
            self.frontier,
            outbox,
            self._timing,
            participants,
            want=lambda: self._leases.prefetch if self._asks else 0,
            take_in=self._take_in,
        )
        self._opened = AsyncExitStack()  # what is to be closed in the end, the last one first
        self._opened.push_async_callback(self.frontier.close)
        if self.items is not None:
            self._opened.push_async_callback(self.items.close)
        self._leaving: asyncio.Task[None] | None = None
        self.is_forgotten = False
        """True once this worker has finished the crawl, and it is gone from the frontier."""
        self.has_begun = False
        """True once it has joined its crawl; False when that was refused."""
        self.last_status: Status | None = None
        """As this worker left; None before, and once it has had the crawl forgotten."""
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
        """Send what is left to say, release what was not used, and close. Takes a few seconds at most."""
        return deferred_from_coro(self._leave())

    def enqueue_request(self, request: Request) -> bool:
        """Put a request in the outbox. False when it is refused, or others have ended the crawl; duplicates are found
        by the frontier.
        """
        if self._exchanges.has_ended_elsewhere:
            return False
        try:
            entry = self._entries.made_of(request)
        except CodecError as error:
            logger.error("Refused %s, which cannot be serialized: %s", request, error)
            return False
        self._push(entry)
        self._duplicates.queued(entry.key, request)
        self._stats.inc_value("frontier/enqueued")
        if (original := self.keys.copied_from(request)) is not None:
            self.outcomes.note_result(original)
        return True

    def next_request(self) -> Request | None:
        """The next leased request, or None when none has arrived yet."""
        while lease := self._leases.prefetched.pop():
            try:
                request = self._serializer.read(lease)
            except KeptElsewhere as error:
                self._return_or_give_up(lease, error.worker)
                continue
            except CodecError as error:
                logger.error("Dead-lettered a request that cannot be read back: %s", error)
                self._leases.prefetched.dead_letter(lease, f"unreadable: {error}")
                continue
            if not self._leases.at_work:
                self._timing.wake()  # from now on there is something to watch
            self.keys.leased(request, lease.key)
            self.sites.leased(lease.slot)
            self._leases.assign(request, lease)  # last: what the engine never sees must not count as done
            self._stats.inc_value("frontier/dequeued")
            return request
        return None

    def has_pending_requests(self) -> bool:
        """True until nothing is queued, delayed or leased, by this worker or any other."""
        return not self.ended

    @property
    def ended(self) -> bool:
        """True when the frontier was empty for all workers, for as long as `SCHEDULER_IDLE_BEFORE_CLOSE`
        says, and nothing has been said since.
        """
        others_have = self._start_urls.others_have if self._start_urls is not None else 0
        is_empty = self._exchanges.is_idle and not self._leases and not others_have
        return self._exchanges.has_ended_elsewhere or is_empty

    @property
    def ended_elsewhere(self) -> bool:
        """True once another worker has ended the crawl; then nothing is queued any more."""
        return self._exchanges.has_ended_elsewhere

    # Opening and closing

    async def _open(self, spider: Spider) -> None:
        self._spider = spider
        self._serializer.begin(spider)
        if self._start_urls is not None:
            self._start_urls.serve(spider)
        self._leases.stores = [*durable_stores(self._crawler), *(self.items.stores if self.items else ())]
        try:
            state = await join(self.frontier, spider, self._crawler.settings, self.worker)
            if self.items is not None:
                await self.items.open(self.frontier, state)
        except DurableError:
            await self._opened.aclose()
            engine.refuse_to_open(self._crawler)
            raise
        self._time.begin(state.now, state.ahead)
        self.start.begin(self.keys.begin(state.crawl_id))
        self.has_begun = True
        self.identity = CrawlIdentity(state.crawl_id, self.worker.name, is_resumable(self._crawler.settings))
        if not self.identity.resumable:
            logger.info("A crawl that is killed cannot be resumed: neither JOBDIR nor REDIS_URL is set")
        if state.resumed:
            logger.info("Going on with crawl %s", state.crawl_id)
        else:
            logger.info("Beginning crawl %s", state.crawl_id)
        self._crawler.signals.connect(self._exchanges.opened, signals.spider_opened)
        self.outcomes.connect(self._crawler)
        self._exchanges.start(self._beside_exchange, self._check_engine)
        from twisted.internet import reactor  # not before Scrapy has installed it

        cast("Any", reactor).addSystemEventTrigger("before", "shutdown", self._leave_at_once)

    def _leave_at_once(self) -> Deferred[None]:
        """Scrapy is forced to end (a second signal): release what is in hand too, and let nothing delay this."""
        if self._leaving is None:
            self._leases.release_at_work()
        return deferred_from_coro(self._leave())

    def _leave(self) -> asyncio.Task[None]:
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._close())
        return self._leaving

    async def _close(self) -> None:
        self._exchanges.closing = True
        self._timing.close()
        if not self._exchanges.has_started:  # refused at the start
            await self._opened.aclose()
            return
        try:
            async with asyncio.timeout(_GRACE_PERIOD):
                await self._leave_in_order()
        except (TimeoutError, FrontierError) as error:
            held = len(self._leases) + len(self._outbox.acks)
            logger.warning(
                "Left without the frontier's answer (%s); %d leases will expire", error or "timed out", held
            )
            self._exchanges.cancel()
        self.worker.close()
        await self._opened.aclose()

    async def _leave_in_order(self) -> None:
        if self.is_forgotten:
            self._exchanges.crawl_ended()
            self._exchanges.cancel()  # whatever it asks, the answer is that the crawl is gone
        await self._exchanges.finish()
        self.start.release()
        if self.items is not None:
            await self.items.flush()
        await flush_stores(self._crawler)
        self._check_engine()
        self._leases.prefetched.release()
        if lost := self._serializer.lost_at_the_end:
            logger.warning("%d requests could not be serialized, and are lost with this process", lost)
        self.worker.leave()
        await self._exchanges.send_the_rest(self._leases.prefetched.release)
        if self.items is not None:
            await self.items.flush()
            await self._exchanges.send_the_rest(self._leases.prefetched.release)
        if not self.is_forgotten:
            left = await look_back(self.frontier, self._crawler.settings, self.worker)
            self.last_status, self.last_dead = left
        if self._start_urls is not None:
            await self._start_urls.leave()

    # What the exchanges ask of it

    def _beside_exchange(self) -> Coroutine[None, None, None] | None:
        self.worker.read_peers(self.frontier)
        if (urls := self._start_urls) is None or not (self._leases.is_drained and self._asks):
            return None

        async def take() -> None:
            for push, requests in await urls.take(self._spider):
                self.keys.pushed(requests, push)
                for request in requests:
                    self.enqueue_request(request)

        is_busy = bool(self._leases.prefetched.spares)
        return take() if urls.is_due(may_end=not self._leases, is_busy=is_busy) else None

    def _check_engine(self) -> None:
        """See what the engine still has in hand."""
        passed_on = self._stats.get_value(self._kept_stat, 0)
        downloading = engine.downloading(self._crawler)
        if starting := self.start.at_work(engine.items_at_work(self._crawler)):
            downloading = {*downloading, *starting}
        self._leases.check(downloading, engine.in_progress(self._crawler), passed_on)
        self._leases.settle()

    @property
    def _asks(self) -> bool:
        """Whether anything may be asked for now, as far as there is room."""
        return not (
            self._exchanges.closing
            or self.has_verdict
            or self._serializer.puts_back
            or self.sites.wait_for_the_first(self._leases.slots)
            or (self.items is not None and self.items.is_full)
        )

    async def _take_in(self, leases: list[Lease]) -> None:
        self._leases.prefetched.add([lease for lease in leases if not self.start.take(lease)])
        for slot in self._outbox.pauses:
            self._leases.prefetched.release(slot)  # paused while the exchange was under way
        if leases or self.ended:
            engine.wake(self._crawler)
        if self._start_urls is not None:
            await self._start_urls.drop()

    # Requests and entries

    def _push(self, entry: Entry) -> None:
        self._outbox.entries.append(entry)
        if self._leases.is_drained:
            self._timing.wake()

    def _return_or_give_up(self, lease: Lease, worker: str) -> None:
        """Of a request that is in the memory of another worker: it may have it yet, or has died with it."""
        if self.worker.may_live(worker):
            self._serializer.put_back(lease)
        else:
            url = codec.url_of(lease.payload)
            logger.error("Gave up %s, which could not be serialized, and was lost with its worker", url)
            self._leases.prefetched.dead_letter(lease, LOST)
        self._timing.wake()


def frontier_scheduler(crawler: Crawler) -> FrontierScheduler | None:
    """The running scheduler when it keeps leases; None under another one, such as Scrapy's own.

    `isinstance` would say yes to any class with the right methods: `BaseScheduler` has a metaclass for that.
    """
    scheduler = engine.scheduler_of(crawler)
    return scheduler if FrontierScheduler in type(scheduler).__mro__ else None  # type: ignore[return-value]
