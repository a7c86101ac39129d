"""What an answer of another shape than the known one means for the crawl: `CARS_SCHEMA_CONTRACT`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy import signals

from carscraper.api.deviations import MOST_PATHS, Deviation, departures
from carscraper.config import Config
from carscraper.items import OddSpec, PageRead, SetAside
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

EVOLVE, FREEZE = "evolve", "freeze"


class SchemaContract:
    """The policy on answers that depart from the known shape, in the words of data contracts, for a crawl and for
    `scrapy reparse`.

    `evolve`: what departs is kept as it came and counted; each path is said once. `freeze`: the first departure, or
    the first listing that is rejected, stops the crawl with the finish reason `schema_changed`.

    Stats: `deviations/count`, `deviations/paths`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._freezes = Config.from_settings(crawler.settings).schema_contract == FREEZE
        self._said: set[str] = set()
        crawler.signals.connect(self._on_item_dropped, signals.item_dropped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `ConfigurationError` when `CARS_SCHEMA_CONTRACT` is refused."""
        return cls(crawler)

    def _on_item_dropped(self, item: Any) -> None:
        self.look_at(item)

    def look_at(self, item: Any) -> None:
        """Called with what the ledger has taken in."""
        if isinstance(item, PageRead | OddSpec):
            self._note(item.deviations)
        elif isinstance(item, SetAside) and not item.store:
            self._breach(f"{item.path}: {item.problem}")

    def _note(self, deviations: Mapping[str, Deviation]) -> None:
        if not deviations:
            return
        stats = self._crawler.stats
        stats.inc_value("deviations/count", sum(deviation["count"] for deviation in deviations.values()))
        new = {path: deviation for path, deviation in deviations.items() if path not in self._said}
        for departure in departures(new):
            if len(self._said) < MOST_PATHS:
                logger.warning("The API departs from its known shape: %s", departure)
            self._breach(departure)
        room = MOST_PATHS - len(self._said)
        self._said.update(list(new)[: max(0, room)])
        stats.set_value("deviations/paths", len(self._said))

    def _breach(self, departure: str) -> None:
        if self._freezes:
            stop_crawl(self._crawler, "schema_changed", f"CARS_SCHEMA_CONTRACT=freeze, and {departure}")
