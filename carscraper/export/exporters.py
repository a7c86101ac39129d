"""Scrapy's feeds of cars as a table, CSV and Parquet, and as XML."""

from __future__ import annotations

import csv
import io
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from scrapy.exporters import BaseItemExporter
from scrapy.extensions.postprocessing import PostProcessingManager
from scrapy.utils.conf import feed_complete_default_values_from_settings
from scrapy.utils.misc import load_object
from w3lib.url import file_uri_to_path

from carscraper.api.rows import SpecColumns, spec_columns
from carscraper.export.encoders import CsvEncoder, Encoder, ParquetEncoder
from carscraper.export.tables import Column, Row, Rows
from carscraper.items import Car
from carscraper.weighed import WeighedCache
from scrapy_durable.engine.feeds import LineExporter, WellFormedXml
from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


_SPECS = 1024**2
"""Bytes of the specifications of which the columns are kept: cars that share one come close together."""


class TableExporter(BaseItemExporter):
    """A feed with a row per `Car`; what is none is passed over.

    It obeys a feed's `fields`, which picks, sorts and renames columns. Raises `ConfigurationError` for columns
    that there are not, and whatever its encoder raises for options that it does not know.
    """

    def __init__(self, file: IO[bytes], **options: Any) -> None:
        super().__init__(dont_fail=True, **options)
        self._file = file
        self._table = Rows()
        self._places, columns = _chosen(self._table.columns, self.fields_to_export)
        self.encoder = self.make_encoder(columns, self._kwargs)
        self._waiting: list[Row] = []
        self._ready: WeighedCache[bytes, SpecColumns] = WeighedCache(_SPECS)
        self.header = self.encoder.begin()
        self.at_once = self.encoder.at_once
        """How many rows are written together."""

    @abstractmethod
    def make_encoder(self, columns: Sequence[Column], options: dict[str, Any]) -> Encoder:
        """What turns rows into bytes."""

    @abstractmethod
    def check_end(self, path: Path) -> None:
        """Raise `ConfigurationError` when rows cannot be put at the end of that file."""

    def start_exporting(self) -> None:
        """Write what comes before the first row, unless there are rows already."""
        if _is_empty(self._file):
            self._file.write(self.header)

    def export_item(self, item: Any) -> None:
        """Write the row, together with others."""
        if isinstance(item, Car):
            row = self._table.of(item, self._specs(item.specs_json))
            self._waiting.append(tuple(row[place] for place in self._places))
            if len(self._waiting) >= self.at_once:
                self._write_waiting()

    def finish_exporting(self) -> None:
        """Write what is left; the file is closed by whoever opened it."""
        self._write_waiting()
        self._file.write(self.encoder.end())

    def _specs(self, text: bytes) -> SpecColumns:
        ready = self._ready.get(text)
        if ready is None:
            ready = spec_columns(orjson.loads(text))
            self._ready.put(text, ready, len(text))
        return ready

    def _write_waiting(self) -> None:
        rows, self._waiting = self._waiting, []  # also when the disk refuses: never twice
        if rows:
            self._file.write(self.encoder.rows(rows))


class CsvExporter(TableExporter, LineExporter):
    """In place of Scrapy's: columns of one type each instead of nested data, and no formulas.

    Takes the options of `csv.writer`, such as `delimiter`, as `item_export_kwargs`.
    """

    encoder: CsvEncoder

    def __init__(self, file: IO[bytes], **options: Any) -> None:
        super().__init__(file, **options)
        self.at_once = 1
        self.line_end = self.encoder.line_end

    def make_encoder(self, columns: Sequence[Column], options: dict[str, Any]) -> CsvEncoder:
        """See `CsvEncoder`."""
        return CsvEncoder(columns, self.encoding or "utf-8", **options)

    def check_end(self, path: Path) -> None:
        """It has to begin with the same columns, and to end with its last line."""
        header = self.header
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return
            file.seek(-1, os.SEEK_END)
            last = file.read()
            file.seek(0)
            if file.read(len(header)) != header:
                raise ConfigurationError("it has other columns already; -O replaces it")
            if last != b"\n":
                raise ConfigurationError("its last line is cut short; -O replaces it")


