"""What the scheduler needs to know of a store before it may acknowledge a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@runtime_checkable
class DurableStore(Protocol):
    """An item pipeline that keeps records.

    It numbers the items that it receives: 1, 2, 3, …. A request whose items were among the first `received`
    of every store is acknowledged once every store's `durable` has reached that number.
    """

    received: int
    """Number of the item that came last; 0 before the first."""
    durable: int
    """Every item up to this number will still be there after a kill; grows, never above `received`."""


def durable_stores(crawler: Crawler) -> list[DurableStore]:
    """The stores among the pipelines of a running crawl."""
    return [store for store in crawler.engine.scraper.itemproc.middlewares if isinstance(store, DurableStore)]
