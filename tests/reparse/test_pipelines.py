"""Pipelines are opened, fed, waited for and closed as in a crawl, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reparse.conftest import SECONDS, House
from tests.standin import StandIn

LISTINGS = 80
JSON = {"carscraper.pipelines.item_log.ItemLogPipeline": 900}


def among(house: House, tmp_path: Path, name: str, place: int = 500) -> dict[str, dict[str, object]]:
    """How to run with another pipeline among ours."""
    return {
        "settings": {"ITEM_PIPELINES": json.dumps({f"tests.reparse.pipelines.{name}": place, **JSON})},
        "env": {"NOTEBOOK": str(tmp_path / "notebook"), "OUTPUT": str(house.output_dir)},
    }


def test_another_pipeline_sees_every_reading_and_what_it_drops_is_counted(
    file_house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS)
    records = file_house.crawled(site, settings={"CARS_PAGE_SIZE": 10})
    options = among(file_house, tmp_path, "Notebook")
    run = file_house.reparse(**options)  # type: ignore[arg-type]
    assert run.wait(SECONDS) == 1, run.log
    first, *cars, last = (tmp_path / "notebook").read_text().splitlines()
    assert (first, last) == ("open", "close")
    assert {line.removeprefix("car ") for line in cars} == set(site.ids())
    assert len(cars) > LISTINGS, "featured listings come several times"
    dropped = [line for line in cars if int(line.removeprefix("car ")) % 4 == 0]
    assert f"'item_dropped_count': {len(dropped)}" in run.log
    assert f"'item_scraped_count': {len(cars) - len(dropped)}" in run.log
    assert file_house.records() == [r for r in records if int(json.loads(r)["id"]) % 4]
    assert f"{len(set(dropped))} listings that the API named were not kept" in run.log


def test_a_store_that_is_slow_to_keep_is_waited_for(
    file_house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    records = file_house.crawled(stand_in(LISTINGS))
    reparsed_records = file_house.reparsed(**among(file_house, tmp_path, "SlowStore"))  # type: ignore[arg-type]
    assert reparsed_records == records
    kept, published = (tmp_path / "notebook").read_text().split()
    assert int(kept) > LISTINGS
    assert published == "False", "cars.json came after the last record was kept"


def test_a_pipeline_that_fails_leaves_cars_json_as_it_was(
    file_house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    file_house.crawled(stand_in(LISTINGS))
    before = (file_house.output_dir / "cars.json").read_bytes()
    run = file_house.reparse(**among(file_house, tmp_path, "Broken"))  # type: ignore[arg-type]
    assert run.wait(SECONDS) == 1, run.log
    assert "ZeroDivisionError: the tenth" in run.log
    assert "The crawl was not reparsed (start_error); cars.json is as it was" in run.log
    assert (file_house.output_dir / "cars.json").read_bytes() == before


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_batches_of_any_size(file_house: House, stand_in: Callable[..., StandIn], size: int) -> None:
    records = file_house.crawled(stand_in(LISTINGS))
    assert file_house.reparsed(settings={"CARS_BATCH_SIZE": size}) == records
