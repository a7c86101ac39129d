"""A `Crawl-delay` in robots.txt is the least interval, as long as it is within what the operator allows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawling import crawl
from tests.standin import StandIn


@pytest.mark.parametrize(
    ("robots", "asked", "least"),
    [
        ("User-agent: *\nCrawl-delay: 100\n", "100", 500),
        ("User-agent: carscraper\nCrawl-delay: 0.25\n\nUser-agent: *\nCrawl-delay: 100\n", "0.25", 250),
    ],
)
def test_the_site_is_asked_no_faster_than_it_wishes(
    stand_in: Callable[..., StandIn], tmp_path: Path, robots: str, asked: str, least: int
) -> None:
    site = stand_in(3)
    site.faults([{"match": "robots", "fault": "status", "status": 200, "body": robots}])
    settings = {
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_DEBUG": True,
        "AUTOTHROTTLE_START_DELAY": 0.01,
        "AUTOTHROTTLE_MAX_DELAY": 0.5,
    }
    with crawl(site.url, tmp_path, settings=settings) as run:
        assert run.wait(120) == 0, run.log
    assert run.log.count(f"robots.txt asks for {asked} s between two requests (Crawl-delay)") == 1
    intervals = [int(text) for text in re.findall(r"interval (\d+) ms before this answer", run.log)]
    assert intervals[-1] >= least, run.log


def test_a_site_that_wishes_nothing_is_asked_as_fast_as_it_answers(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(3)
    with crawl(site.url, tmp_path, settings={"AUTOTHROTTLE_ENABLED": True}) as run:
        assert run.wait(120) == 0, run.log
    assert "Crawl-delay" not in run.log
