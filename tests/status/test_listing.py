"""`scrapy queue list` beside a real crawl that has a request in each state."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from scrapy.settings import Settings

from scrapy_durable.frontier.build import build_frontier
from scrapy_durable.frontier.contract import Entry
from scrapy_durable.frontier.views import Element, Listing
from scrapy_durable.status.listing import listing_lines
from tests.any_project.project import environment
from tests.crawling import HANGS, wait_until
from tests.standin import StandIn
from tests.status.test_of_a_crawl import place

__all__ = ["place"]

SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {"ROBOTSTXT_OBEY": False, "DOWNLOAD_TIMEOUT": 600}

    async def start(self):
        yield scrapy.Request(self.site + "?hang")
        yield scrapy.Request(self.site + "?broken", self.parse_other, priority=3, meta={"max_retry_times": 0})

    def parse(self, response):
        pass

    def parse_other(self, response):
        pass
"""
HOSTILE = b'{"v":1,"url":"https://a/\\u001b[31m\\u202e"}'


async def push(place: dict[str, str], *entries: Entry) -> None:
    frontier = build_frontier(Settings(place), worker="test", spider="pages")
    assert await frontier.push(list(entries)) == []
    await frontier.close()


def test_each_state_of_a_crawl_is_listed(place: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    settings = ["ADDONS = {'scrapy_durable.Addon': 500}", "SPIDER_MODULES = ['spiders']"]
    settings += [f"{name} = {value!r}" for name, value in place.items()]
    (tmp_path / "settings.py").write_text("\n".join(settings))
    (tmp_path / "spiders.py").write_text(SPIDER)
    scrapy = [sys.executable, "-m", "scrapy"]

    def queue(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*scrapy, "queue", *arguments]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )

    def listed(state: str, *more: str) -> str:
        done = queue("list", "--state", state, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert listed("dead") == "no dead requests\n", "before there is a crawl"
    rules = [{"match": "hang", "fault": "hang"}, {"match": "broken", "fault": "status", "status": 503}]
    with StandIn(listings=1, rules=rules) as site:
        address = site.url.removesuffix("/fw/public") + "/robots.txt"
        crawling = subprocess.Popen(
            [*scrapy, "crawl", "pages", "-a", f"site={address}"],
            cwd=tmp_path,
            env=environment(),
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(
                lambda: json.loads(listed("dead", "--json"))["requests"], what="a dead letter", every=0.2
            )
            hangs = f"{address}?hang"
            wait_until(lambda: hangs in listed("leased"), what="a request that is not answered", every=0.2)
            assert queue("pause", "127.0.0.1").returncode == 0
            ready = [Entry(n, "127.0.0.1", "parse", b'{"v":1,"url":"https://a/%d"}' % n) for n in (1, 2, 3)]
            asyncio.run(push(place, *ready, Entry(4, "a", "parse", HOSTILE, delay=5000)))

            dead = listed("dead", "--callback", "parse_other")
            assert f" {address}?broken\n    127.0.0.1  parse_other  priority 3  attempts 1  died 20" in dead
            assert "503" in dead.splitlines()[1]
            assert listed("dead", "--callback", "parse") == "no dead requests that match\n"
            leased = listed("leased", "--slot", "127.0.0.1")
            assert f" {address}?hang\n    127.0.0.1  parse  priority 0  attempts 1  leased since 20" in leased
            assert len(leased.splitlines()) == 2
            [lease] = json.loads(listed("leased", "--slot", "127.0.0.1", "--json"))["requests"]
            assert lease["url"] == f"{address}?hang"
            assert lease["since"] < lease["deadline"]
            assert lease["worker"]
            delayed = listed("delayed")
            assert delayed.startswith("0000000000000004 https://a/")
            assert "  attempts 0  due 20" in delayed
            assert not set("\x1b\u202e") & set(delayed), "what a terminal would obey is shown plainly"
            assert listed("ready", "--limit", "2").splitlines()[::2] == [
                "0000000000000001 https://a/1",
                "0000000000000002 https://a/2",
                "1 more",
            ]

            def refused(*arguments: str) -> tuple[int, str]:
                done = queue("list", *arguments)
                assert done.stdout == ""
                return done.returncode, done.stderr

            assert refused("--state", "lost") == (
                2,
                "error: --state: one of leased, delayed, dead, ready, not lost\n",
            )
            assert refused()[0] == 2
            unknown = "error: this crawl has no requests to elsewhere; it has to: 127.0.0.1, a"
            status, said = refused("--state", "dead", "--slot", "elsewhere")
            assert (status, said.startswith(unknown), said.count("\n")) == (1, True, 1), said
            unknown = "error: this crawl has no requests for the method nobody\n"
            assert refused("--state", "dead", "--callback", "nobody") == (1, unknown)
        finally:
            crawling.kill()
            crawling.wait()


def last_lines(matched: int, looked: int, total: int | None, *, filtered: bool) -> list[str]:
    element = Element(1, "queued", "a", "parse", payload=b'{"v":1,"url":"https://a/1"}')
    return list(listing_lines(Listing([element], matched, looked, total), "ready", filtered=filtered))[2:]


def test_a_list_says_what_it_leaves_out() -> None:
    assert last_lines(1, 1, 1, filtered=False) == []
    assert last_lines(2000, 2000, 5000, filtered=False) == ["4999 more"]
    assert last_lines(2000, 2000, None, filtered=False) == ["at least 1999 more"]
    assert last_lines(3, 9, 9, filtered=True) == ["2 more"]
    through = "only the first 2000 of 5000 ready requests were looked through"
    assert last_lines(1, 2000, 5000, filtered=True) == [through]
    assert last_lines(3, 2000, 5000, filtered=True) == [through, "at least 2 more"]
    through = "only the first 2000 ready requests were looked through"
    assert last_lines(1, 2000, None, filtered=True) == [through]
