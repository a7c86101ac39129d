"""What stops a crawl: a challenge, an API that has changed, a robots.txt that cannot be had; all can go on after."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scrapy_durable.retry.challenge import is_challenge
from tests.crawling import records
from tests.exchanges import LOGGED, sends
from tests.hostile.conftest import LISTINGS, SECONDS, Start
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn

JUST_A_MOMENT = b"<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>"


@pytest.mark.parametrize(
    ("status", "mitigated", "body"),
    [
        (403, None, JUST_A_MOMENT),
        (503, None, JUST_A_MOMENT),
        (200, None, JUST_A_MOMENT),
        (200, None, b"\xef\xbb\xbf\n " + JUST_A_MOMENT.upper()),
        (403, b"challenge", b""),
        (429, None, b"<html><script src='/cdn-cgi/challenge-platform/h/b'></script></html>"),
        (403, None, b"<html><title>Attention Required! | Cloudflare</title></html>"),
    ],
)
def test_pages_that_want_a_human_being_are_challenges(
    status: int, mitigated: bytes | None, body: bytes
) -> None:
    assert is_challenge(status, mitigated, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'{"data": [{"title": "Just a moment..."}]}'),
        (200, b"<html><h1>Maintenance</h1></html>"),
        (403, b"<html><h1>Forbidden</h1></html>"),
        (503, b"Just a moment"),
        (404, JUST_A_MOMENT),
        (500, b""),
    ],
)
def test_other_pages_and_answers_are_none(status: int, body: bytes) -> None:
    assert not is_challenge(status, None, body)


@pytest.mark.parametrize(
    ("match", "status"), [(SPEC_PATH, 403), (SPEC_PATH, 503), (SPEC_PATH, 200), (PAGE_PATH, 403)]
)
def test_a_challenge_stops_the_crawl_and_nothing_else_is_asked(
    site: StandIn, start: Start, tmp_path: Path, match: str, status: int
) -> None:
    polite = {"CONCURRENT_REQUESTS_PER_DOMAIN": 4, "CARS_PAGE_SIZE": 50, "DOWNLOAD_DELAY": 0.01}
    site.faults([{"match": match, "fault": "challenge", "status": status, "after": 2}])
    run = start(settings={**polite, **LOGGED}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["status"] == "stopped: challenge"
    until, stopped, after = run.log.partition("Stopping the crawl (challenge)")
    assert stopped
    assert "Traceback" not in run.log
    assert run.run_json()["given_up"] == []
    journal = site.journal()
    assert sends(after) == []
    assert 0 < len(journal) <= len(sends(until))
    assert sum(entry["fault"] is not None for entry in journal) <= 4

    site.faults([])
    again = start(jobdir=tmp_path / "job")
    assert again.wait(SECONDS) == 0, again.log
    assert sorted(again.cars()) == sorted(site.ids())


def test_a_crawl_that_cannot_go_on_says_in_run_json_why_it_stopped(site: StandIn, start: Start) -> None:
    site.faults([{"match": PAGE_PATH, "fault": "challenge"}])
    run = start()
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["status"] == "stopped: challenge"


def test_a_page_of_html_without_a_challenge_does_not_stop_the_crawl(site: StandIn, start: Start) -> None:
    """The counterpart."""
    site.faults(
        [{"match": SPEC_PATH, "fault": "html", "status": status, "times": 1} for status in (200, 503)]
    )
    run = start()
    assert run.wait(SECONDS) == 0, run.log


def test_an_api_that_has_changed_stops_the_crawl(site: StandIn, start: Start, tmp_path: Path) -> None:
    site.faults([{"match": PAGE_PATH, "fault": "edit", "path": "data[*].attributes.code", "do": "drop"}])
    run = start(settings={"CARS_PAGE_SIZE": 20}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["status"] == "stopped: api_changed", run.log
    assert re.search(
        r"listings cannot be used, .* the last one: .*\.attributes\.code: is missing", run.log
    ), run.log


def test_specifications_that_cannot_be_read_have_the_same_verdict(site: StandIn, start: Start) -> None:
    """There are too few to stop before the end; then all of them are judged. Their listings are kept all the same."""
    site.faults([{"match": SPEC_PATH, "fault": "edit", "path": "data", "do": "null"}])
    run = start(settings={"RETRY_TIMES": 1})
    assert run.wait(SECONDS) == 1, run.log
    told = run.run_json()
    assert told["status"] == "stopped: api_changed", run.log
    assert re.fullmatch(r"api_changed: \d+ of \d+ specifications cannot be read", told["reasons"][0])
    assert sorted(run.cars()) == sorted(site.ids())
    missing = {one["id"] for one in records(run.output_dir) if one["car_specs"] is None}
    assert set(told["spec_missing"]) == missing
    assert len(missing) > LISTINGS / 2, "the others have none"


@pytest.mark.parametrize("share", [None, 1])
def test_a_few_listings_that_cannot_be_used_are_set_aside_and_the_crawl_goes_on(
    site: StandIn, start: Start, share: int | None
) -> None:
    """The counterpart: one in a page of fifty is below the limit."""
    site.faults([{"match": PAGE_PATH, "fault": "edit", "path": "data[3].attributes.year", "do": "null"}])
    settings: dict[str, Any] = {"CARS_PAGE_SIZE": 50} | ({"CARS_MAX_DRIFT": share} if share else {})
    run = start(settings=settings)
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["status"] == "incomplete"
    assert {item["path"] for item in run.run_json()["set_aside"]} == {"data[3].attributes.year"}


def test_a_share_that_is_none_is_refused_by_name(start: Start) -> None:
    run = start(settings={"CARS_MAX_DRIFT": "5%"})
    assert run.wait(SECONDS) == 2
    assert "CARS_MAX_DRIFT" in run.log


ROBOTS = "^/robots.txt"


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "status", "status": 503},
        {"fault": "reset"},
        {"fault": "hang"},
        {"fault": "status", "status": 407},
        {"fault": "redirect", "location": "http://127.0.0.2/robots.txt"},
        {"fault": "bomb", "bytes": 1 << 24},
        {"fault": "truncate", "way": "length"},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values())[:20],
)
def test_nothing_is_asked_until_robots_txt_could_be_had(
    site: StandIn, start: Start, fault: dict[str, Any]
) -> None:
    site.faults([{"match": ROBOTS, "times": 2, **fault}])
    run = start(settings={"DOWNLOAD_TIMEOUT": 1})
    assert run.wait(SECONDS) == 0, run.log
    journal = site.journal()
    others = [place for place, entry in enumerate(journal) if entry["target"] != "/robots.txt"]
    assert [entry["fault"] for entry in journal[:3]] == [fault["fault"], fault["fault"], None]
    failures = run.log.count("robots.txt cannot be had; asking again in")
    repeated = fault["fault"] == "reset"  # by aiohttp, which asks once more by itself
    assert others[0] == 1 + failures + repeated
    assert others == list(range(others[0], len(journal)))
    assert sorted(run.cars()) == sorted(site.ids())


def test_a_robots_txt_that_stays_unavailable_stops_the_crawl(
    site: StandIn, start: Start, tmp_path: Path
) -> None:
    site.faults([{"match": ROBOTS, "fault": "status", "status": 500}])
    run = start(settings={"RETRY_TIMES": 3}, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["status"] == "stopped: robots_unavailable"
    assert [entry["target"] for entry in site.journal()] == ["/robots.txt"] * 4

    site.faults([])
    again = start(jobdir=tmp_path / "job")
    assert again.wait(SECONDS) == 0, again.log


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_robots_txt_that_is_not_there_allows_all(site: StandIn, start: Start, status: int) -> None:
    site.faults(
        [{"match": ROBOTS, "fault": "status", "status": status, "body": "User-agent: *\nDisallow: /"}]
    )
    run = start()
    assert run.wait(SECONDS) == 0, run.log


def test_what_robots_txt_forbids_is_not_asked(site: StandIn, start: Start) -> None:
    """The counterpart: the same body, answered with 200."""
    site.faults([{"match": ROBOTS, "fault": "status", "status": 200, "body": "User-agent: *\nDisallow: /"}])
    run = start()
    assert run.wait(SECONDS) == 1, run.log
    assert [entry["target"] for entry in site.journal()] == ["/robots.txt"]
    assert "Forbidden by robots.txt" in run.run_json()["given_up"][0]["reason"]
