"""The history of runs, with what is about cars."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import filterfalse, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from carscraper.changes.log import CHANGES_JSONL
from carscraper.changes.reading import last_run
from carscraper.config import Config
from carscraper.export.feeds import Feeds
from carscraper.items import Car, Cars
from carscraper.monitoring.completeness import Completeness
from carscraper.monitoring.monitors import FillRates, Removals
from carscraper.monitoring.verdict import Verdict
from scrapy_durable.running import lifecycle_of
from scrapy_durable.runs.extension import RUNS_JSONL, RunHistory, runs_file

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_durable.runs.file import Run
    from scrapy_durable.runs.monitors import Monitor

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
        verdict = self._verdict
        if verdict is None:
            return {}
        return {
            "kept": verdict.kept,
            "expected": verdict.expected,
            "missing": len(verdict.missing),
            "dead_letters": len(verdict.given_up),
        }

    def measured(self, crawl: str) -> dict[str, Any]:
        """Where this run has published a whole catalogue: what has changed since the one before."""
        try:
            last = last_run(Config.from_settings(self._crawler.settings).output_dir / CHANGES_JSONL)
        except OSError:
            return {}  # whoever should have appended to it has warned
        if last.get("run") != crawl:
            return {}
        return {name: last[name] for name in ("removed", "added") if type(last.get(name)) is int}

    def monitors(self) -> list[tuple[str, Monitor]]:
        """Of the spider of cars."""
        if self._verdict is None:
            return []
        config = Config.from_settings(self._crawler.settings)
        return [
            ("fill rates", FillRates(config.min_fill_share, config.leave_out)),
            ("removals", Removals(config.max_removed_share)),
        ]

    async def report(self, findings: list[dict[str, Any]]) -> None:
        """In `run.json`."""
        lifecycle = lifecycle_of(self._crawler)
        if findings and isinstance(lifecycle, Completeness):
            await lifecycle.run_report.write_findings(findings)

    def status(self) -> int:
        """Also 1 when a feed failed."""
        feeds = self._crawler.get_extension(Feeds)
        return super().status() or int(feeds is not None and feeds.failed)

    @property
    def _verdict(self) -> Verdict | None:
        """That of the spider of cars; None for another."""
        lifecycle = lifecycle_of(self._crawler)
        verdict = lifecycle.verdict if lifecycle else None
        return verdict if isinstance(verdict, Verdict) else None


def reads_whole_catalogue(run: Run) -> bool:
    """False for a search, and a crawl with a limit; `_job` is scrapyd's."""
    arguments = run.get("arguments")
    return not isinstance(arguments, dict) or not arguments.keys() - {"_job"}
