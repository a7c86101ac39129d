"""What components that are no pipelines need to know of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from scrapy_durable.engine import item_pipelines

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from carscraper.items import SetAside


@runtime_checkable
class Ledger(Protocol):
    """The store that keeps what the verdict is reached from."""

    async def note(self, item: SetAside) -> None:
        """Keep it, and return when it is durable; at any time, also while the spider is closed."""


def ledger(crawler: Crawler) -> Ledger | None:
    """The ledger, when there is one among the pipelines."""
    return next((pipeline for pipeline in item_pipelines(crawler) if isinstance(pipeline, Ledger)), None)
