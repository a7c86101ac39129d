"""The bounds on memory hold with everything switched on that a record can go to: both databases, and a feed of CSV.

Each crawl is a process of its own, whose memory is read from outside; the site is a raw one, the databases are real.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.crawling import Crawl, crawl
from tests.databases.looking import Databases, two_servers
from tests.hostile.test_bounds import FEW_TRIES, MEMORY, SECONDS, gzipped, reasons, with_specs
from tests.raw_site import RawCatalogue, RawSite, http, spec
from tests.server_process import hold_port
from tests.watching import disk_usage, wait_and_watch

FULL_MEMORY = 300_000_000
"""What docs/security.md allows a crawl into all of them, of specifications that are as large as they may be."""
LARGEST = 250_000
"""Bytes of a specification that is nearly as large as one may be."""


@pytest.fixture(scope="module")
def _servers() -> Iterator[Databases]:
    with two_servers() as databases:
        yield databases


@pytest.fixture
def databases(_servers: Databases) -> Databases:
    """Empty ones."""
    return Databases(_servers.mongo, _servers.postgres)


def watched(
    catalogue: RawCatalogue, tmp_path: Path, env: Mapping[str, str], most: int = MEMORY, **settings: object
) -> tuple[int, Crawl]:
    """Crawl the catalogue into all of them; the exit status, once the memory was found to be little."""
    output_dir, feed = tmp_path / "out", str(tmp_path / "cars.csv")
    with (
        RawSite(catalogue) as site,
        crawl(site.url, output_dir, "-O", feed, settings={**FEW_TRIES, **settings}, env=env) as run,
    ):
        status, memory = wait_and_watch(run, SECONDS)
    assert memory < most, f"{memory} bytes:\n{run.log}"
    assert "Traceback" not in run.log
    return status, run


def assert_everywhere(catalogue: RawCatalogue, specs: set[str], tmp_path: Path, databases: Databases) -> None:
    """Each of the stores has all listings, and those with their specification."""
    csv.field_size_limit(sys.maxsize)
    with (tmp_path / "cars.csv").open(newline="", encoding="utf-8") as file:
        fed = [row["id"] for row in csv.DictReader(file)]
    assert sorted(fed) == sorted(catalogue.ids)
    for stored in (databases.documents(), databases.records()):
        assert stored.keys() == set(catalogue.ids)
        assert {key for key, record in stored.items() if record["car_specs"] is not None} == specs


def test_a_specification_of_8_mb_that_1000_listings_share_costs_itself(
    databases: Databases, tmp_path: Path
) -> None:
    catalogue = RawCatalogue(1000, shared=True)
    other = catalogue.listings[500]
    other["attributes"]["code"] = "another="
    catalogue.specs[catalogue.spec_path(0)] = gzipped(spec(8_000_000))
    status, run = watched(catalogue, tmp_path, databases.env)
    assert status == 1
    assert with_specs(run) == {other["id"]}
    assert reasons(run).keys() == set(catalogue.ids) - {other["id"]}
    assert_everywhere(catalogue, {other["id"]}, tmp_path, databases)
    assert disk_usage(tmp_path) < 20_000_000


@pytest.mark.parametrize("way", ["packed", "plain"])
def test_60_specifications_of_8_mb_cost_themselves(databases: Databases, tmp_path: Path, way: str) -> None:
    catalogue = RawCatalogue(70)
    large = spec(8_260_000)
    for number in range(60):
        catalogue.specs[catalogue.spec_path(number)] = gzipped(large) if way == "packed" else http(large)
    status, run = watched(catalogue, tmp_path, databases.env)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[60:])
    assert_everywhere(catalogue, set(catalogue.ids[60:]), tmp_path, databases)
    assert disk_usage(tmp_path) < 5_000_000


@pytest.mark.parametrize("shared", [False, True], ids=["each its own", "one for all"])
def test_specifications_as_large_as_they_may_be_are_kept_everywhere_within_the_same_memory(
    databases: Databases, tmp_path: Path, shared: bool
) -> None:
    """The counterpart: what is within the bounds is an answer like any other."""
    catalogue = RawCatalogue(300, shared=shared)
    for number in range(1 if shared else 300):
        catalogue.specs[catalogue.spec_path(number)] = gzipped(spec(LARGEST, number))
    status, run = watched(catalogue, tmp_path, databases.env, FULL_MEMORY)
    assert status == 0, run.log
    assert with_specs(run) == set(catalogue.ids)
    assert_everywhere(catalogue, set(catalogue.ids), tmp_path, databases)


def test_listings_as_large_as_they_may_be_are_kept_everywhere_within_the_same_memory(
    databases: Databases, tmp_path: Path
) -> None:
    catalogue = RawCatalogue(64, shared=True)
    for number, one in enumerate(catalogue.listings):
        one["attributes"]["description"] = f"{number} " * (250_000 // len(f"{number} "))
    status, run = watched(catalogue, tmp_path, databases.env, CARS_PAGE_SIZE=16)
    assert status == 0, run.log
    assert_everywhere(catalogue, set(catalogue.ids), tmp_path, databases)


def test_pages_of_records_as_large_as_they_may_be_are_kept_everywhere_within_the_same_memory(
    databases: Databases, tmp_path: Path
) -> None:
    """Ten pages of 4 MB, whose listings each wait for a specification of their own; as many at once as by default."""
    catalogue = RawCatalogue(160)
    for number, one in enumerate(catalogue.listings):
        one["attributes"]["description"] = f"{number} " * (240_000 // len(f"{number} "))
        catalogue.specs[catalogue.spec_path(number)] = gzipped(spec(LARGEST, number))
    few = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 4, "CARS_PAGE_SIZE": 16}
    status, run = watched(catalogue, tmp_path, databases.env, FULL_MEMORY, **few)
    assert status == 0, run.log
    assert with_specs(run) == set(catalogue.ids)
    assert_everywhere(catalogue, set(catalogue.ids), tmp_path, databases)


def test_databases_that_are_down_take_up_disk_and_not_memory(tmp_path: Path) -> None:
    """Records as large as they may be wait for both of them."""
    catalogue = RawCatalogue(300)
    for number in range(300):
        catalogue.specs[catalogue.spec_path(number)] = gzipped(spec(LARGEST, number))
    with hold_port() as nobody:
        port = nobody.getsockname()[1]
        env = {
            "MONGO_URI": f"mongodb://127.0.0.1:{port}/cars?serverSelectionTimeoutMS=100",
            "POSTGRES_DSN": f"host=127.0.0.1 port={port} dbname=cars user=me",
        }
        status, run = watched(catalogue, tmp_path, env, FULL_MEMORY, CARS_STORE_TIMEOUT=1)
    assert status == 1
    waiting = run.run_json()["undelivered"]
    assert waiting.keys() == {"MongoDB", "PostgreSQL"}
    assert all(number >= 300 for number in waiting.values())
    assert disk_usage(tmp_path / "out" / "crawls") < 3 * 300 * 512 * 1024
