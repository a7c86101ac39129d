"""Sites whose pages have no end: the walk over them ends, says at which page, and has kept what is there."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import redis

from carscraper.api.endpoints import search_url
from carscraper.catalogue.walk import AHEAD
from tests.crawling import Crawl, crawl, wait_until
from tests.hostile.conftest import LISTINGS, SECONDS, Start
from tests.measured import MEASURED, taken
from tests.redis_server import RedisServer
from tests.standin import PAGE_PATH, StandIn

PAGE = 20
PAGES = LISTINGS // PAGE
SETTINGS = {"CARS_PAGE_SIZE": PAGE, **MEASURED}
FAR = "http://site/fw/public/v3/vehicle?page%5Boffset%5D=1000000000&page%5Blimit%5D=20"


def edited(path: str, to: object, match: str = PAGE_PATH) -> dict[str, Any]:
    return {"match": match, "fault": "edit", "path": path, "do": "set", "to": to}


def endless(**options: object) -> dict[str, Any]:
    return {"match": PAGE_PATH, "fault": "endless", **options}


ENDED = "the pages were read to offset"
NAMES_NEXT = "though that one names a next"
ENDLESS = {
    "a next page for ever, all of them empty": (endless(), NAMES_NEXT),
    "the same listings for ever": (endless(listings=LISTINGS), NAMES_NEXT),
    "the same page for ever": (endless(listings=PAGE, total=PAGE), NAMES_NEXT),
    "10^9 listings": (edited("meta.total", 10**9), "though the site announces 1000000000 listings"),
    "2^63 listings": (edited("meta.total", 2**63), f"though the site announces {2**63} listings"),
    "10^9 listings, the same again and again": (
        endless(next=False, listings=LISTINGS, total=10**9),
        "though the site announces 1000000000 listings",
    ),
}
WHOLE = {
    "a next page that is far away once": (edited("links.next", FAR, "offset%5D=100&"), 1),
    "a next page that is always far away": (edited("links.next", FAR), 1),
    "fewer listings than there are": (edited("meta.total", PAGE), 2),
    "no total": ({"match": PAGE_PATH, "fault": "edit", "path": "meta.total", "do": "drop"}, 2),
}


@pytest.fixture(scope="module")
def usual_memory(shared_site: StandIn, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The most bytes that a crawl of the site without faults has resident."""
    shared_site.faults([])
    output_dir = tmp_path_factory.mktemp("usual") / "data"
    with crawl(shared_site.url, output_dir, settings=SETTINGS) as run:
        assert run.wait(SECONDS) == 0, run.log
    return taken(run.log)[1]


def kept(run: Crawl) -> list[str]:
    """The ids in the file that the run has published."""
    records = json.loads((run.output_dir / run.run_json()["published"]).read_bytes())
    return sorted(record["id"] for record in records)


@pytest.mark.parametrize("what", list(ENDLESS))
def test_a_walk_without_an_end_is_ended_and_names_the_page(
    what: str, site: StandIn, start: Start, usual_memory: int
) -> None:
    rule, though = ENDLESS[what]
    site.faults([rule])
    run = start(settings=SETTINGS)
    assert run.wait(SECONDS) == 1, run.log
    shown = site.ids()[:PAGE] if "same page" in what else site.ids()
    assert set(shown) <= set(kept(run))
    # Of pages that are the same, those under way at once may all be the first.
    assert len(site.pages()) <= PAGES + 2 * AHEAD
    [reason] = run.run_json()["reasons"]
    assert reason.startswith(ENDED)
    assert reason.endswith(though)
    asked = [int(page.partition("offset%5D=")[2].partition("&")[0]) for page in site.pages()]
    assert f"{ENDED} {max(asked)} and no further" in reason
    assert reason in run.log
    assert taken(run.log)[1] < usual_memory * 1.5


@pytest.mark.parametrize("what", list(WHOLE))
def test_a_catalogue_that_was_read_as_a_whole_is_complete_whatever_the_site_announces(
    what: str, site: StandIn, start: Start
) -> None:
    rule, passes = WHOLE[what]
    site.faults([rule])
    run = start(settings=SETTINGS)
    assert run.wait(SECONDS) == 0, run.log
    assert kept(run) == sorted(site.ids())
    told = run.run_json()
    assert (told["passes"], told["kept"], told["expected"]) == (passes, LISTINGS, LISTINGS)
    assert len(site.pages()) <= passes * (PAGES + 1)


