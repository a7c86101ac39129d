"""`scrapy crawl cars -O cars.csv -O cars.parquet`: the rows of the cars that were crawled."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carscraper.export.tables import Rows, columns
from carscraper.items import Car
from tests.crawling import crawl
from tests.exports.command_line import WITHOUT_PYARROW, python_that
from tests.exports.conftest import LISTINGS, SECONDS, Crawled
from tests.exports.samples import NAMES, as_csv_has_it
from tests.standin import ROOT


def cells_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def as_fed(crawled: Crawled) -> list[Car]:
    """The cars in the order in which the feeds got them, from the feed that holds whole records."""
    lines = (crawled.feeds / "cars.jsonl").read_bytes().splitlines()
    return [Car(**json.loads(line)) for line in lines]


def test_csv_holds_the_typed_row_of_each_car(crawled: Crawled) -> None:
    header, *lines = cells_of(crawled.feeds / "cars.csv")
    table = Rows()
    assert header == NAMES
    assert lines == [as_csv_has_it(table.of(car)) for car in as_fed(crawled)]
    assert len(lines) == LISTINGS


def test_parquet_holds_the_typed_row_of_each_car(crawled: Crawled) -> None:
    table = Rows()
    found = pq.read_table(crawled.feeds / "cars.parquet")
    assert found.num_rows == LISTINGS
    assert [tuple(row.values()) for row in found.to_pylist()] == [table.of(car) for car in as_fed(crawled)]


def test_parquet_has_the_documented_types(crawled: Crawled) -> None:
    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
    }
    schema = pq.read_schema(crawled.feeds / "cars.parquet")
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        (column.name, types[column.kind], column.nullable) for column in columns()
    ]


def test_typed_columns_are_not_all_null(crawled: Crawled) -> None:
    found = pq.read_table(crawled.feeds / "cars.parquet")
    empty = [name for name in found.column_names if found[name].null_count == found.num_rows]
    assert empty == ["unread"]


def test_o_appends_to_csv_without_a_second_header(crawled: Crawled, tmp_path: Path) -> None:
    file = tmp_path / "cars.csv"
    for _ in range(2):
        with crawl(crawled.standin.url, tmp_path / "data", "-o", str(file), "-a", "limit=30") as run:
            assert run.wait(SECONDS) == 0, run.log
    header, *lines = cells_of(file)
    assert header == NAMES
    ids = [line[0] for line in lines]
    assert len(ids) == 60
    assert sorted(ids[:30]) == sorted(ids[30:]) == sorted(run.cars())


def test_columns_can_be_picked_and_renamed(crawled: Crawled, tmp_path: Path) -> None:
    feeds = {
        str(tmp_path / "few.csv"): {
            "format": "csv",
            "fields": {"price_zar": "rand", "id": "id"},
            "item_export_kwargs": {"delimiter": ";"},
        },
        str(tmp_path / "few.parquet"): {
            "format": "parquet",
            "fields": ["id", "price_zar"],
            "overwrite": True,
        },
    }
    settings = {"FEEDS": json.dumps(feeds)}
    with crawl(crawled.standin.url, tmp_path / "data", settings=settings) as run:
        assert run.wait(SECONDS) == 0, run.log
    prices = {car.id: car.car_attrs["price"] for car in crawled.cars()}
    header, *lines = (tmp_path / "few.csv").read_text().splitlines()
    assert header == "rand;id"
    assert sorted(lines) == sorted(
        f"{'' if price is None else price};{number}" for number, price in prices.items()
    )
    found = pq.read_table(tmp_path / "few.parquet").to_pylist()
    assert {row["id"]: row["price_zar"] for row in found} == prices


def test_feeds_can_be_packed_and_parted(crawled: Crawled, tmp_path: Path) -> None:
    feeds = {
        str(tmp_path / "cars.csv.gz"): {
            "format": "csv",
            "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
        },
        str(tmp_path / "%(batch_id)d.csv"): {"format": "csv", "batch_item_count": 100},
        str(tmp_path / "%(batch_id)d.parquet"): {
            "format": "parquet",
            "batch_item_count": 100,
            "overwrite": True,
        },
    }
    settings = {"FEEDS": json.dumps(feeds)}
    with crawl(crawled.standin.url, tmp_path / "data", settings=settings) as run:
        assert run.wait(SECONDS) == 0, run.log
    with gzip.open(tmp_path / "cars.csv.gz", "rt", newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert header == NAMES
    assert len(lines) == LISTINGS
    parts = [cells_of(tmp_path / f"{number}.csv") for number in (1, 2, 3)]
    assert all(part[0] == NAMES for part in parts)
    assert [line for part in parts for line in part[1:]] == lines
    rows = [pq.read_table(tmp_path / f"{number}.parquet").num_rows for number in (1, 2, 3)]
    assert rows == [100, 100, LISTINGS - 200]


def test_parquet_can_go_to_standard_output(crawled: Crawled, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scrapy", "crawl", "cars", "-o", "-:parquet", "-a", "limit=20"]
    settings = {"CARS_API_URL": crawled.standin.url, "CARS_OUTPUT_DIR": tmp_path, "AUTOTHROTTLE_ENABLED": 0}
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
    assert pq.read_table(pa.BufferReader(done.stdout)).num_rows == 20


BAD = {
    "append to Parquet": (["-o", "{}/cars.parquet"], {}, "cars.parquet: Parquet cannot be appended to"),
    "other columns": (["-o", "{}/other.csv"], {}, "other.csv: it has other columns already"),
    "a cut line": (["-o", "{}/cut.csv"], {}, "cut.csv: its last line is cut short"),
    "a directory": (["-O", "{}/a.csv"], {}, "a.csv: it is a directory"),
    "no such column": (["-O", "{}/x.csv"], {"FEED_EXPORT_FIELDS": "id,prize"}, "there is no column 'prize'"),
    "no such encoding": (["-O", "{}/x.csv"], {"FEED_EXPORT_ENCODING": "utf-9"}, "unknown encoding: utf-9"),
    "no such option": (
        [],
        {"FEEDS": '{"x.csv": {"format": "csv", "item_export_kwargs": {"colour": "red"}}}'},
        "x.csv: ",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_feed_that_cannot_be_written_is_refused_before_anything_is_crawled(
    crawled: Crawled, tmp_path: Path, case: str
) -> None:
    arguments, settings, problem = BAD[case]
    (tmp_path / "other.csv").write_text("id,name\r\n")
    (tmp_path / "cut.csv").write_bytes(",".join(NAMES).encode() + b"\r\n1,2")
    (tmp_path / "a.csv").mkdir()
    crawled.standin.reset_journal()
    arguments = [argument.format(tmp_path) for argument in arguments]
    with crawl(crawled.standin.url, tmp_path / "data", *arguments, settings=settings) as run:
        assert run.wait(SECONDS) == 2, run.log
    (line,) = [line for line in run.log.splitlines() if line.startswith("error: ")]
    assert problem in line
    assert "Traceback" not in run.log
    assert crawled.standin.journal() == []
    assert (tmp_path / "cut.csv").read_bytes().endswith(b"\r\n1,2")


def test_an_address_that_may_hold_a_password_is_not_shown(crawled: Crawled, tmp_path: Path) -> None:
    feeds = {"ftp://user:secret-word@127.0.0.1/cars.csv": {"format": "csv", "fields": ["nonsense"]}}
    settings = {"FEEDS": json.dumps(feeds)}
    with crawl(crawled.standin.url, tmp_path / "data", settings=settings) as run:
        assert run.wait(SECONDS) == 2, run.log
    (line,) = [line for line in run.log.splitlines() if line.startswith("error: ")]
    assert "there is no column 'nonsense'" in line
    assert "secret-word" not in line


def test_without_pyarrow_parquet_is_refused_before_anything_is_crawled(
    crawled: Crawled, tmp_path: Path
) -> None:
    env = python_that(WITHOUT_PYARROW, tmp_path / "python")
    crawled.standin.reset_journal()
    with crawl(crawled.standin.url, tmp_path / "data", "-O", str(tmp_path / "cars.parquet"), env=env) as run:
        assert run.wait(SECONDS) == 2, run.log
    (line,) = [line for line in run.log.splitlines() if line.startswith("error: ")]
    assert line.endswith("the extra parquet brings; install it with: pip install pyarrow")
    assert "Traceback" not in run.log
    assert crawled.standin.journal() == []
    assert not (tmp_path / "cars.parquet").exists()


def test_without_pyarrow_csv_is_written_all_the_same(crawled: Crawled, tmp_path: Path) -> None:
    env = python_that(WITHOUT_PYARROW, tmp_path / "python")
    with crawl(
        crawled.standin.url, tmp_path / "data", "-O", str(tmp_path / "cars.csv"), "-a", "limit=20", env=env
    ) as run:
        assert run.wait(SECONDS) == 0, run.log
    assert len(cells_of(tmp_path / "cars.csv")) == 21
