"""Records go through the pipelines together only where that is all the same to everybody."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.crawl.conftest import SECONDS, Site, Start
from tests.crawling import Crawl
from tests.standin import ROOT

OWN = """
import json
import os

from scrapy import signals

from carscraper import settings
from carscraper.settings import *

def note(item):
    with open(os.environ["NOTES"], "a") as file:
        print(json.dumps([type(item).__name__, getattr(item, "id", "")]), file=file)

class Pipeline:
    def process_item(self, item):
        note(item)
        return item

class Receiver:
    signal = signals.item_scraped

    @classmethod
    def from_crawler(cls, crawler):
        receiver = cls()
        crawler.signals.connect(receiver.hear, cls.signal)
        return receiver

    def hear(self, item):
        note(item)

class ReceiverOfDropped(Receiver):
    signal = signals.item_dropped

class Middleware:
    async def process_spider_output(self, response, result):
        async for output in result:
            if not hasattr(output, "url") or hasattr(output, "car_attrs"):
                note(output)
            yield output

def formatter():
    from scrapy.logformatter import LogFormatter

    class Formatter(LogFormatter):
        def scraped(self, item, response, spider):
            note(item)

    return Formatter

Formatter = formatter()
"""
PARTS = """
from scrapy.pipelines import ItemPipelineManager

from carscraper.spiders.cars import CarsSpider as Cars
from own_settings import note

class OwnSpider(Cars):
    async def parse_page(self, *args, **kwargs):
        async for output in super().parse_page(*args, **kwargs):
            if not hasattr(output, "callback"):
                note(output)
            yield output

class Processor(ItemPipelineManager):
    async def process_item_async(self, item):
        note(item)
        return await super().process_item_async(item)

    def process_item(self, item, *args):
        note(item)
        return super().process_item(item, *args)
"""
CHANGES = {
    "a spider": 'SPIDER_MODULES = ["own_parts"]',
    "an item processor": 'ITEM_PROCESSOR = "own_parts.Processor"',
    "a pipeline": "ITEM_PIPELINES = {**settings.ITEM_PIPELINES, Pipeline: 1000}",
    "a receiver": "EXTENSIONS = {**settings.EXTENSIONS, Receiver: 1000}",
    "a receiver of what is dropped": "EXTENSIONS = {**settings.EXTENSIONS, ReceiverOfDropped: 1000}",
    "a spider middleware": "SPIDER_MIDDLEWARES = {**settings.SPIDER_MIDDLEWARES, Middleware: 1000}",
    "lines of the log": "LOG_FORMATTER = Formatter",
}
CHANGED_STATS = "item_scraped_count", "item_dropped_count", "downloader/request_count", "verdict/kept"


def crawl_with(change: str, start: Start, tmp_path: Path, output_dir: Path | None = None) -> Crawl:
    """A crawl of a project whose settings have that line more."""
    (tmp_path / "own_parts.py").write_text(PARTS)
    (tmp_path / "own_settings.py").write_text(f"{OWN}\n{change}\n")
    run = start(
        output_dir=output_dir,
        settings={"CARS_PAGE_SIZE": 20},
        env={
            "SCRAPY_SETTINGS_MODULE": "own_settings",
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "NOTES": str(tmp_path / "notes"),
        },
    )
    assert run.wait(SECONDS) == 0, run.log
    return run


def noted(tmp_path: Path) -> list[tuple[str, str]]:
    """Class and id of each item that was noted."""
    return [
        (name, listing) for name, listing in map(json.loads, (tmp_path / "notes").read_text().splitlines())
    ]


def stats_of(run: Crawl) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"'([a-z_/]+)': (\d+)[,}]", run.log)}


@pytest.mark.parametrize("what", CHANGES)
def test_who_asks_for_records_is_given_each_by_itself(
    what: str, site: Site, start: Start, tmp_path: Path
) -> None:
    run = crawl_with(CHANGES[what], start, tmp_path)
    names = {name for name, _ in noted(tmp_path)}
    assert "Cars" not in names
    assert sorted(run.cars()) == sorted(site.catalogue.ids)
    if what == "a spider":  # only `parse_page` of it is looked at
        assert "Car" in names or "PageRead" in names
    elif what != "a receiver of what is dropped":
        assert {listing for name, listing in noted(tmp_path) if name == "Car"} == set(site.catalogue.ids)


def test_the_records_and_the_numbers_are_those_of_a_crawl_one_by_one(
    site: Site, start: Start, tmp_path: Path
) -> None:
    one_by_one = crawl_with(CHANGES["a receiver"], start, tmp_path, tmp_path / "one")
    together = crawl_with("", start, tmp_path, tmp_path / "together")
    found = [
        sorted(
            ({**record, "scraped_at": ""} for record in json.loads((run.place / "cars.json").read_bytes())),
            key=lambda record: record["id"],
        )
        for run in (one_by_one, together)
    ]
    assert found[0] == found[1]
    one, other = stats_of(one_by_one), stats_of(together)
    assert {name: one.get(name) for name in CHANGED_STATS} == {
        name: other.get(name) for name in CHANGED_STATS
    }


def test_nobody_asks_in_a_crawl_as_it_comes(site: Site, start: Start, tmp_path: Path) -> None:
    """The counterpart: what would be noted then, if somebody took notes unseen."""
    unseen = """
from carscraper.pipelines.once import OncePipeline
process_item = OncePipeline.process_item
def and_note(self, item):
    note(item)
    return process_item(self, item)
OncePipeline.process_item = and_note
"""
    crawl_with(unseen, start, tmp_path)
    assert "Cars" in {name for name, _ in noted(tmp_path)}
