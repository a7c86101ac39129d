"""Feeds of cars hold each listing once, in whole files, however often the crawl is killed: counted by listing id."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from carscraper.export.tables import columns
from tests.crash.stores import SharedRedis, Store
from tests.crash.test_random_kills import KILLS, SMALL_STEPS, SURE_HITS, kill_at_random
from tests.crawling import Crawl, crawl, wait_until
from tests.standin import StandIn

SEEDS = int(os.environ.get("CRASH_SEEDS", "3"))
LISTINGS = 400
COLUMNS = [column.name for column in columns()]
GZIP = "scrapy.extensions.postprocessing.GzipPlugin"
BATCH = 90
WORKERS = 3
OF_EACH_WORKER: dict[str, dict[str, Any]] = {
    "%(worker)s.jl": {"format": "jsonlines"},
    "%(worker)s.csv": {"format": "csv"},
    "%(worker)s.json": {"format": "json", "overwrite": True},
    "%(worker)s.xml": {"format": "xml", "overwrite": True},
}
FEEDS: dict[str, dict[str, Any]] = {
    "cars.jl": {"format": "jsonlines"},
    "cars.csv": {"format": "csv"},
    "few.csv": {"format": "csv", "fields": ["id", "price_zar"], "overwrite": True},
    "replaced.jl": {"format": "jsonlines", "fields": ["id"], "overwrite": True},
    "cars.json": {"format": "json", "overwrite": True},
    "cars.xml": {"format": "xml", "overwrite": True},
    "cars.parquet": {"format": "parquet", "overwrite": True},
    "cars.jl.gz": {"format": "jsonlines", "postprocessing": [GZIP], "overwrite": True},
    "part-%(batch_id)d.csv": {"format": "csv", "batch_item_count": BATCH, "overwrite": True},
}


def ids_in(path: Path) -> list[str]:
    """The listings of a feed, which has to be whole."""
    name = path.name
    if name.endswith(".csv"):
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header in (COLUMNS, ["id", "price_zar"]), name
        assert {len(row) for row in rows} <= {len(header)}, name
        return [row[header.index("id")] for row in rows]
    if name.endswith(".parquet"):
        return [str(number) for number in pq.read_table(path)["id"].to_pylist()]
    if name.endswith(".xml"):
        return [item.findtext("id") or "" for item in ElementTree.parse(path).getroot()]
    data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    if name.endswith(".json"):
        return [record["id"] for record in json.loads(data)]
    assert not data or data.endswith(b"\n"), name
    return [json.loads(line)["id"] for line in data.splitlines()]


def found_in(directory: Path) -> dict[str, list[str]]:
    """The listings of each feed, batches as one, by its name; sorted."""
    batches = sorted(directory.glob("part-*.csv"), key=lambda path: int(path.stem.partition("-")[2]))
    counts = [len(ids_in(path)) for path in batches]
    assert counts[:-1] == [BATCH] * len(counts[:-1]), counts
    found = {name: ids_in(directory / name) for name in FEEDS if "%" not in name}
    found["batches"] = [number for path in batches for number in ids_in(path)]
    assert not list(directory.glob("*incomplete*"))
    return {name: sorted(ids) for name, ids in found.items()}


def has_joined(run: Crawl) -> bool:
    """Or has ended before it could."""
    return "Going on with crawl" in run.log or "Beginning crawl" in run.log or not run.running


@pytest.mark.slow
def test_two_kills_leave_each_listing_once_in_what_o_has_asked_for(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS, latency=0.05)
    asked = ("-o", str(tmp_path / "cars.jl"), "-o", str(tmp_path / "cars.csv"))

    def start() -> Crawl:
        return crawl(site.url, tmp_path / "out", *asked, settings=SMALL_STEPS, jobdir=tmp_path / "job")

    for answers in (12, 30):
        site.faults([{"match": "/specs/", "fault": "hang", "after": answers}])
        before = site.counts()["specs"]
        with start() as run:
            wait_until(lambda: site.counts()["specs"] > before + answers or not run.running)  # noqa: B023
            assert run.running, run.log
    site.faults([])
    with start() as run:
        assert run.wait(60) == 0, run.log
    assert sorted(ids_in(tmp_path / "cars.jl")) == sorted(site.ids())
    assert sorted(ids_in(tmp_path / "cars.csv")) == sorted(site.ids())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_five_kills_at_random_moments_leave_each_listing_once_in_every_feed(
    seed: int, store: Store, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    chance = random.Random(seed)
    site = stand_in(LISTINGS, seed=seed + 1, latency=0.1)
    feeds = {str(tmp_path / "feeds" / name): options for name, options in FEEDS.items()}
    if "redis_url" in store.options:  # batches of all workers would have the same names
        feeds = {name.replace("part-", "part-%(worker)s-"): options for name, options in feeds.items()}
    settings = {**SMALL_STEPS, "FEEDS": json.dumps(feeds)}
    options = {"jobdir": tmp_path / "job", **store.options}
    hit = 0
    for kill in range(KILLS):
        share = {"match": "/specs/", "fault": "hang", "after": chance.randint(5, 25)}
        site.faults([share] if kill < SURE_HITS else [])
        with crawl(site.url, tmp_path / "out", settings=settings, **options) as run:
            hit += kill_at_random(run, site, chance)
    with crawl(site.url, tmp_path / "out", settings=settings, **options) as run:
        assert run.wait(60) == 0, run.log
    assert hit >= SURE_HITS, "the kills came too late to test anything"
    for path in (tmp_path / "feeds").glob("part-*-*.csv"):
        path.rename(path.with_name(f"part-{path.stem.rpartition('-')[2]}.csv"))
    everything = sorted(site.ids())
    found = found_in(tmp_path / "feeds")
    assert found == dict.fromkeys(found, everything), run.log[-10_000:]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_five_kills_of_three_workers_leave_each_listing_once_in_their_feeds_together(
    seed: int, shared: SharedRedis, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """The site shows some listings on every page, and so to every worker. It has more specifications than it answers
    before the last kill.
    """
    chance = random.Random(seed)
    site = stand_in(3 * LISTINGS, seed=seed + 1, latency=0.05)
    feeds = {str(tmp_path / "feeds" / name): options for name, options in OF_EACH_WORKER.items()}
    settings = {**SMALL_STEPS, "DURABLE_LEASE_SECONDS": 20, "FEEDS": json.dumps(feeds)}

    def start(number: int) -> Crawl:
        run = crawl(
            site.url,
            tmp_path / "out",
            settings=settings,
            jobdir=tmp_path / f"job-{number}",
            **shared.options,
        )
        return running.enter_context(run)

    with ExitStack() as running:
        site.faults([{"match": "/specs/", "fault": "hang", "after": 5}])
        runs = [start(number) for number in range(WORKERS)]
        for _ in range(KILLS):
            number = chance.randrange(WORKERS)
            if chance.random() > 0.3:  # else while it starts
                wait_until(lambda: has_joined(runs[number]))  # noqa: B023
            time.sleep(chance.uniform(0.0, 0.8))
            assert runs[number].running, runs[number].log
            runs[number].kill()
            runs[number] = start(number)
            site.faults([{"match": "/specs/", "fault": "hang", "after": chance.randint(2, 12)}])
        for run in runs:
            wait_until(lambda: has_joined(run))  # noqa: B023
        site.faults([])
        assert [run.wait(60) for run in runs] == [0] * WORKERS, "\n".join(run.log[-10_000:] for run in runs)
    assert not list((tmp_path / "feeds").glob("*incomplete*"))
    for kind in ("jl", "csv", "json", "xml"):
        files = list((tmp_path / "feeds").glob(f"*.{kind}"))
        assert len(files) == WORKERS
        assert sorted(number for path in files for number in ids_in(path)) == sorted(site.ids()), kind
