"""`scrapy export`: the cars that are stored, or their prices over time, as a table in a file."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from carscraper.changes.log import CHANGES_JSONL, Changes
from carscraper.changes.prices import price_history
from carscraper.config import Config
from carscraper.export.encoders import CsvEncoder, Encoder, JsonLinesEncoder, ParquetEncoder, encoded
from carscraper.export.tables import PRICES, Column, Row, Rows
from carscraper.output.cars_json import CARS_JSON, read_cars
from carscraper.stores.build import SETTINGS, build_database
from scrapy_durable.disk import write_atomically
from scrapy_durable.exceptions import ConfigurationError, DurableError
from scrapy_durable.plain import plain_table, show

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from carscraper.stores.contract import StoredCar

_FORMATS: dict[str, Callable[[Sequence[Column]], Encoder]] = {
    "csv": CsvEncoder,
    "jsonl": JsonLinesEncoder,
    "parquet": ParquetEncoder,
}
_STDOUT = {"-": "csv", "-:csv": "csv", "-:jsonl": "jsonl"}
_AT_ONCE = 500
"""Cars of a database fetched before they are written: the loop does not run meanwhile."""

_T = TypeVar("_T")


class Command(ScrapyCommand):
    """Writes FILE in one step: what was there stays until all of it is written.

    Exit status 0: done. 1: a database does not answer, the disk is full, a crawl is publishing. 2: refused.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Where to."""
        return "[options] <FILE.csv|FILE.jsonl|FILE.parquet|-|-:jsonl>"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Write the stored cars as a table: CSV, JSON Lines, Parquet"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and these."""
        super().add_options(parser)
        parser.add_argument(
            "--from",
            dest="source",
            choices=("json", *SETTINGS),
            default="json",
            help="cars.json in CARS_OUTPUT_DIR, or a database (default: json)",
        )
        parser.add_argument("--raw", action="store_true", help="add the raw record, as JSON in two columns")
        parser.add_argument(
            "--prices",
            action="store_true",
            help=f"instead of the cars, a row for each price that each has had ({CHANGES_JSONL})",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Write the one file that was named."""
        if len(args) != 1:
            raise UsageError("name one file, as in: scrapy export cars.csv")
        if opts.prices and (opts.raw or opts.source != "json"):
            raise UsageError("--prices is a table of its own: leave --raw and --from out", print_help=False)
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            Config.from_settings(self.settings).keep_private()
            encode = _FORMATS[_STDOUT.get(args[0]) or _format_of(Path(args[0]))]
            if opts.prices:
                self.exitcode = _export(encode(PRICES), _prices(self.settings), args[0], "prices")
            else:
                table = Rows(seen=opts.source != "json", raw=opts.raw)
                cars = _cars(self.settings, opts.source, table)
                self.exitcode = _export(encode(table.columns), cars, args[0], "cars")
        except ConfigurationError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        except DurableError as error:
            self.exitcode = 1
            show(sys.stderr, f"error: {error}")


def _export(encoder: Encoder, table: Iterable[Row], target: str, what: str) -> int:
    """Returns the exit status."""
    rows = _Counted(table)
    pieces = encoded(encoder, rows)
    try:
        if target in _STDOUT:
            sys.stdout.buffer.writelines(plain_table(pieces) if sys.stdout.isatty() else pieces)
            sys.stdout.flush()
        else:
            write_atomically(Path(target), pieces)
            show(sys.stdout, f"{rows.count:,} {what} in {target}")
    except BrokenPipeError:  # whoever reads has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        show(sys.stderr, f"error: {target} cannot be written: {error.strerror or error}")
        return 1
    return 0


def _format_of(path: Path) -> str:
    """What the file's name says; raises `ConfigurationError` when nothing can be written there."""
    encoding = path.suffix.removeprefix(".").lower()
    if encoding not in _FORMATS:
        names = ", ".join(f".{known}" for known in _FORMATS)
        raise ConfigurationError(f"{path}: its name has to end in one of {names}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"{path}: there is no directory {path.parent}")
    if path.is_dir():
        raise ConfigurationError(f"{path} is a directory")
    return encoding


def _cars(settings: BaseSettings, source: str, table: Rows) -> Iterator[Row]:
    if source == "json":
        for car in read_cars(Config.from_settings(settings).output_dir / CARS_JSON):
            yield table.of(car)
    else:
        for stored in _in_step(stored_cars(source, settings)):
            yield table.of(stored.car, seen=(stored.first_seen, stored.last_seen, stored.removed_at))


def _prices(settings: BaseSettings) -> Iterator[Row]:
    directory = Config.from_settings(settings).output_dir
    if directory.is_dir():
        with contextlib.suppress(OSError):  # whoever may only read reads what is there
            Changes(directory).recover()
    yield from price_history(directory / CHANGES_JSONL, directory / CARS_JSON)


async def stored_cars(source: str, settings: BaseSettings) -> AsyncIterator[StoredCar]:
    """What the database of that key holds, in the order of the ids.

    Raises `ConfigurationError` when its address is not set, `StoreError` when it does not do its part.
    """
    database = build_database(settings, source)
    if database is None:
        raise ConfigurationError(f"set {SETTINGS[source]}, so that it is known where the database is")
    try:
        await database.open()
        async for stored in database.cars():
            yield stored
    finally:
        await database.close()


def _in_step(items: AsyncIterator[_T]) -> Iterator[_T]:
    """The items for those who cannot await them."""
    with asyncio.Runner() as runner:
        while some := runner.run(_next(items, _AT_ONCE)):
            yield from some


async def _next(items: AsyncIterator[_T], number: int) -> list[_T]:
    """The next items, at most so many; none when there are no more."""
    some: list[_T] = []
    async for item in items:
        some.append(item)
        if len(some) == number:
            break
    return some


class _Counted:
    """Counts what passes."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.count = 0
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            yield row
