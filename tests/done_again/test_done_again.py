"""A parent that is done again has no subtree crawled twice, and a start that was acknowledged is not called again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.crawling import wait_until
from tests.done_again.conftest import Site, StartCrawl, is_done, look

NO_PARENTS = {"SPIDER_MIDDLEWARES": {}}


@pytest.mark.parametrize(("settings", "times"), [({}, 3), (NO_PARENTS, 9)], ids=["parents", "no parents"])
def test_a_parent_that_is_done_again_has_each_child_crawled_once(
    settings: dict[str, Any], times: int, site: Site, start: StartCrawl, tmp_path: Path
) -> None:
    """Though each stands for the same address, and ends in a redirect. Where no parent is known, each is again, and
    the parent too, since it has no place in the start.
    """
    site.held = {"/late"}
    jobdir = {"JOBDIR": str(tmp_path / "job")}
    first = start("family", **jobdir, **settings)
    done = {"JOBDIR": jobdir["JOBDIR"]}
    wait_until(lambda: site.asked["/place"] == 3, 60)
    wait_until(lambda: is_done("nothing", "family", **done) and is_done("parse_child", "family", **done), 60)
    first.kill()
    site.release()
    log = start("family", **jobdir, **settings).finish()
    assert site.asked["/parent"] == (2 if settings == {} else 3), log
    assert (site.asked["/child"], site.asked["/moved"], site.asked["/place"]) == (times, times, times), log


def test_a_start_that_was_acknowledged_is_not_called_again(
    site: Site, start: StartCrawl, tmp_path: Path
) -> None:
    site.held = {"/late"}
    jobdir = str(tmp_path / "job")
    first = start("family", JOBDIR=jobdir)
    wait_until(lambda: site.asked["/place"] == 3, 60)
    wait_until(lambda: all(is_done(name, "family", JOBDIR=jobdir) for name in ("start", "nothing")), 60)
    first.kill()
    site.release()
    log = start("family", JOBDIR=jobdir).finish()
    assert "'frontier/refused': 4" in log  # the start itself, and the children of the parent
    assert site.asked["/begun"] == 1


def test_a_start_that_was_killed_is_called_again_and_what_it_yielded_is_not_done_twice(
    site: Site, start: StartCrawl, tmp_path: Path
) -> None:
    site.held = {"/late"}
    jobdir = str(tmp_path / "job")
    first = start("slow", JOBDIR=jobdir)
    wait_until(lambda: site.asked["/late"] and is_done("parse", "slow", JOBDIR=jobdir), 60)
    first.kill()
    site.release()
    log = start("slow", JOBDIR=jobdir).finish()
    assert dict(site.asked) == {"/first": 1, "/late": 2, "/last": 1}, log
    assert look("slow", JOBDIR=jobdir)[0].total.done == 3


def test_a_start_that_was_stopped_is_called_again(site: Site, start: StartCrawl, tmp_path: Path) -> None:
    site.held = {"/late"}
    jobdir = str(tmp_path / "job")
    first = start("slow", JOBDIR=jobdir, DURABLE_LEASE_SECONDS=86_400)
    wait_until(lambda: site.asked["/late"] and is_done("parse", "slow", JOBDIR=jobdir), 60)
    first.process.terminate()
    first.finish()
    assert look("slow", JOBDIR=jobdir)[0].total.leased == 0
    site.release()
    log = start("slow", JOBDIR=jobdir).finish()
    assert dict(site.asked) == {"/first": 1, "/late": 2, "/last": 1}, log


def test_a_start_that_raises_is_a_dead_letter(site: Site, start: StartCrawl, tmp_path: Path) -> None:
    jobdir = str(tmp_path / "job")
    start("failing", JOBDIR=jobdir).finish()
    status, dead = look("failing", JOBDIR=jobdir)
    assert [letter.reason for letter in dead] == ["start() failed: RuntimeError: no more"]
    assert (status.total.done, site.asked["/first"]) == (1, 1)


def test_of_three_workers_one_goes_through_the_start(site: Site, start: StartCrawl, redis_url: str) -> None:
    site.held = {"/late"}
    crawls = [start("slow", REDIS_URL=redis_url, SCHEDULER_QUEUE_KEY="one") for _ in range(3)]
    wait_until(lambda: is_done("parse", "slow", REDIS_URL=redis_url, SCHEDULER_QUEUE_KEY="one"), 60)
    assert all(crawl.process.poll() is None for crawl in crawls)
    site.release()
    logs = [crawl.finish() for crawl in crawls]
    assert dict(site.asked) == {"/first": 1, "/late": 1, "/last": 1}, logs


def test_another_worker_goes_through_the_start_when_the_first_is_killed(
    site: Site, start: StartCrawl, redis_url: str
) -> None:
    site.held = {"/late"}
    settings = {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_KEY": "two", "DURABLE_LEASE_SECONDS": 2}
    first = start("slow", **settings)
    wait_until(lambda: site.asked["/late"] and is_done("parse", "slow", **settings), 60)
    second = start("slow", **settings)
    wait_until(lambda: len(look("slow", **settings)[0].workers) == 2, 60)
    first.kill()
    wait_until(lambda: site.asked["/late"] == 2, 60)
    site.release()
    log = second.finish()
    assert dict(site.asked) == {"/first": 1, "/late": 2, "/last": 1}, log


# Requests that cannot be serialized


def test_what_cannot_be_serialized_is_crawled_and_said_once(
    site: Site, start: StartCrawl, tmp_path: Path
) -> None:
    log = start("lambdas", JOBDIR=str(tmp_path / "job")).finish()
    asked = {f"/lambda/{number}{below}": 1 for number in range(20) for below in ("", "/below")}
    assert site.asked == {"/parent": 1, **asked}, log
    assert log.count("cannot be serialized") == 1
    assert "'frontier/unserializable': 20" in log
    assert look("lambdas", JOBDIR=str(tmp_path / "job"))[1] == []


def test_where_nothing_outlives_the_process_a_lambda_is_nothing_special(
    site: Site, start: StartCrawl
) -> None:
    log = start("lambdas").finish()
    assert len(site.asked) == 41, log
    assert "unserializable" not in log
    assert "cannot be serialized" not in log


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_what_was_lost_with_its_worker_is_a_dead_letter(
    end: str, site: Site, start: StartCrawl, tmp_path: Path
) -> None:
    jobdir = str(tmp_path / "job")
    site.held = {f"/lambda/{number}" for number in range(10, 20)}
    first = start("lambdas", JOBDIR=jobdir)
    in_flight = set(site.held)
    wait_until(
        lambda: len(in_flight & site.asked.keys()) == 8 and is_done("parse", "lambdas", JOBDIR=jobdir), 60
    )
    getattr(first.process, end)()
    if end == "terminate":
        wait_until(lambda: "SIGTERM" in first.log, 60)
        site.release()
    first.finish()
    site.release()
    log = start("lambdas", JOBDIR=jobdir).finish()
    reason = "could not be serialized, and was lost with its worker"
    dead = look("lambdas", JOBDIR=jobdir)[1]
    assert {letter.reason for letter in dead} == {reason}, log
    assert log.count(f"which {reason}") == len(dead)
    if end == "kill":
        assert len(dead) >= 10  # and those that were answered, but not acknowledged yet
    else:
        assert f"{len(dead)} requests could not be serialized, and are lost with this process" in first.log


def test_of_several_workers_each_crawls_what_it_has_in_memory(
    site: Site, start: StartCrawl, redis_url: str
) -> None:
    settings = {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_KEY": "three", "DURABLE_LEASE_SECONDS": 20}
    site.held = {"/parent"}
    crawls = [start("lambdas", **settings) for _ in range(2)]
    wait_until(lambda: len(look("lambdas", **settings)[0].workers) == 2 and site.asked["/parent"], 60)
    site.release()
    logs = [crawl.finish() for crawl in crawls]
    assert len(site.asked) == 41, logs
    assert set(site.asked.values()) == {1}, logs
    assert look("lambdas", **settings)[1] == []


def test_what_a_killed_worker_had_in_memory_is_a_dead_letter_of_another(
    site: Site, start: StartCrawl, redis_url: str
) -> None:
    settings = {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_KEY": "four", "DURABLE_LEASE_SECONDS": 2}
    site.held = {f"/lambda/{number}" for number in range(20)}
    first = start("lambdas", **settings)
    wait_until(lambda: len(site.asked) == 1 + 8 and is_done("parse", "lambdas", **settings), 60)
    second = start("lambdas", **settings)
    wait_until(lambda: len(look("lambdas", **settings)[0].workers) == 2, 60)
    first.kill()
    site.release()
    log = second.finish()
    assert len(look("lambdas", **settings)[1]) == 20, log
