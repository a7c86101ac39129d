"""Listings that were removed from the site are deleted from both databases after a time, when that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crawling import crawl
from tests.databases.looking import Databases
from tests.standin import StandIn


def test_what_is_removed_is_deleted_when_that_is_asked_for(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30)
    gone = set(site.ids()[:3])

    def run(**settings: object) -> None:
        with crawl(site.url, tmp_path, settings=settings, env=databases.env) as crawling:
            assert crawling.wait(120) == 0, crawling.log

    run()
    site.churn(remove=sorted(gone))
    run(CARS_DELETE_REMOVED_AFTER=86_400)
    assert databases.removed() == (gone, gone), "a day is not over yet"
    run(CARS_DELETE_REMOVED_AFTER=0)
    left = set(site.ids())
    assert databases.documents().keys() == databases.rows().keys() == left
    for listing in gone:
        assert databases.prices(listing) == ([], [])
