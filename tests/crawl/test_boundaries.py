"""Nothing is asked but the API, and nothing of it that its robots.txt does not allow."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import wait_until
from tests.tripwires import Tripwire

ONE_RETRY = {"RETRY_TIMES": 1}


@pytest.fixture
def tripwire() -> Iterator[Tripwire]:
    with Tripwire("127.0.0.1") as wire:
        yield wire


def test_the_tripwire_notices_who_connects(tripwire: Tripwire) -> None:
    """The counterpart of the tests below."""
    with socket.create_connection(("127.0.0.1", tripwire.port)) as connection:
        assert connection.recv(1) == b""
    assert tripwire.touched == 1


def test_a_robots_txt_that_disallows_is_all_that_is_asked(site: Site, start: Start) -> None:
    site.standin.faults(
        [{"match": "^/robots", "fault": "status", "status": 200, "body": "User-agent: *\nDisallow: /\n"}]
    )
    run = start()
    assert run.wait(SECONDS) == 1, run.log
    assert [entry["target"] for entry in site.standin.journal()] == ["/robots.txt"]
    assert "robots.txt" in run.log.rpartition("NOT COMPLETE")[2]


def test_requests_to_other_hosts_ports_and_schemes_never_leave(
    site: Site, start: Start, tripwire: Tripwire
) -> None:
    strays = [
        f"http://127.0.0.1:{tripwire.port}/",
        f"http://localhost:{tripwire.port}/fw/public",
        f"http://127.0.0.1:{site.standin.port}@127.0.0.1:{tripwire.port}/",
        f"https://127.0.0.1:{site.standin.port}/fw/public",
        "file:///etc/hostname",
        "data:,hello",
    ]
    run = start(settings={"SPIDER_MODULES": "tests.crawl.straying_spider"}, env={"STRAY": " ".join(strays)})
    assert run.wait(SECONDS) == 1, run.log
    assert tripwire.touched == 0
    told = run.run_json()
    shown = [stray.replace(f"127.0.0.1:{site.standin.port}@", "***@") for stray in strays]
    assert sorted(request["url"] for request in told["given_up"]) == sorted(shown)
    assert told["kept"] == LISTINGS  # all else is there


def test_a_redirected_page_has_failed_and_its_target_is_never_touched(
    site: Site, start: Start, tripwire: Tripwire
) -> None:
    elsewhere = f"http://127.0.0.1:{tripwire.port}/fw/public/v3/vehicle"
    site.standin.faults(
        [
            {"match": "offset%5D=100&", "fault": "redirect", "location": elsewhere},
            {"match": "offset%5D=200&", "fault": "redirect", "location": elsewhere, "status": 308},
            {"match": "/specs/", "fault": "redirect", "location": elsewhere, "times": 1},
        ]
    )
    run = start(settings=ONE_RETRY)
    assert run.wait(SECONDS) == 1, run.log
    assert tripwire.touched == 0
    reasons = [request["reason"] for request in run.run_json()["given_up"]]
    assert len(reasons) == 3
    assert all(reason.startswith(("status 302", "status 308")) for reason in reasons)


def test_a_redirected_robots_txt_leads_nowhere(site: Site, start: Start, tripwire: Tripwire) -> None:
    elsewhere = f"http://127.0.0.1:{tripwire.port}/robots.txt"
    site.standin.faults([{"match": "^/robots", "fault": "redirect", "location": elsewhere}])
    run = start("-a", "limit=10")
    wait_until(lambda: not run.running or any(entry["status"] for entry in site.standin.journal()))
    run.send(signal.SIGTERM)
    run.wait(SECONDS)
    assert tripwire.touched == 0
