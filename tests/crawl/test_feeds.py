"""Scrapy's feeds: one record per car in every format, and nothing of the ledger."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from carscraper.export.tables import columns
from tests.crawl.conftest import SECONDS, Site, Start

FIELDS = ["id", "url", "scraped_at", "car_attrs", "car_specs"]
COLUMNS = [column.name for column in columns()]


def test_feeds_hold_one_record_per_car_in_every_format(site: Site, start: Start, tmp_path: Path) -> None:
    names = ["cars.csv", "cars.jsonl", "cars.json", "cars.xml"]
    run = start(
        *("-o", str(tmp_path / "cars.csv"), "-o", str(tmp_path / "cars.jsonl")),
        *("-o", str(tmp_path / "cars.json"), "-o", str(tmp_path / "cars.xml")),
        settings={"CARS_PAGE_SIZE": 20},
    )
    assert run.wait(SECONDS) == 0, run.log
    everything = sorted(site.catalogue.ids)
    for name in names:
        rows = read(tmp_path / name)
        assert sorted(row["id"] for row in rows) == everything, name
        assert all(list(row) == (COLUMNS if name == "cars.csv" else FIELDS) for row in rows), name
    for row in read(tmp_path / "cars.jsonl"):
        assert row["car_attrs"] == site.attributes(row["id"])
        assert row["car_specs"] == site.groups(row["id"])


@pytest.mark.parametrize("name", ["cars.csv", "cars.json"])
def test_a_capital_o_starts_the_file_anew(site: Site, start: Start, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("of an earlier crawl")
    run = start("-O", str(tmp_path / name), "-a", "limit=30")
    assert run.wait(SECONDS) == 0, run.log
    rows = read(tmp_path / name)
    assert sorted(row["id"] for row in rows) == sorted(run.cars())


def read(path: Path) -> list[dict[str, object]]:
    """The records of a feed."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    if path.suffix == ".xml":
        items = ElementTree.parse(path).getroot()
        return [{field.tag: field.text for field in item} for item in items]
    rows: list[dict[str, object]] = json.loads(path.read_bytes())
    return rows


@pytest.mark.parametrize("target", ["/dev/full:jsonl", "/dev/full:csv", "/proc/nowhere/cars.jsonl"])
def test_a_feed_that_cannot_be_written_is_no_success(start: Start, target: str) -> None:
    """One line, exit status 1; the stores have everything."""
    run = start("-O", target)
    assert run.wait(SECONDS) == 1, run.log
    assert run.log.count("A feed cannot be written, and is not complete") == 1, run.log
    assert run.log.count("Traceback") <= 1, "not one for each car"
    assert run.run_json()["complete"]
