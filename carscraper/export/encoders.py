"""Rows of a table turned into the bytes of a CSV, JSON Lines or Parquet file, piece by piece, so that no table is
ever held in memory.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

import orjson

from carscraper.export.tables import Column, Row, csv_cell, utc_text
from scrapy_durable.exceptions import ConfigurationError


class Encoder(Protocol):
    """Rows to bytes: what `begin`, any number of `rows` and `end` return is the file."""

    at_once: int
    """How many rows `rows` should be given at once."""

    def begin(self) -> bytes:
        """What comes before the first row."""

    def rows(self, rows: Sequence[Row]) -> bytes:
        """At least one row."""

    def end(self) -> bytes:
        """What comes after the last row."""


def encoded(encoder: Encoder, rows: Iterable[Row]) -> Iterator[bytes]:
    """The file that holds the rows, piece by piece; the first one comes when the first rows are there."""
    piece = encoder.begin()
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == encoder.at_once:
            yield piece + encoder.rows(waiting)
            piece = b""
            waiting.clear()
    if waiting:
        piece += encoder.rows(waiting)
    yield piece + encoder.end()


class CsvEncoder:
    """A line of column names, then lines as RFC 4180 has them; see `tables.csv_cell` for the cells.

    Takes the options of `csv.writer`. Raises `LookupError` for an unknown encoding, `TypeError` for an option.
    """

    at_once = 100

    def __init__(self, columns: Sequence[Column], encoding: str = "utf-8", **options: Any) -> None:
        self._names = [column.name for column in columns]
        self._encode = codecs.getincrementalencoder(encoding)().encode  # some encodings begin with a mark
        self._text = io.StringIO(newline="")
        self._writer = csv.writer(self._text, **options)

    def begin(self) -> bytes:
        """The column names."""
        self._writer.writerow(self._names)
        return self._taken()

    @property
    def line_end(self) -> bytes:
        """What each line ends with; asked for after `begin`."""
        return self._encode(self._writer.dialect.lineterminator)

    def rows(self, rows: Sequence[Row]) -> bytes:
        """A line each, more where a cell holds line breaks."""
        try:
            self._writer.writerows([csv_cell(cell) for cell in row] for row in rows)
        except csv.Error:
            self._taken()  # not before the next row
            raise
        return self._taken()

    def end(self) -> bytes:
        """Nothing."""
        return b""

    def _taken(self) -> bytes:
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return self._encode(text)


class JsonLinesEncoder:
    """One object a line, its fields in the order of the columns, times as texts."""

    at_once = 100

    def __init__(self, columns: Sequence[Column]) -> None:
        self._names = [column.name for column in columns]

    def begin(self) -> bytes:
        """Nothing."""
        return b""

    def rows(self, rows: Sequence[Row]) -> bytes:
        """A line each."""
        return b"".join(
            orjson.dumps(
                dict(zip(self._names, row, strict=True)),
                default=_as_text,
                option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATETIME,
            )
            for row in rows
        )

    def end(self) -> bytes:
        """Nothing."""
        return b""


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return utc_text(value)
    raise TypeError(f"no cell: {value!r}")


class ParquetEncoder:
    """Row groups of `at_once` rows, compressed with zstd; needs pyarrow.

    Raises `ConfigurationError` when that is not installed.
    """

    at_once = 5_000

    def __init__(self, columns: Sequence[Column]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ConfigurationError(
                "Parquet needs what the extra parquet brings; install it with: pip install pyarrow"
            ) from error
        types = {
            "string": pyarrow.string(),
            "int64": pyarrow.int64(),
            "float64": pyarrow.float64(),
            "timestamp": pyarrow.timestamp("ms", tz="UTC"),
        }
        self._arrow = pyarrow
        self._schema = pyarrow.schema(
            [pyarrow.field(column.name, types[column.kind], column.nullable) for column in columns]
        )
        self._pieces = _Pieces()
        self._writer = pyarrow.parquet.ParquetWriter(self._pieces, self._schema, compression="zstd")

    def begin(self) -> bytes:
        """The magic number."""
        return self._pieces.taken()

    def rows(self, rows: Sequence[Row]) -> bytes:
        """A row group."""
        arrays = [
            self._arrow.array(cells, field.type)
            for cells, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        return self._pieces.taken()

    def end(self) -> bytes:
        """Where everything stands; without it the file cannot be read."""
        self._writer.close()
        return self._pieces.taken()


class _Pieces(io.RawIOBase):
    """A file that is taken away as it is written."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        self._position += len(data)
        return len(data)

    def taken(self) -> bytes:
        """What was written since the last call."""
        piece = b"".join(self._written)
        self._written.clear()
        return piece
