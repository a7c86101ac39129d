"""The feeds of one run, fed from the item log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path

from scrapy_durable.exceptions import ConfigurationError, DurableError, cause
from scrapy_durable.feeds.at_the_end import FeedAtTheEnd
from scrapy_durable.feeds.batches import BatchFeed
from scrapy_durable.feeds.files import InUse
from scrapy_durable.feeds.growing import GrowingFeed
from scrapy_durable.feeds.kinds import Kind, has_whole_lines
from scrapy_durable.feeds.notes import Notes
from scrapy_durable.feeds.plan import Feed, Plan
from scrapy_durable.feeds.reading import Log, Position, Reader

logger = logging.getLogger(__name__)


class Consumer:
    """Gives the feeds what the log has, notes how far they are, and has them stored.

    Whatever one of them raises is said in its name, and it is tried again; what the log raises ends the crawl.
    """

    def __init__(self, log: Log, notes: Notes, plans: Sequence[tuple[Kind, Plan]]) -> None:
        self._reader = Reader(log)
        self._notes = notes
        self.plans = [plan for _, plan in plans]
        self.feeds = [self._feed(kind, plan) for kind, plan in plans]
        self._growing = [feed for feed in self.feeds if isinstance(feed, GrowingFeed)]
        self._batches = [feed for feed in self.feeds if isinstance(feed, BatchFeed)]
        self._end = notes.released
        """How far the log was read, where no feed needs it."""
        self._cannot_save = ""
        self._is_finished = False
        self._is_closed = False

    @property
    def position(self) -> Position:
        """What is before is in every feed, and that is noted."""
        return self._notes.released

    def open(self) -> None:
        """Take hold of all files. Raises `ConfigurationError`, and `OSError` when the notes cannot be written."""
        try:
            for feed in self.feeds:
                with _refused(feed.plan):
                    feed.open()
                self._notes.use(feed.plan.template, feed.note)
            self._save()
        except BaseException:
            for feed in self.feeds:
                feed.withdraw()
            raise

    async def consume(self) -> None:
        """Give the feeds what is new. Raises what the log raises."""
        for feed in self.feeds:
            feed.has_failed = False
        while await self._gather() and self._try_to_save():
            for feed in self._growing:
                await self._guarded(feed, feed.write())
        for batches in self._batches:
            while await self._guarded(batches, batches.step()):
                await asyncio.sleep(0)
        while not self.feeds and (accepted := self._reader.read(self._end)):
            self._end = accepted[-1].position
            await asyncio.sleep(0)
        self._try_to_save()

    async def finish(self, complete: bool) -> bool:
        """Store every feed; see `DurableFeeds.finish`."""
        if not self._is_closed:
            await self.consume()
            stored = [await self._finish(feed, complete) for feed in self.feeds]
            self._is_finished = self._try_to_save() and all(stored)
        return self._is_finished

    async def close(self) -> None:
        """Note how far the feeds are, and let go of their files."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if not self._is_finished:
                await self.consume()
                for feed in self.feeds:
                    if isinstance(feed, FeedAtTheEnd) and not feed.note.stored:
                        logger.info("%s is written once the crawl has ended", feed.plan.name)
        finally:
            for feed in self.feeds:
                feed.close()

    def forget(self) -> None:
        """Remove what is noted. Raises `OSError`."""
        self._is_closed = self._is_finished = True
        for feed in self.feeds:
            feed.close()
        self._notes.path.unlink(missing_ok=True)

    def _feed(self, kind: Kind, plan: Plan) -> Feed:
        if kind is Kind.GROWING:
            return GrowingFeed(plan, Path(plan.note.path))
        if kind is Kind.BATCHES:
            return BatchFeed(plan, self._reader, can_append=has_whole_lines(plan.parts, plan.options))
        return FeedAtTheEnd(plan, self._reader)

    async def _gather(self) -> bool:
        """Have the feeds take some items, and note what they are to write; False when there is nothing to write."""
        is_new = True
        while is_new and not any(feed.has_enough for feed in self._growing):
            is_new = False
            for feed in self._growing:
                ready = await self._guarded(feed, feed.make_ready())
                if ready and (accepted := self._reader.read(feed.reads_from)):
                    feed.take(accepted)
                    is_new = True
            await asyncio.sleep(0)
        for feed in self._growing:
            feed.announce()
        return any(feed.has_something for feed in self._growing)

    async def _finish(self, feed: Feed, complete: bool) -> bool:
        if feed.is_at_its_end and self._reader.read(feed.reads_from):
            if feed.note.stored:
                logger.error("%s is stored already, and lacks items that came after that", feed.plan.name)
            return False
        return await self._guarded(feed, feed.finish(complete))

    async def _guarded(self, feed: Feed, step: Awaitable[bool | None]) -> bool:
        """What a step returns; False when it fails, which is the feed's affair alone."""
        try:
            return bool(await step)
        except Exception as error:
            if isinstance(error, DurableError) and not isinstance(error, ConfigurationError):
                raise  # the log cannot be read
            feed.fail(error)
            return False

    def _save(self) -> None:
        self._notes.save(at_most=None if self.feeds else self._end)

    def _try_to_save(self) -> bool:
        try:
            self._save()
        except OSError as error:
            if (reason := cause(error)) != self._cannot_save:
                self._cannot_save = reason
                logger.error("What the feeds have cannot be noted, so they wait: %s", reason)
            return False
        self._cannot_save = ""
        return True


@contextlib.contextmanager
def _refused(plan: Plan) -> Iterator[None]:
    """Whatever keeps a feed from being begun refuses the crawl."""
    try:
        yield
    except ConfigurationError:
        raise
    except InUse as error:
        raise ConfigurationError(
            f"FEEDS: {plan.name} is being written by another process; several workers need %(worker)s in the address"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"FEEDS: {plan.name}: {cause(error)}") from error
