"""Records to the crawl's item log, of which `cars.json` is made: flushed when enough have come, or after a second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import orjson
from scrapy.exceptions import DropItem, NotConfigured

from carscraper.catalogue.searches import reads_cars, search_of
from carscraper.config import Config
from carscraper.items import Car, Cars, OddSpec, PageRead, SetAside
from carscraper.output.archive import Archive
from scrapy_durable.exceptions import ConfigurationError, DurableError, cause
from scrapy_durable.identity import crawl_clock, crawl_identity
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.items import Removal

logger = logging.getLogger(__name__)

_FLUSH_BYTES = 8 * 1024**2
"""Bytes of records that are flushed at once, however few they are: 500 records have 8 MB."""
_ROOM_BYTES = 2 * _FLUSH_BYTES
"""Bytes of records that wait for the disk at most, beside those that are being flushed."""
_LOOK = 0.01
"""Seconds between two looks whether a flush is through."""


class ItemLogPipeline:
    """Keeps every `Car`, and in the ledger every `PageRead`, `OddSpec` and `SetAside`, in item logs under
    `CARS_OUTPUT_DIR`; those of a search in a directory of its own below it.

    They are flushed when there are `CARS_BATCH_SIZE` records or 8 MiB, or when the first is `CARS_BATCH_SECONDS` old,
    in a thread, one flush at a time. When the disk is slower than the crawl, `process_item` waits, so at most four
    times as many records, or 16 MiB, are held in memory beside those that are being flushed. When the disk refuses, the
    crawl is stopped with the reason `output_failed`; what was not flushed is not acknowledged, and comes again in the
    next run. (This is a `DurableStore` and a `FlushedStore`.)

    Stat: `item_log/entries`, how many entries of both logs are on disk.

    A record that JSON cannot hold is rejected with its reason. The ledger's items are dropped here, after they were
    kept: they are not cars, and no database or feed shall have them.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self.received = 0
        self.durable = 0
        self._crawler = crawler
        self._config = config
        self._pending = 0
        self._weight = 0
        self._wanted = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._failed = False
        self._opened = asyncio.Event()
        self._is_open = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for another site's spider, `ConfigurationError` when a setting is refused."""
        if not reads_cars(crawler):
            raise NotConfigured
        return cls(crawler, Config.from_settings(crawler.settings))

    async def open_spider(self) -> None:
        """Raises `ConfigurationError` when the output directory cannot be written."""
        try:
            await self._open()
        finally:
            self._opened.set()

    async def _open(self) -> None:
        output_dir = search_of(self._crawler.spider).directory(self._config.output_dir)
        self._config.make_output_dir(output_dir)
        identity = crawl_identity(self._crawler)
        self.archive = Archive(
            output_dir, identity.crawl_id, identity.worker, clock=crawl_clock(self._crawler)
        )
        try:
            await asyncio.to_thread(self.archive.open, resumable=identity.resumable)
        except (OSError, DurableError) as error:
            raise ConfigurationError(f"CARS_OUTPUT_DIR cannot be used: {cause(error)}") from error
        self._is_open = True
        self._room.set()
        self._flusher = asyncio.create_task(self._flush_for_ever())
        self._flusher.add_done_callback(self._note_end)

    async def process_item(self, item: Any) -> Any:
        """Take the item in; it is durable once `durable` has reached the number it got."""
        if not self._room.is_set():
            await self._room.wait()
        match item:
            case Car():
                self._keep_car(item)
            case Cars():
                return Cars([car for car in item.cars if self._is_kept(car)])
            case PageRead() | OddSpec() | SetAside():
                self._take(self.archive.note(item))
                raise DropItem("kept in the ledger", log_level="DEBUG")
        return item

    async def note(self, item: SetAside) -> None:
        """Keep an item in the ledger, durably, whoever found it; at any time, also while the spider is closed."""
        self._take(self.archive.note(item))
        await self._wait_until_durable(self.received)

    async def close_spider(self) -> None:
        """Flush what is left."""
        self._flusher.cancel()
        await asyncio.wait([self._flusher])
        if self._flusher.cancelled() or self._flusher.exception() is None:
            await self._flush()

    # For who reads the log

    async def opened(self) -> Archive:
        """What is kept of the crawl, once it is there. Raises `ConfigurationError` when it cannot be used."""
        await self._opened.wait()
        if not self._is_open:
            raise ConfigurationError("CARS_OUTPUT_DIR cannot be used")
        return self.archive

    def keep_removal(self, removal: Removal) -> int:
        """Log it, once however often this is called; returns the number that it has among the records."""
        received = self.archive.cars.received
        number = self.archive.keep_removal(removal)
        if self.archive.cars.received > received:
            self._take(0)
        return number

    async def flush(self) -> None:
        """Return when everything that has come is on disk, or cannot be."""
        await self._wait_until_durable(self.received)

    async def _wait_until_durable(self, number: int) -> None:
        """Or until the disk has refused."""
        while self.durable < number and not self._failed:
            if self._flusher.done():
                await self._flush()
            else:
                self._full.set()
                await asyncio.sleep(_LOOK)

    # What comes

    def _is_kept(self, car: Car) -> bool:
        """False for one that JSON cannot hold: the others of an answer go on without it."""
        try:
            self._keep_car(car)
        except DropItem as error:
            self._crawler.stats.inc_value("item_dropped_count")
            logger.warning("Set aside: %s", error)
            return False
        return True

    def _keep_car(self, car: Car) -> None:
        """Raises `DropItem` when JSON cannot hold it."""
        try:
            self._take(self.archive.keep(car))
        except orjson.JSONEncodeError as error:
            self._take(self.archive.note(SetAside(car.url, "", f"JSON cannot hold it: {error}", car.id)))
            raise DropItem(f"JSON cannot hold listing {car.id}: {error}") from error

    def _take(self, weight: int) -> None:
        """One more waits to be flushed, of so many bytes."""
        self.received += 1
        self._pending += 1
        self._weight += weight
        self._wanted.set()
        size = self._config.batch_size
        if self._pending >= size or self._weight >= _FLUSH_BYTES:
            self._full.set()
            if (self._pending >= 4 * size or self._weight >= _ROOM_BYTES) and not self._failed:
                self._room.clear()

    async def _flush_for_ever(self) -> None:
        while True:
            await self._wanted.wait()
            with contextlib.suppress(TimeoutError):
                # Not by `wait_for`, which may swallow a cancellation.
                async with asyncio.timeout(self._config.batch_seconds):
                    await self._full.wait()
            await self._flush()
            if self._failed:
                return

    def _note_end(self, flusher: asyncio.Task[None]) -> None:
        """It goes on until the disk refuses, unless there is a bug: then the crawl has to stop."""
        error = None if flusher.cancelled() else flusher.exception()
        if error is not None:
            self._failed = True
            self._room.set()
            logger.debug("It failed here", exc_info=error)
            stop_crawl(self._crawler, "output_failed", f"{self.archive.directory}: {cause(error)}")

    async def _flush(self) -> None:
        """Shielded, because a thread cannot be cancelled: whoever is next has to wait for this one."""
        await asyncio.shield(asyncio.create_task(self._flush_alone()))

    async def _flush_alone(self) -> None:
        async with self._flushing:
            await self._flush_what_has_come()

    async def _flush_what_has_come(self) -> None:
        """On `OSError`, the log keeps it for one more try at the end, and the crawl is stopped."""
        upto, entries = self.received, self._pending
        self._pending = self._weight = 0
        self._wanted.clear()
        self._full.clear()
        try:
            await self.archive.write()
        except OSError as error:
            self._failed = True
            logger.critical("Cannot write to %s: %s", self.archive.directory, cause(error))
            if self._crawler.engine.spider is not None:
                self._stopping = asyncio.create_task(
                    self._crawler.engine.close_spider_async(reason="output_failed")
                )
        else:
            logger.debug("Flushed %d entries to %s", entries, self.archive.own_directory)
            self._crawler.stats.set_value("item_log/entries", self.archive.entries)
            self.durable = upto
        finally:
            self._room.set()


def item_log(crawler: Crawler) -> ItemLogPipeline:
    """That of a crawl. Raises `ConfigurationError` when the project's settings have none."""
    pipeline = crawler.get_item_pipeline(ItemLogPipeline)
    if pipeline is None:
        raise ConfigurationError(
            "ITEM_PIPELINES: ItemLogPipeline is not among them, of which all else is made"
        )
    return pipeline
