"""What the rest of the project needs to know of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from scrapy_durable.engine import downloader_middlewares, extensions, item_pipelines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scrapy.crawler import Crawler


@runtime_checkable
class DurableStore(Protocol):
    """An item pipeline, an extension or a downloader middleware that keeps what requests have brought.

    It numbers what it receives: 1, 2, 3, …. A request whose items were among the first `received`
    of every store is acknowledged once every store's `durable` has reached that number. It has to get there by itself,
    without another item: the crawl may wait for nothing else. A request that is done again brings its items again.
    """

    received: int
    """Number of the item that came last; 0 before the first."""
    durable: int
    """Every item up to this number will still be there after a kill; grows, never above `received`."""


@runtime_checkable
class FlushedStore(Protocol):
    """A durable store that can be asked to be durable now: the crawl is stopped, and nothing comes any more."""

    async def flush(self) -> None:
        """Return when it is, or cannot be."""


@runtime_checkable
class RemoteStore(Protocol):
    """A durable store whose records may still wait on this machine's disk for the database they are meant for."""

    name: str
    """For people: `MongoDB`."""
    undelivered: int
    """How many wait; also known after the spider was closed."""

    is_down: bool
    """True while the database does not answer."""

    waiting: Mapping[str, int]
    """How many of them are on disk, so that they count as durable, by the worker that has written them there: this
    one, or one that has left and whose records this one has taken over. Also known after the spider was closed.
    """

    place: int
    """Tells the directory in which they wait from those on other disks; 0 before it is opened."""

    def has_backlog_of(self, worker: str) -> bool:
        """Whether something that this worker has written is there."""

    async def wait_until_delivered(self) -> None:
        """Return when none waits, or the database has stood still for too long; what workers have left that ended
        meanwhile is taken over before.
        """

    def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> None:
        """Have the listings marked that a complete crawl, begun at that time, has not seen.

        Times as in `Car.scraped_at`.
        """


def durable_stores(crawler: Crawler) -> list[DurableStore]:
    """The stores among the item pipelines, extensions and downloader middlewares of a running crawl."""
    components = *item_pipelines(crawler), *extensions(crawler), *downloader_middlewares(crawler)
    return [store for store in components if isinstance(store, DurableStore)]


async def flush_stores(crawler: Crawler) -> None:
    """Have those flushed that can be, before what they hold is acknowledged for the last time."""
    for store in durable_stores(crawler):
        if isinstance(store, FlushedStore):
            await store.flush()


def remote_stores(crawler: Crawler) -> list[RemoteStore]:
    """The databases among them."""
    return [store for store in item_pipelines(crawler) if isinstance(store, RemoteStore)]
