"""Of what was given up `run.json` lists a thousand and counts all, whether the crawl came to its end or was stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from scrapy_durable.crawl_numbers import LEFT
from scrapy_durable.frontier.contract import DeadLettered, Entry, Outbox, SlotLimit
from scrapy_durable.frontier.sqlite import SqliteFrontier
from tests.crawl.conftest import SECONDS, Site, Start

DEAD, LISTED = 1_200, 1_000
STOPPED: dict[str, Any] = {"CARS_PAGE_SIZE": 20, "CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 3}
"""By Scrapy itself, after robots.txt and two of many answers."""


async def give_up(path: Path, number: int) -> None:
    """Have so many requests pushed, leased and dead_lettered, in the frontier that a stopped crawl has left."""
    frontier = SqliteFrontier(path, worker="grave", limits={}, default_limit=SlotLimit(cap=0))
    try:
        status = await frontier.status()
        assert status.crawl_id is not None
        await frontier.begin(status.crawl_id, status.identity)
        waiting = status.total.queued + status.total.delayed
        ours = [Entry(10**9 + key, "slot", "parse_specs", b"") for key in range(number)]
        inbox = await frontier.exchange(Outbox(entries=ours), number + waiting)
        keys = {entry.key for entry in ours}
        dead_lettered = [
            DeadLettered(lease.held, "status 500") for lease in inbox.leases if lease.key in keys
        ]
        returns = [lease.held for lease in inbox.leases if lease.key not in keys]
        await frontier.exchange(Outbox(dead_lettered=dead_lettered, releases=returns, report={LEFT: 1}), 0)
        assert (await frontier.status()).total.dead == number
    finally:
        await frontier.close()


def test_more_than_a_thousand_are_counted(site: Site, start: Start, tmp_path: Path) -> None:
    jobdir = tmp_path / "job"
    first = start(jobdir=jobdir, settings=STOPPED)
    assert first.wait(SECONDS) == 1, first.log
    assert first.run_json()["given_up_count"] == 0
    asyncio.run(give_up(jobdir / "frontier.sqlite", DEAD))

    stopped = start(jobdir=jobdir, settings=STOPPED)
    assert stopped.wait(SECONDS) == 1, stopped.log
    told = stopped.run_json()
    assert told["status"] == "stopped: closespider_pagecount"
    assert (told["given_up_count"], len(told["given_up"])) == (DEAD, LISTED)
    assert f"{DEAD} requests were given up" in told["reasons"]

    ended = start(jobdir=jobdir, settings={"CARS_PAGE_SIZE": 20})
    assert ended.wait(SECONDS) == 1, ended.log
    told = ended.run_json()
    assert (told["status"], told["kept"]) == ("incomplete", len(site.catalogue.ids))
    assert (told["given_up_count"], len(told["given_up"])) == (DEAD, LISTED)
    assert told["reasons"] == [f"{DEAD} requests were given up"]
