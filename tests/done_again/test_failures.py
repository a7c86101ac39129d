"""What a request has failed is told apart from how often it was leased: a kill is no failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scrapy_durable.frontier import codec
from tests.crawling import wait_until
from tests.done_again.conftest import Site, StartCrawl, look

RETRY_TIMES = 2
RETRY = {
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_durable.retry.middleware.LastWordMiddleware": 0,
        "scrapy_durable.retry.middleware.RetryMiddleware": 550,
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    },
    "RETRY_ENABLED": True,
    "RETRY_TIMES": RETRY_TIMES,
    "DURABLE_RETRY_BASE_DELAY": 0.01,
}


@pytest.fixture(params=["jobdir", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where the crawl is kept, beside what has it try again."""
    if request.param == "jobdir":
        return {**RETRY, "JOBDIR": str(tmp_path / "job")}
    return {
        **RETRY,
        "REDIS_URL": request.getfixturevalue("redis_url"),
        "SCHEDULER_QUEUE_KEY": request.node.name,
        "DURABLE_LEASE_SECONDS": 1,
    }


def kill_in_flight(site: Site, start: StartCrawl, settings: dict[str, Any], times: int) -> None:
    """So often, kill the crawl while it waits for its one answer."""
    site.held = {"/page"}
    for number in range(1, times + 1):
        crawl = start("one", **settings)
        wait_until(lambda number=number: site.asked["/page"] == number, 60, what="the page is asked for")  # type: ignore[misc]
        crawl.kill()
    site.release()


def test_kills_use_up_none_of_the_tries_that_a_failing_site_is_given(
    site: Site, start: StartCrawl, settings: dict[str, Any]
) -> None:
    kills = RETRY_TIMES + 2
    kill_in_flight(site, start, settings, kills)
    site.failing["/page"] = RETRY_TIMES
    log = start("one", **settings).finish()
    assert (log.count("Answered"), log.count("Told of a failure")) == (1, 0), log
    assert site.asked["/page"] == kills + RETRY_TIMES + 1


def test_a_site_that_fails_once_more_than_that_is_given_up_whatever_was_killed(
    site: Site, start: StartCrawl, settings: dict[str, Any]
) -> None:
    kill_in_flight(site, start, settings, 2)
    site.failing["/page"] = RETRY_TIMES + 1
    log = start("one", **settings).finish()
    assert (log.count("Answered"), log.count("Told of a failure")) == (0, 1), log
    assert f"(failed {RETRY_TIMES + 1} times)" in log
    assert site.asked["/page"] == 2 + RETRY_TIMES + 1


def test_failures_are_remembered_over_a_kill(site: Site, start: StartCrawl, settings: dict[str, Any]) -> None:
    site.failing["/page"], site.held = RETRY_TIMES, {"/page"}
    crawl = start("one", **settings)
    wait_until(lambda: site.asked["/page"] == RETRY_TIMES + 1, 60, what="the last try is in flight")
    crawl.kill()
    site.failing["/page"] = 1
    log = start("one", **settings).finish()
    assert (log.count("Answered"), log.count("Told of a failure")) == (0, 1), log
    assert site.asked["/page"] == RETRY_TIMES + 2


def test_a_request_that_kills_each_process_that_has_it_is_a_dead_letter_that_has_never_failed(
    site: Site, start: StartCrawl, settings: dict[str, Any]
) -> None:
    """The leases have a limit of their own, which counts what the failures do not."""
    limited = {**settings, "DURABLE_MAX_ATTEMPTS": 3}
    kill_in_flight(site, start, limited, 3)
    log = start("one", **limited).finish()
    (letter,) = look("one", **limited)[1]
    assert (letter.attempts, letter.failures) == (3, 0), log
    assert letter.reason == "lease expired after 3 attempts"
    assert site.asked["/page"] == 3


def test_what_a_rule_without_an_errback_asks_for_is_a_dead_letter_after_its_last_try(
    site: Site, start: StartCrawl, settings: dict[str, Any]
) -> None:
    """`CrawlSpider` gives each request of its rules an errback, which does nothing where the rule has none."""
    site.links = ["/unheard/never", "/unheard/503", "/unheard/later", "/heard/503"]
    site.held = {"/unheard/never"}
    tries = RETRY_TIMES + 1
    site.failing.update({"/unheard/503": tries, "/unheard/later": RETRY_TIMES, "/heard/503": tries})
    log = start("ruled", **settings).finish()
    assert log.count("Told of a failure") == 1, log
    assert {path: site.asked[path] for path in site.links} == dict.fromkeys(site.links, tries)
    letters = look("ruled", **settings)[1]
    reasons = {codec.url_of(letter.payload).removeprefix(site.url): letter.reason for letter in letters}
    assert reasons.keys() == {"/unheard/never", "/unheard/503"}, log
    assert "Timeout" in reasons["/unheard/never"]
    assert "status 503" in reasons["/unheard/503"]