def test_a_next_page_that_is_far_away_is_said_once(site: StandIn, start: Start) -> None:
    site.faults([edited("links.next", FAR)])
    run = start(settings=SETTINGS)
    assert run.wait(SECONDS) == 0, run.log
    assert run.log.count("names a next one that leads astray") == 1
    assert not [page for page in site.pages() if "=1000000000" in page]


@pytest.mark.parametrize("odd", [20, None], ids=["a next page that is a number", "no links"])
def test_a_page_that_tells_no_total_and_no_readable_next_page_does_not_pass_for_the_last(
    odd: int | None, site: StandIn, start: Start
) -> None:
    gone = {"drop": True}
    sets = [["links", gone] if odd is None else ["links.next", odd], ["meta.total", gone]]
    site.faults([{"match": PAGE_PATH, "fault": "shape", "whole": True, "sets": sets}])
    run = start(settings=SETTINGS)
    assert run.wait(SECONDS) == 1, run.log
    assert kept(run) == sorted(site.ids())
    assert run.run_json()["kept"] == LISTINGS
    assert run.run_json()["reasons"]
    assert len(site.pages()) <= 4 * (PAGES + 2 * AHEAD)


def test_more_listings_than_there_are_never_turn_up(site: StandIn, start: Start) -> None:
    site.faults([edited("meta.total", LISTINGS + 30)])
    run = start(settings=SETTINGS)
    assert run.wait(SECONDS) == 1, run.log
    assert kept(run) == sorted(site.ids())
    [reason] = run.run_json()["reasons"]
    assert reason.startswith(
        "30 listings of the API's total never turned up; the last page that named any begins at"
    )


def test_no_more_listings_are_believed_than_the_setting_says(site: StandIn, start: Start) -> None:
    run = start(settings={**SETTINGS, "CARS_MAX_LISTINGS": 100})
    assert run.wait(SECONDS) == 1, run.log
    assert len(site.pages()) == 5
    assert set(site.ids()[:100]) <= set(kept(run))
    [reason] = run.run_json()["reasons"]
    assert f"{ENDED} 80 and no further: CARS_MAX_LISTINGS is 100" in reason


def test_a_limit_leaves_a_walk_without_an_end_no_page(site: StandIn, start: Start) -> None:
    site.faults([endless(listings=LISTINGS, total=10**9)])
    run = start("-a", "limit=50", settings=SETTINGS)
    assert run.wait(SECONDS) == 0, run.log
    assert len(site.pages()) == 3


# Killed, and with several workers.


def test_a_crawl_that_is_killed_on_a_walk_without_an_end_goes_on_to_it(
    site: StandIn, start: Start, tmp_path: Path
) -> None:
    rule = endless(listings=LISTINGS, total=10**9)
    for hang_after in (15, 25):
        site.faults([{"match": PAGE_PATH, "fault": "hang", "after": hang_after}, rule])
        run = start(settings=SETTINGS, jobdir=tmp_path / "job")
        seen = len(site.pages())
        wait_until(lambda seen=seen: len(site.pages()) > seen + 15, SECONDS, what="pages")  # type: ignore[misc]
        run.send(signal.SIGKILL)
        run.wait(SECONDS)
    site.faults([rule])
    run = start(settings={**SETTINGS, "DURABLE_LEASE_SECONDS": 1}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    assert "Going on with crawl" in run.log
    assert kept(run) == sorted(site.ids())
    assert ENDED in run.run_json()["reasons"][0]
    assert len(site.pages()) <= 3 * (PAGES + 2 * AHEAD)


def test_several_workers_end_a_walk_without_an_end(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    site.faults([endless(listings=LISTINGS, total=10**9)])
    runs = [start(settings=SETTINGS, redis_url=server.url) for _ in range(2)]
    for run in runs:
        assert run.wait(SECONDS) == 1, run.log
    assert kept(runs[0]) == sorted(site.ids())
    assert ENDED in runs[0].run_json()["reasons"][0]
    assert len(site.pages()) <= PAGES + 4 * AHEAD


def test_a_search_that_was_pushed_and_has_no_end_is_ended(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    site.faults([{**endless(), "match": "keyword=audi"}])
    pushed = f"{search_url(site.url, offset=0, limit=PAGE)}&keyword=audi"
    client.lpush("cars:start_urls", pushed)
    run = start(settings=SETTINGS, redis_url=server.url)
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert f"{AHEAD} in a row have brought nothing new" in run.log
    asked = [page for page in site.pages() if "keyword=audi" in page]
    assert AHEAD <= len(asked) <= AHEAD + PAGES
