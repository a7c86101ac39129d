"""What several workers have said of themselves, put together."""

from __future__ import annotations

from scrapy_durable.crawl_numbers import CrawlNumbers, crawl_numbers, others_live, waited_for
from scrapy_durable.frontier.contract import WorkerStatus

NOW, LEASE = 1_800_000_000.0, 60.0


def worker(name: str, silent: float = 0.0, leased: int = 0, **report: int) -> WorkerStatus:
    return WorkerStatus(name, leased, NOW - silent, report)


def test_the_numbers_are_those_of_all_workers_also_of_those_that_are_gone() -> None:
    workers = [
        worker("gone", 4000, kept=600, total=1000, requests=70, left=1),
        worker("me", kept=1, requests=1),
    ]
    mine = {"kept": 18, "total": 0, "requests": 5}
    assert crawl_numbers(workers, "me", mine) == CrawlNumbers(kept=618, total=1000, requests=75)


def test_a_worker_that_has_joined_first_shows_its_own_numbers() -> None:
    assert crawl_numbers([], "me", {"kept": 3, "total": 10, "requests": 4}) == CrawlNumbers(3, 10, 4)
    assert crawl_numbers([], "me", {"kept": 0, "total": 0, "requests": 0}) == CrawlNumbers(0, 0, 0)


def test_what_two_workers_have_both_passed_on_is_never_more_than_there_is() -> None:
    assert crawl_numbers([worker("other", kept=900, total=1000)], "me", {"kept": 200}).kept == 1000


def test_others_live_when_they_were_heard_of_within_a_lease_and_have_not_left() -> None:
    assert others_live([worker("me"), worker("other", 59)], "me", NOW, LEASE)
    assert not others_live([worker("me"), worker("other", 60)], "me", NOW, LEASE)
    assert not others_live([worker("me"), worker("other", 1, left=1)], "me", NOW, LEASE)
    assert not others_live([worker("me", leased=5)], "me", NOW, LEASE)


def test_what_is_waited_for_is_said_with_the_time_that_it_takes() -> None:
    said = "25 leases of a worker not heard of for 40 s, back in 20 s"
    assert waited_for([worker("me"), worker("silent", 40, 25)], "me", NOW, LEASE) == said
    assert waited_for([worker("lively", 20, 25)], "me", NOW, LEASE) is None
    assert waited_for([worker("me", 40, 25)], "me", NOW, LEASE) is None
    late = waited_for([worker("one", 40, 1), worker("other", 70, 2)], "me", NOW, LEASE)
    assert late is not None
    assert late.endswith("; 2 leases of a worker not heard of for 70 s, back in 0 s")
