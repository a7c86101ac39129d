"""Rows to files and back: nothing is lost on the way, whatever is in a cell."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carscraper.export.encoders import CsvEncoder, Encoder, JsonLinesEncoder, ParquetEncoder, encoded
from carscraper.export.tables import Row, Rows
from carscraper.items import Car
from scrapy_durable.exceptions import ConfigurationError
from tests.exports.samples import NAMES, as_csv_has_it, car, texts, titles

ENCODERS = [CsvEncoder, JsonLinesEncoder, ParquetEncoder]

cars = st.lists(
    st.builds(
        lambda title, agent, mileage, price: car(title=title, agent_name=agent, mileage=mileage, price=price),
        titles,
        titles,
        texts,
        st.none() | st.integers(0, 10**12),
    ),
    max_size=4,
)


def read_csv(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


def file_of(encoder: Encoder, rows: list[Row]) -> bytes:
    return b"".join(encoded(encoder, rows))


@settings(deadline=None)
@given(cars)
@example([car(title="\x1b=", agent_name="\ufeff＝1")])
def test_csv_is_read_back_cell_by_cell(some: list[Car]) -> None:
    table = Rows()
    rows = [table.of(one) for one in some]
    assert read_csv(file_of(CsvEncoder(table.columns), rows)) == [NAMES, *map(as_csv_has_it, rows)]


@settings(deadline=None)
@given(cars)
def test_json_lines_are_read_back_value_by_value(some: list[Car]) -> None:
    table = Rows(raw=True)
    rows = [table.of(one) for one in some]
    lines = file_of(JsonLinesEncoder(table.columns), rows).split(b"\n")
    assert lines.pop() == b""
    for row, line in zip(rows, lines, strict=True):
        found = json.loads(line)
        assert list(found) == [column.name for column in table.columns]
        assert datetime.fromisoformat(found.pop("scraped_at")) == row[2]
        assert list(found.values()) == [*row[:2], *row[3:]]


@settings(deadline=None)
@given(cars)
def test_parquet_is_read_back_value_by_value(some: list[Car]) -> None:
    table = Rows(raw=True)
    rows = [table.of(one) for one in some]
    found = pq.read_table(pa.BufferReader(file_of(ParquetEncoder(table.columns), rows)))
    assert found.column_names == [column.name for column in table.columns]
    assert [tuple(row.values()) for row in found.to_pylist()] == rows


def test_a_time_keeps_its_milliseconds_in_every_format() -> None:
    times = (datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), None)
    table = Rows(seen=True)
    rows = [table.of(car(), seen=times)]
    header, line = read_csv(file_of(CsvEncoder(table.columns), rows))
    assert dict(zip(header, line, strict=True))["first_seen"] == "2026-01-02T03:04:05.678Z"
    assert line[3:6] == ["2026-01-02T03:04:05.678Z", "2026-01-02T00:00:00.000Z", ""]
    found = json.loads(file_of(JsonLinesEncoder(table.columns), rows))
    assert [found["first_seen"], found["removed_at"]] == ["2026-01-02T03:04:05.678Z", None]
    (read,) = pq.read_table(pa.BufferReader(file_of(ParquetEncoder(table.columns), rows))).to_pylist()
    assert (read["first_seen"], read["last_seen"], read["removed_at"]) == times


def test_parquet_has_the_types_of_the_columns() -> None:
    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
    }
    table = Rows(seen=True, raw=True)
    schema = pq.read_schema(pa.BufferReader(file_of(ParquetEncoder(table.columns), [])))
    for column, field in zip(table.columns, schema, strict=True):
        assert (field.name, field.type, field.nullable) == (column.name, types[column.kind], column.nullable)


@pytest.mark.parametrize("make", ENCODERS)
def test_a_table_without_rows_is_a_whole_file(make: Any) -> None:
    table = Rows()
    content = file_of(make(table.columns), [])
    if make is CsvEncoder:
        assert read_csv(content) == [NAMES]
    elif make is JsonLinesEncoder:
        assert content == b""
    else:
        assert pq.read_table(pa.BufferReader(content)).num_rows == 0


@pytest.mark.parametrize("make", ENCODERS)
def test_nothing_is_written_when_the_first_row_cannot_be_had(make: Any) -> None:
    def rows() -> Iterator[Row]:
        raise ConfigurationError("there is no such file")
        yield ()

    table = Rows()
    with pytest.raises(ConfigurationError):
        next(encoded(make(table.columns), rows()))


@pytest.mark.parametrize("make", ENCODERS)
def test_rows_are_taken_only_when_they_are_written(make: Any) -> None:
    """So a table needs the memory of `at_once` rows, however long it is."""
    table, taken = Rows(), 0
    row = table.of(car())
    encoder = make(table.columns)

    def rows() -> Iterator[Row]:
        nonlocal taken
        for _ in range(3 * encoder.at_once + 1):
            taken += 1
            yield row

    pieces = encoded(encoder, rows())
    for group in range(1, 4):
        assert next(pieces)
        assert taken == group * encoder.at_once
    (last,) = pieces
    assert taken == 3 * encoder.at_once + 1
    assert last


def test_a_row_group_holds_at_once_rows_compressed_with_zstd() -> None:
    table = Rows()
    rows = [table.of(car())] * (ParquetEncoder.at_once + 1)
    file = pq.ParquetFile(pa.BufferReader(file_of(ParquetEncoder(table.columns), rows)))
    assert [file.metadata.row_group(group).num_rows for group in range(2)] == [ParquetEncoder.at_once, 1]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_options_of_the_csv_writer_and_an_encoding_with_a_mark() -> None:
    table = Rows()
    content = file_of(CsvEncoder(table.columns, "utf-8-sig", delimiter=";"), [table.of(car())] * 250)
    text = content.decode("utf-8-sig")
    assert text.startswith("id;url;")
    assert "\ufeff" not in text
    with pytest.raises(LookupError):
        CsvEncoder(table.columns, "no-such-encoding")
    with pytest.raises(TypeError):
        CsvEncoder(table.columns, colour="red")
