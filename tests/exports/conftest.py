"""One crawl by the real command line, which fed every format at once, for all tests of a module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from carscraper.export.tables import Row, Rows
from carscraper.items import Car
from tests.crawling import crawl
from tests.standin import StandIn

LISTINGS = 250
SECONDS = 120


@dataclass(frozen=True)
class Crawled:
    """What a crawl has left: its output directory, and `cars.csv`, `.parquet`, `.jsonl` in `feeds`."""

    standin: StandIn
    output_dir: Path
    feeds: Path

    def cars(self) -> list[Car]:
        """The records of `cars.json`, in its order, read by Python's own parser."""
        records: list[dict[str, Any]] = json.loads((self.output_dir / "cars.json").read_bytes())
        return [Car(**record) for record in records]

    def rows(self, *, raw: bool = False) -> list[Row]:
        """Their rows."""
        table = Rows(raw=raw)
        return [table.of(car) for car in self.cars()]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    directory = tmp_path_factory.mktemp("crawled")
    feeds = [str(directory / f"cars.{suffix}") for suffix in ("csv", "parquet", "jsonl")]
    with StandIn(LISTINGS, seed=3) as standin:
        arguments = [word for feed in feeds for word in ("-O", feed)]
        with crawl(standin.url, directory / "data", *arguments) as run:
            assert run.wait(SECONDS) == 0, run.log
        yield Crawled(standin, directory / "data", directory)