class XmlExporter(WellFormedXml):
    """Well formed, whatever the site's fields are called and hold."""

    def check_end(self, path: Path) -> None:
        """A second document is no end of the first."""
        if path.stat().st_size:
            raise ConfigurationError("XML cannot be appended to; -O replaces the file")


class ParquetExporter(TableExporter):
    """Needs pyarrow. Until the crawl has ended the file cannot be read, since where everything stands comes last."""

    def make_encoder(self, columns: Sequence[Column], options: dict[str, Any]) -> Encoder:
        """See `ParquetEncoder`."""
        return ParquetEncoder(columns, **options)

    def check_end(self, path: Path) -> None:
        """Its end is no place for rows."""
        raise ConfigurationError("Parquet cannot be appended to; -O replaces the file")


def check_feeds(settings: BaseSettings) -> None:
    """Raise `ConfigurationError` for a table that is wanted and could not be written, before anything is crawled.

    An exporter that raises during a crawl is only logged by Scrapy. What a file ends with is not looked at with
    `JOBDIR`: a killed crawl may have left it so, and `DurableFeeds` knows how it was before.
    """
    is_durable = bool(settings["JOBDIR"])
    exporters = settings.getwithbase("FEED_EXPORTERS")
    for uri, asked in settings.getdict("FEEDS").items():
        feed = feed_complete_default_values_from_settings(asked, settings, str(uri))
        exporter = load_object(exporters.get(feed["format"]) or BaseItemExporter)
        if issubclass(exporter, TableExporter | XmlExporter):
            path = _local_path(str(uri))
            try:
                _check_feed(exporter, feed, path, is_appended=not (feed.get("overwrite") or is_durable))
            except (ConfigurationError, TypeError, LookupError, csv.Error) as error:
                # Other addresses may hold a password.
                raise ConfigurationError(f"{path or feed['format']}: {error}") from error


def _check_feed(
    exporter: type[TableExporter | XmlExporter],
    feed: Mapping[str, Any],
    path: Path | None,
    *,
    is_appended: bool,
) -> None:
    trial = exporter(
        io.BytesIO(),
        fields_to_export=feed["fields"],
        encoding=feed["encoding"],
        indent=feed["indent"],
        **feed["item_export_kwargs"],
    )
    if path is None:
        return
    if path.is_dir():
        raise ConfigurationError("it is a directory")
    if is_appended:
        try:
            trial.check_end(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigurationError(error.strerror or str(error)) from error


def _local_path(uri: str) -> Path | None:
    """The file that a feed is written to, as Scrapy understands its address; None when it is none of this machine."""
    if uri.startswith("file:"):
        return Path(file_uri_to_path(uri))
    return None if urlsplit(uri).scheme else Path(uri)


def _chosen(
    columns: Sequence[Column], fields: Mapping[str, str] | Iterable[str] | None
) -> tuple[list[int], list[Column]]:
    """The columns that a feed's `fields` ask for, and their places in a row."""
    if fields is None:
        return list(range(len(columns))), list(columns)
    names = fields if isinstance(fields, Mapping) else {name: name for name in fields}
    places = {column.name: place for place, column in enumerate(columns)}
    unknown = [name for name in names if name not in places]
    if unknown:
        raise ConfigurationError(f"there is no column {unknown[0]!r}; there are: {', '.join(places)}")
    chosen = [places[name] for name in names]
    return chosen, [replace(columns[places[name]], name=shown) for name, shown in names.items()]


def _is_empty(file: IO[bytes]) -> bool:
    """Also when it is none that could tell, such as a pipe, or one whose packer has written first."""
    try:
        return isinstance(file, PostProcessingManager) or file.tell() == 0
    except OSError:
        return True
