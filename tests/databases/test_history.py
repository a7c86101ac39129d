"""A crawl with both databases, and the crawls after it: what changes is what changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.stores import SharedRedis
from tests.crawling import Crawl, crawl
from tests.databases.looking import Databases, assert_same, waiting_bytes
from tests.redis_server import RedisServer
from tests.standin import StandIn

LISTINGS = int(os.environ.get("HISTORY_LISTINGS", "1200"))
"""`make test-whole` takes the whole catalogue."""
SECONDS = 90 + LISTINGS / 200


def read(site: StandIn, out: Path, databases: Databases, *arguments: str, status: int = 0) -> Crawl:
    """A crawl to its end."""
    with crawl(site.url, out, *arguments, env=databases.env) as run:
        assert run.wait(SECONDS) == status, run.log
    return run


def without(rows: dict[str, dict[str, Any]], *names: str) -> dict[str, dict[str, Any]]:
    return {key: {k: v for k, v in row.items() if k not in names} for key, row in rows.items()}


def test_every_store_has_every_listing_once_and_the_same(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS)
    run = read(site, tmp_path, databases)
    assert len(run.cars()) == LISTINGS
    assert databases.counts() == (LISTINGS, LISTINGS)
    assert_same(databases, tmp_path)
    assert waiting_bytes(tmp_path) == 0


def test_a_second_crawl_changes_nothing_but_last_seen(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS)
    read(site, tmp_path, databases)
    documents, rows = databases.documents(), databases.rows()
    read(site, tmp_path, databases)
    for before, after in ((documents, databases.documents()), (rows, databases.rows())):
        assert without(after, "last_seen") == without(before, "last_seen")
        assert all(after[key]["last_seen"] > before[key]["last_seen"] for key in before)


def test_prices_that_move_and_listings_that_go_are_history(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS)
    read(site, tmp_path, databases)
    ids = site.ids()
    dearer, gone = ids[10], set(ids[20:23])
    before = databases.documents()[dearer]["price_zar"]
    changes = databases.price_changes()
    site.churn(price={dearer: before + 1000}, remove=sorted(gone))
    read(site, tmp_path, databases)
    assert databases.prices(dearer) == ([before, before + 1000], [before, before + 1000])
    assert databases.price_changes() == tuple(count + 1 for count in changes)
    assert databases.removed() == (gone, gone)

    marked = {key: document["removed_at"] for key, document in databases.documents().items()}
    site.churn(price={dearer: before})
    read(site, tmp_path, databases)
    assert databases.prices(dearer) == (2 * ([before, before + 1000, before],))[:2]
    assert {key: document["removed_at"] for key, document in databases.documents().items()} == marked


def test_a_crawl_that_does_not_read_all_marks_nothing(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """By a limit, by a filter, or because something is broken for good."""
    site = stand_in(300)
    read(site, tmp_path, databases)
    gone = site.ids()[150:160]
    site.churn(remove=gone)
    read(site, tmp_path, databases, "-a", "limit=20")
    read(site, tmp_path, databases, "-a", "new_or_used=Used")
    offset = site.pages()[3].partition("offset%5D=")[2].partition("&")[0]
    site.faults([{"match": f"offset.{{3,4}}={offset}&", "fault": "status", "status": 500}])
    read(site, tmp_path, databases, "-s", "RETRY_TIMES=1", "-s", "DURABLE_RETRY_BASE_DELAY=0.01", status=1)
    assert databases.removed() == (set(), set())

    site.faults([])
    read(site, tmp_path, databases)
    assert databases.removed() == (set(gone), set(gone))


def test_what_comes_back_is_removed_no_more(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Two sites with the same beginning: the second lacks the first's newest listings, the third has them again."""
    larger, smaller = stand_in(120), stand_in(120)
    lost = larger.ids()[:7]
    smaller.churn(remove=lost)
    read(larger, tmp_path, databases)
    read(smaller, tmp_path, databases)
    assert databases.removed() == (set(lost), set(lost))
    read(larger, tmp_path, databases)
    assert databases.removed() == (set(), set())
    assert_same(databases, tmp_path)


def test_two_workers_on_one_redis_fill_both(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS, latency=0.02)
    gone = site.ids()[500:503]
    with RedisServer() as server:
        shared = SharedRedis(server)
        for round_ in range(2):
            runs = [crawl(site.url, tmp_path, env=databases.env, **shared.options) for _ in range(2)]
            for run in runs:
                with run:
                    assert run.wait(SECONDS) == 0, run.log
            if not round_:
                site.churn(remove=gone)
    assert databases.counts() == (LISTINGS, LISTINGS)
    assert databases.removed() == (set(gone), set(gone))
