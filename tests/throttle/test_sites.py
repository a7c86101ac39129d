"""What a worker does by itself when a site asks it to wait."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.settings import Settings

from scrapy_durable.frontier.contract import Held, Lease, Outbox, Pause
from scrapy_durable.leases import Leases
from scrapy_durable.throttle.sites import Sites
from scrapy_durable.timing import Timing


@pytest.fixture
def sites() -> tuple[Sites, Leases, Outbox]:
    """As in a scheduler; a request's site is named in its `meta`."""
    outbox = Outbox()
    leases = Leases(outbox, 8, 60.0)
    leases.takes_spares = lambda: True
    downloader = SimpleNamespace(get_slot_key=lambda request: request.meta["download_slot"])
    crawler: Any = SimpleNamespace(settings=Settings(), engine=SimpleNamespace(downloader=downloader))
    return Sites(crawler, outbox, leases, Timing(outbox, leases, shared=True)), leases, outbox


def asked(site: str) -> Request:
    return Request("https://example.com/", meta={"download_slot": site})


def test_all_that_waits_here_for_a_site_that_is_paused_is_let_go_of_at_once(
    sites: tuple[Sites, Leases, Outbox],
) -> None:
    """Whoever has it next waits for the end of the pause; and this worker sends none of it meanwhile."""
    site, leases, outbox = sites
    waiting = [Lease(number, number, 1, "ab"[number % 2], b"") for number in range(1, 5)]
    leases.prefetched.add([*waiting, *(replace(one, key=one.key + 4, is_spare=True) for one in waiting)])
    site.pause(asked("a"), 5.0, "429")
    said = outbox.take()
    assert said.pauses == {"a": Pause(5.0, "429")}
    assert said.unsent == [Held(2, 2), Held(4, 4)]
    assert said.releases == [Held(2, 2), Held(4, 4), Held(6, 2), Held(8, 4)]
    left = [leases.prefetched.pop(), leases.prefetched.pop()]
    assert [one.held for one in left if one is not None] == [Held(1, 1), Held(3, 3)]


def test_the_longest_pause_counts(sites: tuple[Sites, Leases, Outbox]) -> None:
    site, _, outbox = sites
    for seconds in (5.0, 60.0, 1.0):
        site.pause(asked("a"), seconds, f"{seconds:g} s")
    assert outbox.pauses == {"a": Pause(60.0, "60 s")}
