"""Killed at any moment, a crawl leaves whole files, loses nothing that was flushed, and can go on."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import Crawl, torn_files, wait_until
from tests.kept import kept_records, segments

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


def test_ten_kills_lose_nothing_that_was_flushed_and_tear_no_file(
    site: Site, start: Start, tmp_path: Path
) -> None:
    """Each run goes on where the one before was killed; the last one is left to its end."""
    chance = random.Random(20261120)
    (tmp_path / "data").mkdir()
    earlier = b'[\n{"id":"of an earlier crawl"}\n]\n'
    (tmp_path / "data" / "cars.json").write_bytes(earlier)
    flushed: dict[str, bytes] = {}
    at_kill = []

    for kill in range(KILLS):
        site.standin.reset_journal()
        site.standin.faults(
            [
                {"match": "/fw/public", "fault": "hang", "after": ANSWERS},
                {"fault": "delay", "seconds": 0.15},
            ]
        )
        run = start(jobdir=tmp_path / "job", settings=SMALL)
        wait_until(lambda run=run: "Spider opened" in run.log or not run.running)
        if kill % 2:
            number = len(kept_records(tmp_path))
            wait_until(
                lambda run=run, n=number: has_got_on(run, site, tmp_path, n), what="something is flushed"
            )
        time.sleep(chance.uniform(0.0, 1.0))
        assert run.kill() == -signal.SIGKILL, run.log
        assert torn_files(tmp_path / "data") == []
        assert (tmp_path / "data" / "cars.json").read_bytes() == earlier
        assert is_still_there(flushed, tmp_path)
        flushed = segments(tmp_path)
        at_kill.append(len(kept_records(tmp_path)))

    site.standin.faults([])
    run = start(jobdir=tmp_path / "job", settings=SMALL)
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.catalogue.ids)
    assert is_still_there(flushed, tmp_path)
    # The test would show nothing if every kill came before the first flush or after the last.
    assert len(set(at_kill)) > 2, at_kill


def test_a_crawl_killed_without_jobdir_leaves_the_earlier_result_and_the_next_starts_afresh(
    site: Site, start: Start, tmp_path: Path
) -> None:
    earlier = start()
    assert earlier.wait(SECONDS) == 0, earlier.log
    cars = (tmp_path / "data" / "cars.json").read_bytes()

    site.standin.faults([{"match": "offset%5D=1[0-9]0&", "fault": "hang"}])
    before = len(kept_records(tmp_path))
    killed = start(settings=SMALL)
    wait_until(lambda: len(kept_records(tmp_path)) >= before + 3)
    killed.kill()
    assert (tmp_path / "data" / "cars.json").read_bytes() == cars
    assert torn_files(tmp_path / "data") == []

    site.standin.faults([])
    again = start(settings=SMALL)
    assert again.wait(SECONDS) == 0, again.log
    assert len(again.cars()) == LISTINGS
    left = {path.name for path in (tmp_path / "data" / "crawls").glob("[!.]*")}
    assert left == {json.loads((tmp_path / "data" / "run.json").read_bytes())["crawl_id"]}


def has_got_on(run: Crawl, site: Site, directory: Path, before: int) -> bool:
    """Whether it has flushed more than so many records, or can no longer: what it was answered may have been pages
    only, some of them twice where a lease has expired, and now every place waits for an answer that never comes.
    """
    assert run.running, run.log
    counts = site.standin.counts()
    held = counts["pages"] + counts["specs"] - ANSWERS
    return held >= SMALL["CONCURRENT_REQUESTS"] or len(kept_records(directory)) > before


def is_still_there(before: dict[str, bytes], directory: Path) -> bool:
    """Whether what was flushed is still the beginning of each file."""
    now = segments(directory)
    return all(now.get(name, b"").startswith(content) for name, content in before.items())
