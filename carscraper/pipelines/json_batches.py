"""Records to JSON: atomic batches, committed when full or after a second."""

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
from carscraper.output.archive import CARS, LEDGER, Archive
from carscraper.weighed import compact
from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.identity import crawl_clock, crawl_identity
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_BATCH_BYTES = 8 * 1024**2
"""Bytes of records that fill a batch, however few they are: 500 records have 8 MB."""
_ROOM_BYTES = 2 * _BATCH_BYTES
"""Bytes of records that wait for the disk at most, beside those that are being committed."""
_LOOK = 0.01
"""Seconds between two looks whether a commit is through."""


class JsonBatchesPipeline:
    """Keeps every `Car`, and in the ledger every `PageRead`, `OddSpec` and `SetAside`, in batches under
    `CARS_OUTPUT_DIR`; those of a search in a directory of its own below it.

    A batch is committed when it holds `CARS_BATCH_SIZE` records or 8 MiB, or is `CARS_BATCH_SECONDS` old, in a
    thread, one at a time. When the disk is slower than the crawl, `process_item` waits, so at most four batches, or
    16 MiB, are held in memory beside the one that is being written. When the disk refuses, the crawl is stopped with
    the reason `output_failed`; what was not committed is not acknowledged, and comes again in the next run. (This is
    a `DurableStore`.)

    A record that JSON cannot hold is set aside with its reason. The ledger's items are dropped here, after
    they were kept: they are not cars, and no database or feed shall have them.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self.received = 0
        self.durable = 0
        self._crawler = crawler
        self._config = config
        self._lines: dict[str, list[bytes]] = {CARS: [], LEDGER: []}
        self._pending = 0
        self._weight = 0
        self._wanted = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._committing = asyncio.Lock()
        self._failed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for another site's spider, `ConfigurationError` when a setting is refused."""
        if not reads_cars(crawler):
            raise NotConfigured
        return cls(crawler, Config.from_settings(crawler.settings))

    async def open_spider(self) -> None:
        """Raises `ConfigurationError` when the output directory cannot be written."""
        output_dir = search_of(self._crawler.spider).directory(self._config.output_dir)
        self._config.make_output_dir(output_dir)
        identity = crawl_identity(self._crawler)
        self.archive = Archive(
            output_dir, identity.crawl_id, identity.worker, clock=crawl_clock(self._crawler)
        )
        try:
            await asyncio.to_thread(self.archive.open, resumable=identity.resumable)
        except OSError as error:
            raise ConfigurationError(f"CARS_OUTPUT_DIR cannot be used: {cause(error)}") from error
        self._room.set()
        self._committer = asyncio.create_task(self._commit_for_ever())
        self._committer.add_done_callback(self._note_end)

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
                self._keep(LEDGER, item)
                raise DropItem("kept in the ledger", log_level="DEBUG")
        return item

    async def note(self, item: SetAside) -> None:
        """Keep an item in the ledger, durably, whoever found it; at any time, also while the spider is closed."""
        self._keep(LEDGER, item)
        number = self.received
        while self.durable < number and not self._failed:
            if self._committer.done():
                await self._commit()
            else:
                self._full.set()
                await asyncio.sleep(_LOOK)

    async def close_spider(self) -> None:
        """Commit what is left."""
        self._committer.cancel()
        await asyncio.wait([self._committer])
        if self._committer.cancelled() or self._committer.exception() is None:
            await self._commit()

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
            self._keep(CARS, car)
        except orjson.JSONEncodeError as error:
            self._keep(LEDGER, SetAside(car.url, "", f"JSON cannot hold it: {error}", car.id))
            raise DropItem(f"JSON cannot hold listing {car.id}: {error}") from error

    def _keep(self, kind: str, item: Car | PageRead | OddSpec | SetAside) -> None:
        entry = _record(item) if isinstance(item, Car) else {"kind": type(item).__name__, "item": item}
        line = compact(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
        self._lines[kind].append(line)
        self.received += 1
        self._pending += 1
        self._weight += len(line)
        self._wanted.set()
        size = self._config.batch_size
        if self._pending >= size or self._weight >= _BATCH_BYTES:
            self._full.set()
            if (self._pending >= 4 * size or self._weight >= _ROOM_BYTES) and not self._failed:
                self._room.clear()

    async def _commit_for_ever(self) -> None:
        while True:
            await self._wanted.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._config.batch_seconds)
            # Shielded, because a thread cannot be cancelled: the last commit has to wait for this one.
            await asyncio.shield(asyncio.create_task(self._commit()))
            if self._failed:
                return

    def _note_end(self, committer: asyncio.Task[None]) -> None:
        """It goes on until the disk refuses, unless there is a bug: then the crawl has to stop."""
        error = None if committer.cancelled() else committer.exception()
        if error is not None:
            self._failed = True
            self._room.set()
            logger.debug("It failed here", exc_info=error)
            stop_crawl(self._crawler, "output_failed", f"{self.archive.directory}: {cause(error)}")

    async def _commit(self) -> None:
        async with self._committing:
            await self._commit_what_has_come()

    async def _commit_what_has_come(self) -> None:
        """On `OSError`, keep it for one more try at the end, and stop the crawl."""
        upto, lines = self.received, self._lines
        self._lines = {CARS: [], LEDGER: []}
        self._pending = self._weight = 0
        self._wanted.clear()
        self._full.clear()
        try:
            for kind in (CARS, LEDGER):
                if lines[kind]:
                    path = await asyncio.to_thread(self.archive.commit, kind, lines[kind])
                    logger.debug("Committed %d lines to %s", len(lines[kind]), path)
                    lines[kind] = []
        except OSError as error:
            self._failed = True
            for kind, newer in self._lines.items():
                newer[:0] = lines[kind]
            logger.critical("Cannot commit to %s: %s", self.archive.directory, cause(error))
            if self._crawler.engine.spider is not None:
                self._stopping = asyncio.create_task(
                    self._crawler.engine.close_spider_async(reason="output_failed")
                )
        else:
            self.durable = upto
        finally:
            self._room.set()


def _record(car: Car) -> dict[str, Any]:
    """What makes the car's line. The specification is most of it, and is JSON already."""
    return {
        "id": car.id,
        "url": car.url,
        "scraped_at": car.scraped_at,
        "car_attrs": car.car_attrs,
        "car_specs": orjson.Fragment(car.specs_json),
    }
