"""The history of runs, with what is about cars."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import filterfalse, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
_HOLD_NOTHING = (type(None), str, list)
"""Types whose false value is none; 0 and false are values."""


def cars_runs_file(settings: BaseSettings) -> Path:
    """`DURABLE_RUNS_FILE`, else in the output directory: a `JOBDIR` is often a new one."""
    if settings["DURABLE_RUNS_FILE"] and (named := runs_file(settings)):
        return named
    return Config.from_settings(settings).output_dir / RUNS_JSONL


class _Shape(NamedTuple):
    """What cars have in common that hold something in the same fields."""

    names: tuple[str, ...]
    has_specs: bool
    truths: bytes = b""
    """One byte for each value; none where all are true."""
    falsities: tuple[type, ...] = ()
    """Types of the values that are false."""


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

    def shape_of(self, item: Any) -> Hashable:
        """Of a car, the names of its attributes, whether it has a specification, and which values are false: to be told
        in a third of the time that it takes to look at each.
        """
        if not isinstance(item, Car):
            return super().shape_of(item)
        attributes = item.car_attrs
        values = attributes.values()
        has_specs = item.specs_json not in _EMPTY
        if all(values):
            return _Shape(tuple(attributes), has_specs)
        falsities = tuple(map(type, filterfalse(None, values)))
        return _Shape(tuple(attributes), has_specs, bytes(map(bool, values)), falsities)

    def filled_in(self, shape: Any) -> Iterable[str]:
        """Of a car, its attributes, and whether it has a specification."""
        if not isinstance(shape, _Shape):
            yield from super().filled_in(shape)
            return
        kinds = iter(shape.falsities)
        for name, holds in zip_longest(shape.names, shape.truths, fillvalue=1):
            if holds or next(kinds) not in _HOLD_NOTHING:
                yield str(name)
        if shape.has_specs:
            yield "car_specs"

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
