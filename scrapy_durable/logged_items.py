"""The item log in a crawl: filled as items are scraped, told which leases count, read by those who store items.

    item_scraped ──append──► log ──flush──► acks may go (`logged`) ──frontier accepts──► accepted ──flush──► confirmed
                                                                                           │
                                                                                           └──► consumers (feeds)

[0037](../docs/decisions/0037-every-item-once.md) says why so.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from scrapy import signals

from scrapy_durable import engine
from scrapy_durable.crawl_numbers import LOG_BYTES, LOG_FULL
from scrapy_durable.disk import write_atomically
from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.frontier.build import is_shared, make_jobdir
from scrapy_durable.frontier.log_names import is_log_name
from scrapy_durable.identity import begin_time, new_log_name
from scrapy_durable.item_log import ItemCodec, ItemLog
from scrapy_durable.participants import Participant
from scrapy_durable.stopping import is_stopping, stop_crawl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_durable.feeds.shared_firsts import Claim
    from scrapy_durable.frontier.contract import CrawlState, Frontier, Inbox, Outbox
    from scrapy_durable.item_log import Position
    from scrapy_durable.leases import Leases
    from scrapy_durable.stores import DurableStore
    from scrapy_durable.timing import Timing

logger = logging.getLogger(__name__)

_GATHER = 0.05
"""Seconds that items gather before they are flushed: each flush waits for the disk, and acknowledgements for it."""
_CONSUME = 1.0
"""Seconds that items gather before the consumers are called."""
_SEGMENT_BYTES = 64 << 20
"""Bytes of a file of the log at most; a quarter of what the log may take up, since the last one is never deleted."""
_POLL = 0.05
"""Seconds between two looks whether the frontier has heard what is confirmed."""


@runtime_checkable
class ItemConsumer(Protocol):
    """An extension that stores the items of the log, each once."""

    @property
    def position(self) -> Position:
        """What is before is not needed any more."""

    async def begin(
        self, log: ItemLog, state_dir: Path, begun_at: float, worker: str, claim: Claim | None = None
    ) -> None:
        """The crawl, which has begun at that time (seconds since the epoch), is joined.

        `worker` is this one's name among those of the crawl. With `claim`, other workers may have items that repeat
        ours. Raises `ConfigurationError`, and what `claim` raises.
        """

    async def consume(self) -> None:
        """Take what is new."""

    async def finish(self, complete: bool) -> bool:
        """The crawl has ended, and the log has all its items: store them. True when they are; idempotent."""

    async def close(self) -> None:
        """The crawl has been stopped, and may go on."""

    def forget(self) -> None:
        """The crawl is forgotten, and with it what is noted of it. Raises `OSError`."""


class LoggedItems(Participant):
    """One worker's items, on their way to its consumers.

    Stats: `items/logged`, `items/unaccounted` (of `start()`, with no request behind them: at least once).
    """

    def __init__(
        self,
        crawler: Crawler,
        directory: Path,
        consumers: Sequence[ItemConsumer],
        outbox: Outbox,
        leases: Leases,
        timing: Timing,
        max_bytes: int,
    ) -> None:
        segment_bytes = min(_SEGMENT_BYTES, max_bytes // 4)
        self.log = ItemLog(directory, ItemCodec(crawler.spidercls), segment_bytes=segment_bytes)
        self.name = ""
        """Of this worker as the frontier and its feeds have it: that of its `JOBDIR`, the same for each crawl there."""
        self._crawler = crawler
        self._directory = directory
        self._consumers = consumers
        self._outbox = outbox
        self._leases = leases
        self._timing = timing
        self._max_bytes = max_bytes
        self._open: set[int] = set()
        """Tokens of leases with items here of which the frontier has not said yet whether they count."""
        self._unconfirmed: set[int] = set()
        """Tokens that the frontier remembers for this log."""
        self._to_write = asyncio.Event()
        self._to_consume = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._consuming = asyncio.Lock()
        self._is_open = False

    @property
    def is_full(self) -> bool:
        """True when nothing more may be asked for until consumers have let go of something."""
        return self.log.size >= self._max_bytes

    @property
    def stores(self) -> Sequence[DurableStore]:
        """What has to be durable before a request is acknowledged."""
        return [self.log]

    @property
    def lost(self) -> int:
        """Items that could not be serialized, and are lost with a process that was killed."""
        return self.log.lost

    @property
    def numbers(self) -> dict[str, int]:
        """For all to see, by the names of `crawl_numbers`."""
        return {LOG_BYTES: self.log.size, LOG_FULL: int(self.is_full)}

    # Opening and closing

    async def open(self, frontier: Frontier, state: CrawlState) -> None:
        """Open the log for this crawl, and settle with the frontier what a killed process has left.

        Raises `ConfigurationError`, `ItemLogDamaged` and what the frontier raises.
        """
        is_new = not any(self._directory.glob("*.segment"))
        try:
            undecided = await asyncio.to_thread(self.log.open, state.crawl_id)
            self._is_open = True
            self.name = _read_or_make_name(self._directory.with_name("worker"))
            accepted = await frontier.join_log(self.name)
            self._unconfirmed.update(accepted)
            self.log.accept(accepted)
            self.log.discard(set(undecided).difference(accepted))
            await self.log.write()
            begun_at = datetime.fromisoformat(begin_time(state.crawl_id)).timestamp()
            claim = frontier.claim_items if is_shared(self._crawler.settings) else None
            for consumer in self._consumers:
                await consumer.begin(self.log, self._directory, begun_at, self.name, claim)
        except OSError as error:
            raise ConfigurationError(f"JOBDIR: {self._directory} cannot be used: {cause(error)}") from error
        if is_new and state.resumed and not is_shared(self._crawler.settings):
            await self._say_what_is_not_here(frontier)
        self._outbox.confirmed.extend(self.log.confirmed())
        self._crawler.signals.connect(self._on_item_scraped, signals.item_scraped)
        for work, reason in (
            (self._write_for_ever, "item_log_failed"),
            (self._consume_for_ever, "feed_failed"),
        ):
            task = asyncio.create_task(work())
            task.add_done_callback(partial(self._on_task_ended, reason))
            self._tasks.append(task)

    async def _say_what_is_not_here(self, frontier: Frontier) -> None:
        done = (await frontier.status()).total.done
        if done:
            logger.warning(
                "This crawl was begun without feeds: what its first %d requests have yielded is in none of them",
                done,
            )

    async def close(self) -> None:
        """The crawl is stopped, or has ended: keep what is here for the next run."""
        if not self._is_open:
            return
        await self._stop_tasks()
        await self.flush()
        for consumer in self._consumers:
            try:
                await consumer.close()
            except Exception as error:  # noqa: BLE001 (it is left as after a kill)
                logger.error("A feed cannot be closed, and is mended by the next run: %s", cause(error))
        self.log.close()
        self._is_open = False

    async def flush(self) -> None:
        """Write what has come, so that it counts; what cannot be written is made again by the next run."""
        if not self._is_open:
            return
        try:
            await self.log.write()
        except OSError as error:
            logger.error("The item log cannot be written: %s", cause(error))
        self._outbox.confirmed.extend(self.log.confirmed())

    # The end of the crawl

    async def settle(self) -> None:
        """Return when the frontier has heard that all it has accepted is here."""
        while self._unconfirmed and not is_stopping(self._crawler):
            self._to_write.set()
            self._timing.wake()
            await asyncio.sleep(_POLL)

    async def finish(self, *, complete: bool) -> bool:
        """Have all items stored. True when they are."""
        async with self._consuming:
            return all([await consumer.finish(complete) for consumer in self._consumers])

    async def remove(self) -> None:
        """The crawl is forgotten, and so are its items here."""
        await self._stop_tasks()
        await self.flush()  # behind a write that is still under way
        self._is_open = False
        try:
            for consumer in self._consumers:
                consumer.forget()
            self.log.remove()
        except OSError as error:
            logger.warning("What is left of the item log is removed by the next crawl: %s", cause(error))

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # As a participant

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """Which leases count, and which never will."""
        stale = {held.token for held in inbox.stale}
        accepted = [held.token for held in outbox.logged if held.token not in stale]
        ended = stale.union(
            (retry.held.token for retry in outbox.retries),
            (given_up.held.token for given_up in outbox.dead_lettered),
            (held.token for held in outbox.releases),
        )
        if discarded := ended.intersection(self._open):
            self.log.discard(discarded)
            self._open -= discarded
        if accepted:
            self.log.accept(accepted)
            self._open.difference_update(accepted)
            self._unconfirmed.update(accepted)
            self._to_write.set()
        self._unconfirmed.difference_update(outbox.confirmed)

    # What goes on meanwhile

    def _on_item_scraped(self, item: Any, response: Response | None) -> None:
        """Under the lease of the request whose callback has yielded it."""
        request: Request | None = getattr(response, "request", None)
        task = self._leases.get(request) if request is not None else None
        if task is None:
            self.log.append(0, item)
            self._crawler.stats.inc_value("items/unaccounted")
        else:
            task.is_logged = True
            self._open.add(task.lease.token)
            self.log.append(task.lease.token, item)
        self._crawler.stats.inc_value("items/logged")
        self._to_write.set()

    async def _write_for_ever(self) -> None:
        while True:
            await self._to_write.wait()
            await asyncio.sleep(_GATHER)
            self._to_write.clear()
            await self.log.write()
            self._outbox.confirmed.extend(self.log.confirmed())
            self._timing.wake()
            self._to_consume.set()

    async def _consume_for_ever(self) -> None:
        while True:
            await self._to_consume.wait()
            await asyncio.sleep(_CONSUME)
            self._to_consume.clear()
            async with self._consuming:
                for consumer in self._consumers:
                    await consumer.consume()
            self.log.let_go(min(consumer.position for consumer in self._consumers))
            if not self.is_full:
                continue
            await self.log.write()  # which deletes what nobody needs
            if not self.is_full:
                self._timing.wake_now()  # nothing was asked for meanwhile
            else:
                stop_crawl(
                    self._crawler,
                    "item_log_full",
                    f"{self._directory} has {self.log.size} bytes of items that no feed has stored yet; see "
                    "DURABLE_ITEM_LOG_MAX_BYTES",
                )

    def _on_task_ended(self, reason: str, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.debug("It failed here", exc_info=error)
            stop_crawl(self._crawler, reason, f"{self._directory}: {cause(error)}")


def _read_or_make_name(path: Path) -> str:
    """What the file says, written when it says nothing."""
    try:
        name = path.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        name = ""
    if not is_log_name(name):
        name = new_log_name()
        write_atomically(path, [f"{name}\n".encode()])
    return name


def build_logged_items(
    crawler: Crawler, outbox: Outbox, leases: Leases, timing: Timing, *, max_bytes: int
) -> LoggedItems | None:
    """None without `JOBDIR`, and where nobody reads what would be kept."""
    consumers = [one for one in engine.extensions(crawler) if isinstance(one, ItemConsumer)]
    if not consumers:
        return None
    jobdir = make_jobdir(crawler.settings)
    if jobdir is None:
        if is_shared(crawler.settings):
            logger.info("Feeds are written as Scrapy does it: set JOBDIR, so that a kill costs them nothing")
        return None
    return LoggedItems(crawler, jobdir / "items", consumers, outbox, leases, timing, max_bytes)
