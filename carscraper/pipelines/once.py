"""One record per car for what cannot replace a record: feeds, and the count of cars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import DropItem, NotConfigured

from carscraper.catalogue.searches import reads_cars
from carscraper.items import Car

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler


class OncePipeline:
    """Drops a `Car` whose listing this process has passed on before.

    The API repeats featured listings on many pages, and a further pass brings all of them again. Stores that
    are keyed by listing id take the newer record, so they stand before this pipeline; a feed is written from
    top to bottom, and holds the first.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for another site's spider."""
        if not reads_cars(crawler):
            raise NotConfigured
        return cls()

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def process_item(self, item: Any) -> Any:
        """Pass on what is no car, and each car's first record."""
        if isinstance(item, Car):
            if item.id in self._seen:
                raise DropItem("passed on before", log_level="DEBUG")
            self._seen.add(item.id)
        return item
