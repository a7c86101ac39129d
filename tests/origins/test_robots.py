"""Each site has its own robots.txt: what one of them says, or fails to say, is no matter to the others."""

from __future__ import annotations

import pytest

from tests.origins.site import Site
from tests.origins.two_sites import PAGES, crawl_sites

FAILS = (500, "")
NOBODY = "http://127.0.0.1:9"


def pages(site: Site) -> list[str]:
    return [f"{site.url}/{page}" for page in range(PAGES)]


def test_a_site_whose_robots_txt_cannot_be_had_costs_its_own_requests_alone() -> None:
    with Site("127.0.0.1") as good, Site("127.0.0.2", FAILS) as ill:
        told = crawl_sites(ill.url, good.url)
    assert told.reason == "finished", told.log
    assert told.read == sorted(pages(good))
    assert ill.targets == ["/robots.txt"] * 3  # RETRY_TIMES is 2
    why = f"{ill.url}/robots.txt could not be had in 3 tries, so nothing may be asked: RobotsUnavailable: status 500"
    assert told.dead == {f"{ill.url}/0": why}
    assert told.log.count(f"Giving up a site: {why}") == 1
    assert (told.stats["robotstxt/unavailable"], told.stats["robotstxt/given_up"]) == (3, 1)


def test_all_requests_to_such_a_site_are_dead_letters_and_it_is_not_asked_again() -> None:
    with Site("127.0.0.1") as good, Site("127.0.0.2", FAILS) as ill:
        starts = [f"{ill.url}/{name}" for name in "abcdefgh"]
        told = crawl_sites(good.url, *starts, CONCURRENT_REQUESTS=4)
    assert told.reason == "finished", told.log
    assert sorted(told.dead) == [f"{start}/0" for start in starts]
    assert ill.targets == ["/robots.txt"] * 3
    assert told.read == sorted(pages(good))


def test_a_site_where_nobody_answers_costs_its_own_requests_alone() -> None:
    with Site("127.0.0.2") as good:
        told = crawl_sites(NOBODY, good.url, DURABLE_ALLOWED_ORIGINS=[NOBODY, good.url])
    assert told.reason == "finished", told.log
    assert told.read == sorted(pages(good))
    assert list(told.dead) == [f"{NOBODY}/0"]


def test_a_robots_txt_that_fails_for_a_while_costs_nothing() -> None:
    with Site("127.0.0.1") as good, Site("127.0.0.2", FAILS, FAILS, (404, "")) as late:
        told = crawl_sites(late.url, good.url)
    assert told.read == sorted([*pages(good), *pages(late)]), told.log
    assert told.dead == {}
    assert late.targets[:3] == ["/robots.txt"] * 3
    assert "/robots.txt" not in late.targets[3:]


@pytest.mark.parametrize(("at", "reason"), [("", "robots_unavailable"), (NOBODY, "site_unreachable")])
def test_a_crawl_stops_when_it_is_the_only_site_that_may_be_asked(at: str, reason: str) -> None:
    """The counterpart: so it is for the others' sake that the crawls above go on."""
    with Site("127.0.0.2", FAILS) as ill:
        only = at or ill.url
        told = crawl_sites(only, DURABLE_ALLOWED_ORIGINS=only)
    assert told.reason == reason, told.log
    assert told.dead == {}  # the request waits for the next run
    assert told.read == []


def test_what_one_site_forbids_another_allows() -> None:
    with Site("127.0.0.1") as good, Site("127.0.0.2", (200, "User-agent: *\nDisallow: /1")) as strict:
        told = crawl_sites(good.url, strict.url, DURABLE_DEAD_LETTER_DROPPED=True)
    allowed = [page for page in pages(strict) if not page.startswith(f"{strict.url}/1")]
    assert told.read == sorted([*pages(good), *allowed]), told.log
    assert set(told.dead) == {*pages(strict)} - {*allowed}


def test_a_site_that_may_not_be_asked_is_not_asked_for_its_robots_txt_either() -> None:
    with Site("127.0.0.1") as good, Site("127.0.0.2") as other:
        told = crawl_sites(
            good.url, other.url, DURABLE_ALLOWED_ORIGINS=good.url, DURABLE_DEAD_LETTER_DROPPED=True
        )
    assert told.read == sorted(pages(good)), told.log
    assert other.targets == []
    assert told.dead == {
        f"{other.url}/0": f"NotAllowed: {other.url}/0 is at none of the allowed origins: {good.url}"
    }
