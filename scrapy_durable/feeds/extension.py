"""Scrapy's feeds, made of the item log where there is one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_durable.engine.feeds import FeedParts
from scrapy_durable.exceptions import FrontierLost, FrontierUnavailable
from scrapy_durable.feeds.consumer import Consumer
from scrapy_durable.feeds.firsts import DistinctLog, Firsts
from scrapy_durable.feeds.notes import known_as, load
from scrapy_durable.feeds.planning import plan_feeds
from scrapy_durable.feeds.reading import BEGINNING, Log, Position
from scrapy_durable.feeds.shared_firsts import Claim, SharedFirsts
from scrapy_durable.identity import new_worker_name

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from scrapy_durable.feeds.plan import Whereabouts

logger = logging.getLogger(__name__)


class DurableFeeds(FeedParts):
    """In the place of `scrapy.extensions.feedexport.FeedExporter`: with an item log, each feed has each item once.

    Without one, it does as Scrapy's. With one (`begin`), items come from the log and not from `item_scraped`, but for
    the feeds that can only be done as Scrapy does them; which those are is said at the start.

    What goes wrong with a feed concerns that feed alone: it is said by name, tried again, and never loses an item of
    another. Signals and stats are Scrapy's, and `feeds/not_exported` counts items that a feed could not write.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.worker = new_worker_name()
        self._consumer: Consumer | None = None
        self._firsts: Firsts | None = None
        self._shared: SharedFirsts | None = None
        self._seen: set[str] = set()
        """Keys of items that feeds have which are written as Scrapy does it."""

    # What a project may say in a class of its own that derives from this one

    def item_key(self, item: Any) -> str | None:
        """What items have in common that repeat each other: with an item log, feeds have the first of them that counts,
        whatever is killed. None for an item that repeats no other, as all are by default. It is asked of each item that
        was scraped, again and again, and must answer the same.
        """
        return None

    # What others may ask

    @property
    def reads_log(self) -> bool:
        """Whether there is an item log, which feeds are made of."""
        return self._consumer is not None

    def whereabouts(self) -> list[Whereabouts]:
        """Where each feed of the item log is, or what there is of it."""
        return [feed.whereabouts for feed in self._consumer.feeds] if self._consumer is not None else []

    # What the core calls

    async def begin(
        self, log: Log, state_dir: Path, begun_at: float, worker: str, claim: Claim | None = None
    ) -> None:
        """Go on with the crawl that began at that time (seconds since the epoch), before the spider is opened.

        `worker` is what `%(worker)s` stands for. `claim` is there where other workers may have items that repeat ours.

        Raises `ConfigurationError` for a feed that is refused, and `OSError` when the notes cannot be read or written.
        """
        self.worker = worker
        notes = load(state_dir, log.name, begun_at)
        plans = plan_feeds(self, notes)
        if type(self).item_key is not DurableFeeds.item_key:
            self._firsts = Firsts(state_dir, log.name, must_exist=notes.has_begun)
            notes.before = self._firsts.save
            if claim is not None:
                self._shared = SharedFirsts(log, self._firsts, self.item_key, claim, notes.released)
            log = DistinctLog(log, self._firsts, self.item_key, self._decided)
        consumer = Consumer(log, notes, plans)
        try:
            if self._shared is not None:
                await self._shared.decide()
            consumer.open()
        except BaseException:
            self._close_firsts()
            raise
        self._consumer = consumer
        for plan in consumer.plans:
            del self.feeds[plan.template]
        for template in self.feeds:
            logger.warning(
                "%s is written as Scrapy does it: after a kill it may lack items, or have some twice",
                known_as(template),
            )

    @property
    def position(self) -> Position:
        """What is before is in every feed, and that is noted: the log may delete it. It never goes back."""
        return self._consumer.position if self._consumer is not None else BEGINNING

    async def consume(self) -> None:
        """Take what is new in the log; called now and then. Raises what the log raises."""
        if self._consumer is not None:
            await self._decide()
            await self._consumer.consume()

    async def finish(self, complete: bool) -> bool:
        """The crawl has ended, and all that was accepted is in the log: store every feed. Idempotent.

        True when every feed is stored, or as far as that goes for a crawl that is not `complete`: what it has stands in
        local files then, beside the names of those that would be replaced. False when another run of the same command
        can bring more: a storage has failed, or was not used since the crawl is not complete, or an item could not be
        written.
        """
        return self._consumer is None or (await self._decide() and await self._consumer.finish(complete))

    async def close(self) -> None:
        """The run ends before the crawl does: note how far the feeds are, and let go of their files."""
        if self._consumer is not None:
            try:
                await self._decide()
                await self._consumer.close()
            finally:
                self._close_firsts()

    def forget(self) -> None:
        """The crawl is forgotten, and with it how far the feeds are. Raises `OSError`."""
        if self._consumer is not None:
            self._consumer.forget()
        self._shared = None
        if self._firsts is not None:
            self._firsts.remove()  # after the notes, which rest on it

    # What Scrapy calls

    def item_scraped(self, item: Any, spider: Spider) -> None:
        """For feeds that are written as Scrapy does it."""
        if self.reads_log:
            if not self.slots:
                return
            key = self.item_key(item)
            if key in self._seen:
                return
            if key is not None:
                self._seen.add(key)
        super().item_scraped(item, spider)

    async def close_spider(self, spider: Spider) -> None:
        """Close what is Scrapy's, and say that it is closed."""
        await self.close()
        await super().close_spider(spider)

    async def _decide(self) -> bool:
        """Know which new items are the first of their keys; False when that cannot be asked just now."""
        if self._shared is not None:
            try:
                await self._shared.decide()
            except (FrontierUnavailable, FrontierLost) as error:
                logger.debug("Feeds wait for the frontier to say which items are theirs: %s", error)
                return False
        return True

    def _decided(self) -> Position | None:
        return self._shared.upto if self._shared is not None else None

    def _close_firsts(self) -> None:
        self._shared = None
        if self._firsts is not None:
            self._firsts.close()
