"""The history of runs, with what is about cars."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carscraper.config import Config
from carscraper.export.feeds import Feeds
from carscraper.items import Car, Cars
from carscraper.monitoring.verdict import Verdict
from scrapy_durable.running import lifecycle_of
from scrapy_durable.runs.extension import RUNS_JSONL, RunHistory, runs_file

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_EMPTY = (b"[]", b"null")


def cars_runs_file(settings: BaseSettings) -> Path:
    """`DURABLE_RUNS_FILE`, else in the output directory: a `JOBDIR` is often a new one."""
    if settings["DURABLE_RUNS_FILE"] and (named := runs_file(settings)):
        return named
    return Config.from_settings(settings).output_dir / RUNS_JSONL


class CarsHistory(RunHistory):
    """All spiders of this project leave their lines in one file."""

    takes_cars = True

    @classmethod
    def file(cls, crawler: Crawler) -> Path | None:
        """As `scrapy runs` reads it."""
        return cars_runs_file(crawler.settings)

    def items_of(self, item: Any) -> Iterable[Any]:
        """The cars that came together."""
        return item.cars if isinstance(item, Cars) else (item,)

    def fields_of(self, item: Any) -> Iterable[str]:
        """Of a car, its attributes, and whether it has a specification."""
        if not isinstance(item, Car):
            return super().fields_of(item)
        found = [
            name for name, value in item.car_attrs.items() if value is not None and value not in ("", [])
        ]
        return found if item.specs_json in _EMPTY else [*found, "car_specs"]

    def details(self) -> dict[str, Any]:
        """Of the whole crawl, where this run has a verdict."""
        lifecycle = lifecycle_of(self._crawler)
        verdict = lifecycle.verdict if lifecycle else None
        if not isinstance(verdict, Verdict):
            return {}
        return {
            "kept": verdict.kept,
            "expected": verdict.expected,
            "missing": len(verdict.missing),
            "dead_letters": len(verdict.given_up),
        }

    def status(self) -> int:
        """Also 1 when a feed failed."""
        feeds = self._crawler.get_extension(Feeds)
        return super().status() or int(feeds is not None and feeds.failed)
