"""`scrapy queue push`, `pause` and `resume`, beside a real crawl and without one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.any_project.project import environment
from tests.crawling import HANGS, crawl, wait_until
from tests.standin import StandIn
from tests.status.test_of_a_crawl import SLOW, place, queue

__all__ = ["place"]


def state(place: dict[str, str]) -> tuple[str, str]:
    found = json.loads(queue("status", "--json", place=place).stdout)
    return found["state"], found["reason"]


def test_a_paused_site_is_asked_nothing_and_goes_on_when_it_is_resumed(
    place: dict[str, str], tmp_path: Path
) -> None:
    with (
        StandIn(listings=20_000, latency=0.1) as site,  # so many that it cannot end before it is paused
        crawl(site.url, tmp_path, settings={**SLOW, **place}) as run,
    ):
        wait_until(lambda: site.counts()["specs"], what="a crawl at work")
        done = queue("pause", "127.0.0.1", "--for", "5000", place=place)
        assert done.returncode == 0, done.stderr
        assert re.match("127.0.0.1 is paused for (at least )?83 min;", done.stdout), done.stdout
        wait_until(lambda: state(place)[0] == "paused", what="that all stand still", every=0.2)
        assert re.fullmatch("127.0.0.1: paused by hand, [78][0-9] min left", state(place)[1])
        shorter = queue("pause", "127.0.0.1", "--for", "5", place=place)
        assert re.match(
            "127.0.0.1 is paused for longer already, for [78][0-9] min: paused by hand;", shorter.stdout
        )
        before = site.counts()["requests"]
        assert "waits: paused by hand" in queue("status", place=place).stdout
        assert site.counts()["requests"] == before
        resumed = queue("resume", "127.0.0.1", place=place)
        assert (resumed.returncode, resumed.stdout) == (0, "127.0.0.1 goes on\n"), resumed.stderr
        wait_until(lambda: site.counts()["requests"] > before, what="that it is asked again")
        assert run.running, run.log


def test_what_cannot_be_done_is_said_in_one_line_and_changes_nothing(
    place: dict[str, str], tmp_path: Path
) -> None:
    for action in (["push", "http://a/"], ["pause", "a"], ["resume", "a"]):
        done = queue(*action, place=place)
        assert done.returncode == 1, action
        assert done.stderr.endswith("error: there is no crawl\n"), done.stderr
    with StandIn(listings=20_000, latency=0.2) as site, crawl(site.url, tmp_path, settings={**SLOW, **place}):
        wait_until(lambda: site.counts()["specs"], what="a crawl at work")

        def refused(*action: str) -> str:
            done = queue(*action, place=place)
            assert (done.returncode, done.stdout) == (1, ""), done.stdout
            return done.stderr.splitlines(keepends=True)[-1]

        assert refused("pause", "elsewhere") == (
            "error: this crawl has no requests to elsewhere; it has to: 127.0.0.1\n"
        )
        assert "at most 86400 seconds, not 1e+09" in refused("pause", "127.0.0.1", "--for", "1e9")
        assert refused("resume", "127.0.0.1") == "error: 127.0.0.1 is not paused\n"
        assert "has no method nobody" in refused("push", site.url, "--callback", "nobody")
        assert "does not take it: " in refused("push", site.url), "this spider declares what it queues"
        assert "not an address with a host" in refused("push", "elsewhere")
        assert refused("push", "http://[::1") == "error: not an address with a host: http://[::1\n"


SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {"ROBOTSTXT_OBEY": False, "DOWNLOAD_TIMEOUT": 600, "FEEDS": {"pages.jsonl": {"format": "jsonl"}}}

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        if crawler.settings.getbool("BROKEN"):
            raise RuntimeError("no such luck")
        return super().from_crawler(crawler, *args, **kwargs)

    async def start(self):
        yield scrapy.Request(self.site + "/robots.txt?hang")

    def parse(self, response):
        yield {"by": "parse", "url": response.url}

    def parse_other(self, response):
        yield {"by": "parse_other", "url": response.url}
"""

