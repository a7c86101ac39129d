"""`scrapy export`: what is stored, as a table in a file."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from carscraper.export.encoders import ParquetEncoder
from carscraper.export.tables import Rows
from tests.exports.command_line import TELLS_ITS_PEAK, WITHOUT_PYARROW, export, python_that
from tests.exports.conftest import LISTINGS, Crawled
from tests.exports.samples import HOSTILE, NAMES, as_csv_has_it, car, write_cars_json
from tests.standin import ROOT

SUFFIXES = ["csv", "jsonl", "parquet"]


def test_csv_holds_the_rows_of_cars_json_in_its_order(crawled: Crawled, tmp_path: Path) -> None:
    done = export(crawled.output_dir, str(tmp_path / "cars.csv"))
    assert (done.status, done.err) == (0, "")
    assert done.out.decode() == f"{LISTINGS} cars in {tmp_path / 'cars.csv'}\n"
    with (tmp_path / "cars.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [NAMES, *map(as_csv_has_it, crawled.rows())]


def test_parquet_holds_the_rows_of_cars_json_in_its_order(crawled: Crawled, tmp_path: Path) -> None:
    done = export(crawled.output_dir, str(tmp_path / "cars.parquet"))
    assert (done.status, done.err) == (0, "")
    found = pq.read_table(tmp_path / "cars.parquet")
    assert found.column_names == NAMES
    assert [tuple(row.values()) for row in found.to_pylist()] == crawled.rows()


def test_json_lines_hold_the_rows_of_cars_json_in_its_order(crawled: Crawled, tmp_path: Path) -> None:
    done = export(crawled.output_dir, str(tmp_path / "cars.jsonl"))
    assert (done.status, done.err) == (0, "")
    found = [json.loads(line) for line in (tmp_path / "cars.jsonl").read_bytes().splitlines()]
    for line, row in zip(found, crawled.rows(), strict=True):
        assert list(line) == NAMES
        del line["scraped_at"]
        assert list(line.values()) == [*row[:2], *row[3:]]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_cars_make_the_same_file(crawled: Crawled, tmp_path: Path, suffix: str) -> None:
    files = [tmp_path / f"{number}.{suffix}" for number in (1, 2)]
    for file in files:
        assert export(crawled.output_dir, str(file)).status == 0
    first, second = (file.read_bytes() for file in files)
    assert first == second


def test_raw_adds_the_record_as_the_api_gave_it(crawled: Crawled, tmp_path: Path) -> None:
    assert export(crawled.output_dir, "--raw", str(tmp_path / "cars.parquet")).status == 0
    found = pq.read_table(tmp_path / "cars.parquet")
    assert found.column_names == [*NAMES, "car_attrs", "car_specs"]
    for row, one in zip(found.to_pylist(), crawled.cars(), strict=True):
        assert json.loads(row["car_attrs"]) == one.car_attrs
        assert json.loads(row["car_specs"]) == one.car_specs
    assert export(crawled.output_dir, "--raw", str(tmp_path / "cars.csv")).status == 0
    with (tmp_path / "cars.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["car_attrs"]) for row in rows] == [one.car_attrs for one in crawled.cars()]


@pytest.mark.parametrize("target", ["-", "-:csv"])
def test_csv_can_go_to_standard_output(crawled: Crawled, target: str) -> None:
    done = export(crawled.output_dir, target)
    assert (done.status, done.err) == (0, "")
    found = list(csv.reader(io.StringIO(done.out.decode(), newline="")))
    assert found == [NAMES, *map(as_csv_has_it, crawled.rows())]


def test_json_lines_can_go_to_standard_output(crawled: Crawled) -> None:
    done = export(crawled.output_dir, "-:jsonl")
    assert (done.status, done.err) == (0, "")
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [one.id for one in crawled.cars()]


def test_who_reads_standard_output_may_have_had_enough(crawled: Crawled) -> None:
    command = f"{sys.executable} -m scrapy export --raw - | head -c 100"
    env = {**os.environ, "CARS_OUTPUT_DIR": str(crawled.output_dir)}
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=env, capture_output=True, timeout=120, check=False
    )
    assert done.stdout.decode().startswith("id,url,")
    assert done.stderr == b""


def test_hostile_titles_come_out_of_every_format(tmp_path: Path) -> None:
    cars = [car(number, title=f"{title}x") for number, title in enumerate(HOSTILE)]
    write_cars_json(tmp_path / "cars.json", cars)
    rows = [Rows().of(one) for one in cars]
    for suffix in SUFFIXES:
        assert export(tmp_path, str(tmp_path / f"cars.{suffix}")).status == 0
    with (tmp_path / "cars.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert lines == list(map(as_csv_has_it, rows))
    at = header.index("title")
    assert [line[at][:2] for line in lines[:5]] == ["'=", "'=", "'+", "'-", "'@"]
    found = pq.read_table(tmp_path / "cars.parquet").to_pylist()
    assert [tuple(row.values()) for row in found] == rows
    titles = [json.loads(line)["title"] for line in (tmp_path / "cars.jsonl").read_bytes().split(b"\n")[:-1]]
    assert titles == [row[at] for row in rows]


def test_a_catalogue_without_cars_is_a_table_without_rows(tmp_path: Path) -> None:
    write_cars_json(tmp_path / "cars.json", [])
    assert export(tmp_path, "-").out.decode() == ",".join(NAMES) + "\r\n"
    assert export(tmp_path, str(tmp_path / "cars.parquet")).status == 0
    assert pq.read_table(tmp_path / "cars.parquet").num_rows == 0


BAD = {
    "no FILE": ([], 2, "name one file"),
    "two": (["a.csv", "b.csv"], 2, "name one file"),
    "an unknown format": (
        ["cars.xlsx"],
        2,
        "error: cars.xlsx: its name has to end in one of .csv, .jsonl, .parquet",
    ),
    "no format": (["cars"], 2, "error: cars: its name has to end in one of"),
    "Parquet to standard output": (["-:parquet"], 2, "error: -:parquet: its name has to end"),
    "a directory that is not there": (["/no/such/cars.csv"], 2, "there is no directory /no/such"),
    "a place that cannot be written": (["/proc/cars.csv"], 1, "error: /proc/cars.csv cannot be written: "),
    "a database that is none": (["--from", "oracle", "x.csv"], 2, "invalid choice: 'oracle'"),
    "no address of MongoDB": (["--from", "mongo", "/tmp/x.csv"], 2, "error: set MONGO_URI"),
    "no address of PostgreSQL": (["--from", "postgres", "/tmp/x.csv"], 2, "error: set POSTGRES_DSN"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_is_said_in_a_line(crawled: Crawled, case: str) -> None:
    arguments, status, problem = BAD[case]
    done = export(crawled.output_dir, *arguments)
    assert done.status == status, done.err
    assert problem in done.err + done.out.decode()
    assert "Traceback" not in done.err
    if done.err.startswith("error: "):
        assert done.err.count("\n") == 1


def test_without_a_crawl_there_is_nothing_to_export(tmp_path: Path) -> None:
    done = export(tmp_path, str(tmp_path / "cars.csv"))
    assert (done.status, done.out) == (2, b"")
    assert done.err == (
        f"error: {tmp_path / 'cars.json'}: there is no such file; a crawl makes it when it ends\n"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_damaged_record_is_named_and_the_old_file_stays(tmp_path: Path, suffix: str) -> None:
    write_cars_json(tmp_path / "cars.json", [car(number) for number in range(500)])
    content = (tmp_path / "cars.json").read_bytes().splitlines(keepends=True)
    content[300] = content[300][:100] + b"\n"
    (tmp_path / "cars.json").write_bytes(b"".join(content))
    file = tmp_path / f"old.{suffix}"
    file.write_text("of yesterday")
    done = export(tmp_path, str(file))
    assert done.status == 2
    assert done.err.startswith(f"error: {tmp_path / 'cars.json'}: line 301: is no JSON")
    assert done.err.count("\n") == 1
    assert file.read_text() == "of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cars.json", f"old.{suffix}"]


def test_without_pyarrow_parquet_is_refused_and_csv_is_not(crawled: Crawled, tmp_path: Path) -> None:
    env = python_that(WITHOUT_PYARROW, tmp_path / "python")
    done = export(crawled.output_dir, str(tmp_path / "cars.parquet"), env=env)
    assert (done.status, done.out) == (2, b"")
    assert done.err == (
        "error: Parquet needs what the extra parquet brings; install it with: pip install pyarrow\n"
    )
    assert not (tmp_path / "cars.parquet").exists()
    assert export(crawled.output_dir, str(tmp_path / "cars.csv"), env=env).status == 0


MOST_MIB = 40
"""By how much the peak of a larger export may be above that of a smaller one."""


def growth(directory: Path, *command: str) -> float:
    """By how many MiB the peak of a command grows when there are eight times the cars; `{}` in its words stands
    for the directory where those are.
    """
    env = python_that(TELLS_ITS_PEAK, directory / "python")
    peaks = []
    for times in (1, 8):
        place = directory / str(times)
        write_cars_json(
            place / "cars.json", [car(number) for number in range(times * (ParquetEncoder.at_once + 500))]
        )
        subprocess.run(
            [word.format(place) for word in command],
            cwd=ROOT,
            env={**os.environ, **env, "CARS_OUTPUT_DIR": str(place), "PEAK_FILE": str(place / "peak")},
            timeout=120,
            check=True,
        )
        peaks.append(int((place / "peak").read_text()) / 1024)
    return peaks[1] - peaks[0]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_eight_times_the_cars_do_not_take_more_memory(tmp_path: Path, suffix: str) -> None:
    assert growth(tmp_path, sys.executable, "-m", "scrapy", "export", f"{{}}/x.{suffix}") < MOST_MIB


def test_a_reader_of_the_whole_file_would_be_found_out(tmp_path: Path) -> None:
    """The counterpart."""
    program = "import orjson, sys; orjson.loads(open(sys.argv[1], 'rb').read())"
    assert growth(tmp_path, sys.executable, "-c", program, "{}/cars.json") > 2 * MOST_MIB
