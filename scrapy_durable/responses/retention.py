"""How long what was fetched is kept: what is too old or too much is removed, and what is left is shown."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_durable.config import Config
from scrapy_durable.exceptions import DurableError
from scrapy_durable.identity import crawl_clock
from scrapy_durable.responses.build import build_response_store

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

    from scrapy_durable.responses.contract import ResponseStore

logger = logging.getLogger(__name__)


class Retention:
    """Prunes the response store beside the beginning of a crawl, and beside its end when it comes to that.

    What is kept for a crawl goes `DURABLE_RESPONSES_KEEP` after the crawl's last answer, shared answers when no crawl
    that is kept can need them any more; and whatever does not fit into `DURABLE_RESPONSES_MAX_BYTES`. In between, a
    crawl may take up more: what it fetches itself. Off without `DURABLE_RESPONSES_DIR`.

    Stats, set at the end: `responses/bytes`, `responses/removed`.
    """

    def __init__(self, crawler: Crawler, store: ResponseStore) -> None:
        self._crawler = crawler
        self._config = Config.from_settings(crawler.settings)
        self._store = store
        self._beginning: asyncio.Task[bool] | None = None
        self._ending: asyncio.Task[int | None] | None = None
        """The last pruning beside an end; the crawl may have gone on after that."""
        self._put = 0
        """Answers that this worker had put by then."""
        self._removed = 0
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._idle, signals.spider_idle)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when nothing is to be stored, `ConfigurationError` when a setting is refused."""
        store = build_response_store(
            crawler.settings, spider=crawler.spidercls.name, clock=crawl_clock(crawler)
        )
        if store is None:
            raise NotConfigured
        return cls(crawler, store)

    def _opened(self) -> None:
        self._beginning = asyncio.create_task(self._begin())

    async def _begin(self) -> bool:
        """Open the store and prune it; False when it cannot be used, which its middleware says."""
        try:
            await self._store.open()
        except DurableError:
            return False
        await self._prune()
        return True

    def _idle(self) -> None:
        """Nothing is left to do: prune while the crawl is being finished. Again, if more has come after that."""
        put = sum(self._crawler.stats.get_value(f"responses/{name}", 0) for name in ("stored", "kept"))
        if self._beginning is not None and (self._ending is None or put != self._put):
            self._put = put
            self._ending = asyncio.create_task(self._end(self._beginning, self._ending))

    async def _end(
        self, beginning: asyncio.Task[bool], earlier: asyncio.Task[int | None] | None
    ) -> int | None:
        """Prune once these are done; returns the bytes that are left, None when the store cannot be used."""
        if not await beginning:
            return None
        if earlier is not None:
            await earlier
        return await self._prune()

    async def _closed(self, reason: str) -> None:
        """One that is stopped ends at once: the store may be what does not answer. The next run prunes it."""
        tasks = [task for task in (self._beginning, self._ending) if task is not None]
        if tasks and reason != "finished":
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._store.close()
            return
        self._idle()
        if self._ending is None or (size := await self._ending) is None:
            return
        await self._store.close()
        self._crawler.stats.set_value("responses/bytes", size)
        self._crawler.stats.set_value("responses/removed", self._removed)
        logger.info(
            "The response store takes %s of %s at most; %d answers were removed from it",
            megabytes(size),
            megabytes(self._config.responses_max_bytes),
            self._removed,
        )

    async def _prune(self) -> int:
        """Returns the bytes that are left."""
        config = self._config
        pruned = await self._store.prune(
            config.responses_max_bytes, config.responses_keep_shared, config.responses_keep
        )
        self._removed += pruned.removed
        return pruned.bytes


def megabytes(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 1e6:,.1f} MB"
