"""`cars.json` is read record by record, and damage is named by its line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carscraper.export.tables import Rows
from carscraper.output.archive import Archive
from carscraper.output.cars_json import read_cars
from scrapy_durable.exceptions import ConfigurationError
from tests.exports.samples import car, record_of, titles, write_cars_json

CARS = [car(number) for number in (1, 2, 3)]
RECORD = orjson.dumps(record_of(CARS[0]))


def test_what_a_crawl_publishes_is_read_back(tmp_path: Path) -> None:
    archive = Archive(tmp_path, "crawl", "worker")
    archive.open(resumable=False)
    for one in CARS:
        archive.keep(one)
    asyncio.run(archive.write())
    archive.publish(archive.kept(), complete=True)
    archive.close()
    assert list(read_cars(tmp_path / "cars.json")) == CARS


def test_a_crawl_that_found_nothing_is_read_back(tmp_path: Path) -> None:
    archive = Archive(tmp_path, "crawl", "worker")
    archive.open(resumable=False)
    archive.publish(archive.kept(), complete=True)
    archive.close()
    assert list(read_cars(tmp_path / "cars.json")) == []


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(titles, max_size=4))
def test_any_text_in_a_record_is_read_back(tmp_path: Path, some: list[str]) -> None:
    cars = [car(number, title=title) for number, title in enumerate(some)]
    write_cars_json(tmp_path / "cars.json", cars)
    assert list(read_cars(tmp_path / "cars.json")) == cars


def test_records_come_one_at_a_time(tmp_path: Path) -> None:
    """The first are there although the file is damaged further on."""
    file = tmp_path / "cars.json"
    file.write_bytes(b"[\n" + RECORD + b",\n" + RECORD + b",\nnonsense\n]\n")
    cars = read_cars(file)
    assert [next(cars), next(cars)] == [CARS[0], CARS[0]]
    with pytest.raises(ConfigurationError, match="line 4"):
        next(cars)


def changed(**fields: object) -> bytes:
    return b"[\n" + orjson.dumps({**record_of(CARS[0]), **fields}) + b"\n]\n"


DAMAGED = {
    "nothing": (b"", "line 1: is ''"),
    "another format": (b'[{"id": 1}]', "line 1: is '[{\"id\": 1}]'"),
    "another file": (b"id,url\n1,2\n", "line 1: is 'id,url"),
    "only the beginning": (b"[\n", "line 2: is missing"),
    "cut between records": (b"[\n" + RECORD + b",\n", "line 3: is missing"),
    "cut in a record": (b"[\n" + RECORD + b",\n" + RECORD[:500], "line 3: is cut short"),
    "cut before the end": (b"[\n" + RECORD + b"\n", "line 3: is not the ] that ends the file"),
    "two in one": (b"[\n" + RECORD + b"\n]\n[\n", "line 4: stands behind the end"),
    "text behind": (b"[]\nmore", "line 2: stands behind the end"),
    "a hole of zeros": (b"[\n" + RECORD[:400] + bytes(4096) + b"\n]\n", "line 2: is no JSON"),
    "no UTF-8": (b"[\n" + RECORD.replace(b"Gauteng", b"\xff\xfe") + b"\n]\n", "line 2: is no JSON"),
    "an empty line": (b"[\n\n]\n", "line 2: is no JSON"),
    "no comma": (b"[\n" + RECORD + b"\n" + RECORD + b"\n]\n", "line 3: is not the ]"),
    "no object": (b"[\n5\n]\n", "line 2: is '5', not the record of a car"),
    "a field too many": (changed(price=5), "not the record of a car"),
    "an id of another type": (changed(id=5), "line 2: id is '5'"),
    "attributes of another type": (changed(car_attrs=[]), "line 2: car_attrs is '[]'"),
    "specs of another type": (changed(car_specs={}), "line 2: car_specs"),
    "a time that is none": (changed(scraped_at="yesterday"), "line 2: scraped_at is '\"yesterday\"'"),
    "a time without a zone": (changed(scraped_at="2026-11-20T10:15:00"), "line 2: scraped_at"),
}


@pytest.mark.parametrize("specs", [None, ["x"], [{"title": 5, "attrs": [{"label": 5}]}, {"attrs": None}]])
def test_specifications_are_read_whatever_the_api_gave(tmp_path: Path, specs: Any) -> None:
    (tmp_path / "cars.json").write_bytes(changed(car_specs=specs))
    (found,) = read_cars(tmp_path / "cars.json")
    assert found.car_specs == specs
    assert len(Rows().of(found)) == len(Rows().columns)


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_named_by_its_line(tmp_path: Path, case: str) -> None:
    content, problem = DAMAGED[case]
    file = tmp_path / "cars.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as refusal:
        list(read_cars(file))
    message = str(refusal.value)
    assert message.startswith(f"{file}: line ")
    assert problem in message
    assert "\n" not in message
    assert len(message) < 300 + len(str(file))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3 * len(RECORD)))
def test_wherever_it_is_cut_it_is_never_taken_for_whole(tmp_path: Path, length: int) -> None:
    file = tmp_path / "cars.json"
    write_cars_json(file, CARS)
    content = file.read_bytes()
    file.write_bytes(content[: min(length, len(content) - 1)])
    with pytest.raises(ConfigurationError, match=r"line [0-9]"):
        list(read_cars(file))


def test_a_line_that_never_ends_is_not_read_into_memory(tmp_path: Path) -> None:
    file = tmp_path / "cars.json"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 32)
    with pytest.raises(ConfigurationError, match="line 1"):
        list(read_cars(file))


def test_a_file_that_is_missing_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cars\.json: there is no such file"):
        list(read_cars(tmp_path / "cars.json"))
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        list(read_cars(tmp_path))
