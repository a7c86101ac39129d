"""One record per car for what cannot replace a record: feeds, and the count of cars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import DropItem, NotConfigured

from carscraper.catalogue.searches import reads_cars
from carscraper.distinct import Distinct
from carscraper.export.feeds import Feeds
from carscraper.items import Car, Cars

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler


class OncePipeline:
    """Drops a `Car` whose listing this process has passed on before, and counts the others.

    The API repeats featured listings on many pages, and a further pass brings all of them again. Stores that
    are keyed by listing id take the newer record, so they stand before this pipeline; a feed is written from
    top to bottom, and holds the first.

    With an item log it drops nothing: the first record may turn out not to count, when its request is made again, and
    feeds choose among those that do (`Feeds.item_key`).

    `Cars`, which go to no feed and no log, count as so many in Scrapy's stats, which take them for one item.

    Stat: `catalogue/kept`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._passed_on = Distinct()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for another site's spider."""
        if not reads_cars(crawler):
            raise NotConfigured
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        """Pass on what is no car, and each car's first record; with an item log, all."""
        match item:
            case Car():
                if self._passed_on.add([item.id]):
                    self._crawler.stats.inc_value("catalogue/kept")
                elif not is_logged(self._crawler):
                    raise DropItem("passed on before", log_level="DEBUG")
            case Cars():
                return self._first_of(item.cars)
        return item

    def _first_of(self, cars: list[Car]) -> Cars:
        """Raises `DropItem` when there are none."""
        stats = self._crawler.stats
        new = self._passed_on.add([car.id for car in cars])
        first = cars if len(new) == len(cars) else _each_once(cars, new)
        repeated = len(cars) - len(first)
        if not first:
            stats.inc_value("item_dropped_count", repeated - 1)
            raise DropItem("passed on before", log_level="DEBUG")
        if repeated:
            stats.inc_value("item_dropped_count", repeated)
        stats.inc_value("item_scraped_count", len(first) - 1)
        stats.inc_value("catalogue/kept", len(first))
        return Cars(first)


def _each_once(cars: list[Car], listings: list[str]) -> list[Car]:
    """The first car of each of the listings."""
    wanted = set(listings)
    first = []
    for car in cars:
        if car.id in wanted:
            wanted.discard(car.id)
            first.append(car)
    return first


def is_logged(crawler: Crawler) -> bool:
    """Whether items go to an item log, of which feeds are made."""
    feeds = crawler.get_extension(Feeds)
    return feeds is not None and feeds.reads_log