WITHOUT_SESSION = """
import scrapy
from scrapy.utils.request import RequestFingerprinter

class Fingerprinter(RequestFingerprinter):
    def fingerprint(self, request):
        return super().fingerprint(request.replace(url=request.url.partition("&session=")[0]))

class Addon:
    def update_settings(self, settings):
        if settings.getbool("NO_ADDON"):
            raise RuntimeError("no licence")
        settings.set("REQUEST_FINGERPRINTER_CLASS", Fingerprinter, "addon")
"""


def test_a_pushed_address_is_crawled_by_the_method_that_was_named(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    addons = "ADDONS = {'scrapy_durable.Addon': 500, 'without_session.Addon': 600}"
    (tmp_path / "without_session.py").write_text(WITHOUT_SESSION)
    settings = [addons, "SPIDER_MODULES = ['spiders']", "JOBDIR = 'job'"]
    (tmp_path / "settings.py").write_text("\n".join(settings))
    (tmp_path / "spiders.py").write_text(SPIDER)
    scrapy = [sys.executable, "-m", "scrapy"]
    run = {"cwd": tmp_path, "env": environment(), "text": True}
    with StandIn(listings=1, rules=[{"match": "hang", "fault": "hang"}]) as site:
        address = site.url.removesuffix("/fw/public")
        crawling = subprocess.Popen(
            [*scrapy, "crawl", "pages", "-a", f"site={address}"], **run, stderr=subprocess.PIPE
        )  # type: ignore[call-overload]
        try:
            wait_until(lambda: site.counts()["under_way"], what="a request that is not answered")

            def pushed(*arguments: str) -> tuple[int, str]:
                done = subprocess.run(
                    [*scrapy, "queue", "push", *arguments], **run, capture_output=True, timeout=HANGS
                )  # type: ignore[call-overload]
                return done.returncode, done.stdout + done.stderr

            status, said = pushed(f"{address}/robots.txt?hang&session=2")
            assert (status, "is leased, done or dead: nothing has changed" in said) == (1, True), said
            one, two = f"{address}/robots.txt?1", f"{address}/robots.txt?2"
            assert pushed(one) == (0, f"queued: {one}\n")
            assert pushed(two, "--callback", "parse_other", "--priority", "5") == (0, f"queued: {two}\n")
            items = tmp_path / "pages.jsonl"
            wait_until(lambda: items.exists() and len(items.read_text().splitlines()) == 2, what="two items")
            found = {
                json.loads(line)["by"]: json.loads(line)["url"] for line in items.read_text().splitlines()
            }
            assert found == {"parse": one, "parse_other": two}
            shown = subprocess.run([*scrapy, "queue", "show", one], **run, capture_output=True, timeout=HANGS)  # type: ignore[call-overload]
            assert shown.stdout.endswith(" is done. Of what is done the queue keeps the key alone.\n"), (
                shown.stderr
            )
            status, said = pushed(one)
            assert (status, "is leased, done or dead: nothing has changed" in said) == (1, True), said
            refused = "error: the spider pages cannot be made without arguments: RuntimeError: no such luck\n"
            assert pushed(one, "-s", "BROKEN=1") == (2, refused)
            refused = "error: an add-on cannot be used: RuntimeError: no licence\n"
            assert pushed(one, "-s", "NO_ADDON=1") == (2, refused)
            assert pushed(one, "--spider", "nobody") == (2, "error: this project has no spider nobody\n")

            def act(*arguments: str) -> str:
                done = subprocess.run(
                    [*scrapy, "queue", *arguments], **run, capture_output=True, timeout=HANGS
                )  # type: ignore[call-overload]
                assert done.returncode == 0, done.stderr
                return str(done.stdout)

            said = act("pause", "127.0.0.1")
            assert said.startswith("127.0.0.1 is paused for at least 60 min;"), "nothing of it is due"
            three = f"{address}/robots.txt?3"
            assert pushed(three) == (0, f"queued: {three}\n")
            assert pushed(three, "--callback", "parse_other") == (
                1,
                f"error: {three} is queued already, for the method parse: nothing has changed\n",
            )
            distant = "http://b\u00fccher.invalid/"
            assert pushed(distant) == (0, f"queued: {distant}\n")
            assert "xn--bcher-kva.invalid" in json.loads(act("status", "--json"))["slots"]
        finally:
            crawling.kill()
            crawling.communicate()
