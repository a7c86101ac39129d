"""Records to the databases whose addresses are set, each at its own pace."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import orjson
from scrapy.exceptions import DropItem, NotConfigured

from carscraper.catalogue.ids import PackedIds
from carscraper.catalogue.searches import reads_cars
from carscraper.config import Config
from carscraper.exceptions import StoreError
from carscraper.items import Car, Cars, Removal, SetAside
from carscraper.pipelines.item_log import item_log
from carscraper.stores.build import SETTINGS, build_database
from carscraper.stores.delivery import Bounds, Delivery
from carscraper.stores.record import Draft, Records
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.stopping import is_stopping, stop_crawl

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.stores.contract import Database, Refused

logger = logging.getLogger(__name__)

_LOOK = 0.5
"""Seconds between two looks whether the crawl is stopping, while the database and the disk have no room."""


class _DatabasePipeline:
    """Hands every `Car` to one database, over a `Delivery`. (This is a `DurableStore` and a `RemoteStore`.)

    Stats, `<key>` being `mongo` or `postgres`: `store/<key>/written`, `store/<key>/left_to_log`,
    `store/<key>/set_aside`, `store/<key>/undelivered`, all set when the crawl ends.
    """

    key: ClassVar[str]

    def __init__(self, crawler: Crawler, database: Database) -> None:
        self._crawler = crawler
        self._config = Config.from_settings(crawler.settings)
        self._database = database
        self._drafts = _shared_drafts(crawler)
        self._delivery: Delivery | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Off when the database's address is not set. Raises `ConfigurationError` when it is refused."""
        database = build_database(crawler.settings, cls.key) if reads_cars(crawler) else None
        if database is None:
            raise NotConfigured
        return cls(crawler, database)

    @property
    def name(self) -> str:
        """The database's name, for people."""
        return self._database.name

    @property
    def received(self) -> int:
        """Number of the record that came last."""
        return self._delivery.received if self._delivery else 0

    @property
    def durable(self) -> int:
        """Every record up to this number is in the database, or on this machine's disk on its way there."""
        return self._delivery.durable if self._delivery else 0

    @property
    def undelivered(self) -> int:
        """How many records have not reached the database yet."""
        return self._delivery.undelivered if self._delivery else 0

    @property
    def is_down(self) -> bool:
        """True while the database does not answer."""
        return self._delivery is not None and self._delivery.writer.is_down

    @property
    def waiting(self) -> dict[str, int]:
        """How many wait on disk, by the worker that has written them."""
        return self._delivery.waiting if self._delivery else {}

    @property
    def place(self) -> int:
        """Tells the directory in which they wait from those on other disks."""
        return self._delivery.backlogs.place if self._delivery else 0

    def has_backlog_of(self, worker: str) -> bool:
        """Whether something that this worker has written waits there."""
        return self._open.backlogs.has_any_of(worker)

    async def open_spider(self) -> None:
        """Raises `ConfigurationError` when the database says no, or what waits for it cannot be read."""
        config = self._config
        self._log = item_log(self._crawler)
        archive = await self._log.opened()
        delivery = Delivery(
            self._database,
            config.output_dir,
            archive,
            Bounds(config.batch_size, config.batch_seconds, config.backlog_max_bytes, config.store_timeout),
            records=self._drafts.records,
            on_set_aside=self._set_aside,
            on_refused=self._stop,
        )
        try:
            await delivery.open()
        except StoreError as error:
            raise ConfigurationError(f"{SETTINGS[self.key]}: {error}") from error
        except OSError as error:
            raise ConfigurationError(
                f"CARS_OUTPUT_DIR: {config.output_dir} cannot be written: {error.strerror or error}"
            ) from error
        self._delivery = delivery

    async def process_item(self, item: Any) -> Any:
        """Take cars in, when there is room; everything else passes."""
        if isinstance(item, Car | Cars):
            delivery = self._open
            for draft in self._drafts.of(item):
                while not delivery.has_room and not is_stopping(self._crawler):
                    await delivery.wait_for_room(_LOOK)
                delivery.take(draft, draft.log_number)
        return item

    async def close_spider(self) -> None:
        """Deliver what is left, or leave it to the log."""
        if self._delivery is None:
            return
        await self._log.flush()
        await self._delivery.close()
        stats = self._crawler.stats
        stats.set_value(f"store/{self.key}/written", self._delivery.writer.written)
        stats.set_value(f"store/{self.key}/left_to_log", self._delivery.left_to_log)
        stats.set_value(f"store/{self.key}/undelivered", self._delivery.undelivered)

    async def wait_until_delivered(self) -> None:
        """Return when every record has reached the database, or it has stood still for `CARS_STORE_TIMEOUT`."""
        try:
            await self._open.take_over()
        except OSError as error:
            logger.warning("What others have left for %s cannot be looked through: %s", self.name, error)
        await self._open.wait_until_delivered()

    def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> None:
        """Have the listings marked that a complete crawl has not seen, behind all records taken before."""
        packed = seen if isinstance(seen, PackedIds) else PackedIds(seen)
        removal = Removal(packed.texts, begun_at, removed_at)
        self._open.take(removal, self._log.keep_removal(removal))

    @property
    def _open(self) -> Delivery:
        if self._delivery is None:
            raise RuntimeError(f"{type(self).__name__} is not open")
        return self._delivery

    async def _set_aside(self, refused: Refused) -> None:
        """Durable before the record counts as delivered, so that none is missing without its reason."""
        logger.error("%s cannot hold listing %s: %s", self._database.name, refused.id, refused.problem)
        self._crawler.stats.inc_value(f"store/{self.key}/set_aside")
        await self._log.note(SetAside(refused.url, "", refused.problem, refused.id, self._database.name))

    def _stop(self, error: StoreError) -> None:
        stop_crawl(self._crawler, "store_refused", f"{SETTINGS[self.key]}: {error}")


class MongoPipeline(_DatabasePipeline):
    """Keeps every `Car` in the MongoDB at `MONGO_URI`."""

    key = "mongo"


class PostgresPipeline(_DatabasePipeline):
    """Keeps every `Car` in the PostgreSQL at `POSTGRES_DSN`."""

    key = "postgres"


class _LastDrafts:
    """Makes one draft of each car for all databases: an item goes through the pipelines one after the other."""

    def __init__(self) -> None:
        self.records = Records()
        self._last: tuple[Car | Cars, list[Draft]] | None = None

    def of(self, item: Car | Cars) -> list[Draft]:
        """Raises `DropItem` for a car that JSON cannot hold: never, when it is as it was read from JSON."""
        if self._last is None or self._last[0] is not item:
            cars = item.cars if isinstance(item, Cars) else [item]
            self._last = item, [self._draft(car) for car in cars]
        return self._last[1]

    def _draft(self, car: Car) -> Draft:
        try:
            return Draft(car, self.records)
        except orjson.JSONEncodeError as error:
            raise DropItem(f"JSON cannot hold listing {car.id}: {error}") from error


_drafts: WeakKeyDictionary[Crawler, _LastDrafts] = WeakKeyDictionary()


def _shared_drafts(crawler: Crawler) -> _LastDrafts:
    return _drafts.setdefault(crawler, _LastDrafts())
