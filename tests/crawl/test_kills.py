"""Killed at any moment, a crawl leaves whole files, loses no committed batch, and can go on."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import torn_files, wait_until

KILLS = 10
SMALL = {
    "CARS_PAGE_SIZE": 10,
    "CARS_BATCH_SIZE": 10,
    "CARS_BATCH_SECONDS": 0.05,
    "DURABLE_LEASE_SECONDS": 0.5,
    "CONCURRENT_REQUESTS": 4,
}
"""So many small steps that kills fall between them."""
ANSWERS = 6
"""Pages and specs that a crawl is answered before it is killed: ten times that are too few for it to end."""


def test_ten_kills_lose_no_committed_batch_and_tear_no_file(site: Site, start: Start, tmp_path: Path) -> None:
    """Each run goes on where the one before was killed; the last one is left to its end."""
    chance = random.Random(20261120)
    (tmp_path / "data").mkdir()
    earlier = b'[\n{"id":"of an earlier crawl"}\n]\n'
    (tmp_path / "data" / "cars.json").write_bytes(earlier)
    committed: dict[str, bytes] = {}
    at_kill = []

    for kill in range(KILLS):
        site.standin.faults(
            [
                {"match": "/fw/public", "fault": "hang", "after": ANSWERS},
                {"fault": "delay", "seconds": 0.15},
            ]
        )
        run = start(jobdir=tmp_path / "job", settings=SMALL)
        wait_until(lambda run=run: "Spider opened" in run.log or not run.running)
        if kill % 2:
            number = len(committed)
            wait_until(lambda number=number: len(batches(tmp_path)) > number, what="a batch is committed")
        time.sleep(chance.uniform(0.0, 1.0))
        assert run.kill() == -signal.SIGKILL, run.log
        assert torn_files(tmp_path / "data") == []
        assert (tmp_path / "data" / "cars.json").read_bytes() == earlier
        assert {name: batches(tmp_path).get(name) for name in committed} == committed
        committed = batches(tmp_path)
        at_kill.append(len(committed))

    site.standin.faults([])
    run = start(jobdir=tmp_path / "job", settings=SMALL)
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.catalogue.ids)
    assert {name: batches(tmp_path).get(name) for name in committed} == committed
    # The test would show nothing if every kill came before the first batch or after the last.
    assert len(set(at_kill)) > 2, at_kill


def test_a_crawl_killed_without_jobdir_leaves_the_earlier_result_and_the_next_starts_afresh(
    site: Site, start: Start, tmp_path: Path
) -> None:
    earlier = start()
    assert earlier.wait(SECONDS) == 0, earlier.log
    cars = (tmp_path / "data" / "cars.json").read_bytes()

    site.standin.faults([{"match": "offset%5D=1[0-9]0&", "fault": "hang"}])
    before = batches(tmp_path).keys()
    killed = start(settings=SMALL)
    wait_until(lambda: len(batches(tmp_path).keys() - before) >= 3)
    killed.kill()
    assert (tmp_path / "data" / "cars.json").read_bytes() == cars
    assert torn_files(tmp_path / "data") == []

    site.standin.faults([])
    again = start(settings=SMALL)
    assert again.wait(SECONDS) == 0, again.log
    assert len(again.cars()) == LISTINGS
    left = {path.name for path in (tmp_path / "data" / "batches").iterdir()}
    assert left == {json.loads((tmp_path / "data" / "run.json").read_bytes())["crawl_id"]}


def batches(directory: Path) -> dict[str, bytes]:
    """Every committed batch by its name."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.glob("data/batches/*/*.jsonl")
        if not path.name.startswith(".")
    }
