"""A worker whose clock is wrong: its readings, and what is removed, have the time of the crawl's Redis."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.crash.stores import SharedRedis
from tests.crawling import Crawl, crawl, records
from tests.databases.looking import Databases
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.wrong_clock import runner

SECONDS = 90
DAY = 86400
SLACK = timedelta(hours=1)
"""By less than this, everything is on time: the clocks are wrong by a day."""


def to_the_end(
    site: StandIn, out: Path, databases: Databases, server: RedisServer, *off_by: int
) -> list[Crawl]:
    """One crawl by as many workers, whose clocks are off by so many seconds."""
    shared = SharedRedis(server)
    with ExitStack() as running:
        runs = [
            running.enter_context(
                crawl(site.url, out, env=databases.env, runner=runner(off), **shared.options)
            )
            for off in off_by
        ]
        for run in runs:
            assert run.wait(SECONDS) == 0, run.log
    return runs


def on_time(moment: str | datetime) -> bool:
    when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return abs(datetime.now(UTC) - when) < SLACK


@pytest.mark.parametrize("off", [DAY, -DAY], ids=["ahead", "behind"])
def test_a_clock_that_is_a_day_off_changes_no_price_no_history_and_no_removal(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path, off: int
) -> None:
    """Whoever has crawled before: a wrong clock, then a right one, then one of each kind together."""
    site = stand_in(60)
    with RedisServer() as server:
        to_the_end(site, tmp_path, databases, server, off)
        ids = site.ids()
        dearer, gone = ids[10], set(ids[20:23])
        before = databases.documents()[dearer]["price_zar"]
        changes = databases.price_changes()
        for step, workers in enumerate([(0,), (off, -off)], start=1):
            site.churn(price={dearer: before + 1000 * step}, remove=sorted(gone) if step == 1 else [])
            runs = to_the_end(site, tmp_path, databases, server, *workers)
            history = [before + 1000 * n for n in range(step + 1)]
            assert databases.prices(dearer) == (history, history)
            assert databases.price_changes() == tuple(count + step for count in changes)
            assert databases.removed() == (gone, gone)
        last = runs[0].run_json()
    for found in (databases.documents(), databases.records()):
        times = [row[name] for row in found.values() for name in ("first_seen", "last_seen", "removed_at")]
        assert all(on_time(moment) for moment in times if moment is not None)
    assert all(on_time(record["scraped_at"]) for record in records(tmp_path))
    assert on_time(last["started_at"])
    assert on_time(last["ended_at"])
    assert last["started_at"] <= last["ended_at"]
    began = datetime.strptime(last["crawl_id"].partition("-")[0], "%Y%m%dT%H%M%SZ")
    assert on_time(began)


def test_a_clock_that_is_a_day_off_asks_for_no_specification_again(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """What others have fetched is as old as Redis says; and nothing of it is thrown away as too old."""
    site = stand_in(40)
    settings = {"CARS_SPEC_TTL": DAY // 2, "CARS_KEEP_PAGES": DAY // 2}
    with RedisServer() as server:
        url = server.url
        for number, off in enumerate((0, DAY, -DAY, 0)):
            site.reset_journal()
            with crawl(
                site.url, tmp_path / str(number), redis_url=url, settings=settings, runner=runner(off)
            ) as run:
                assert run.wait(SECONDS) == 0, run.log
            assert bool(site.counts()["specs"]) == (number == 0), run.log
