"""`python -m benchmarks.scene DIRECTORY`: a bad day of a crawl, and what an operator sees of it.

The whole stand-in catalogue, two workers on one Redis, both databases; then the site becomes slow, says 429 with a
`Retry-After`, one worker is killed and comes back, one database is stopped and comes back. Of each it is measured how
long the terminal (`scrapy queue watch`) and the page (`scrapy dashboard`, in Chromium) take until they show it, and
kept what they look like: `*.txt` the frames, `*.png` the pages, at a phone's width and a screen's, light and dark.

Fails when something is not shown within `--within` seconds, the browser complains, a request leaves this machine, or
the crawl does not end with the exit status 0. `--axe FILE`: axe-core's `axe.min.js`, which must find nothing serious.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.browser import Page, browser
from tests.crawling import FULL_SPEED, Crawl, crawl, wait_until
from tests.databases.looking import Databases
from tests.mongo_server import MongoServer
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn
from tests.status.terminal import Terminal

_LATENCY = 0.2
_CAP = 16
"""Requests at once of both workers together, and of each: the catalogue takes some three minutes."""
_LEASE_SECONDS = 10
_SIZES = {
    "wide": (1280, 900, False),
    "wide-dark": (1280, 900, True),
    "phone": (390, 844, False),
    "phone-dark": (390, 844, True),
}
_ADDRESS = re.compile(r"http://\S+")


@dataclass
class Seen:
    """What was shown, and how long that took."""

    name: str
    terminal: float
    page: float


@dataclass
class Scene:
    """The views, and what was seen in them."""

    into: Path
    terminal: Terminal
    page: Page
    within: float
    seen: list[Seen] = field(default_factory=list)

    async def shows(self, name: str, in_terminal: Sequence[str], in_page: Sequence[str]) -> None:
        """Wait until both views show all of these (regular expressions), and keep how they look."""
        begun = time.monotonic()

        async def terminal() -> float:
            while not all(re.search(one, self.terminal.last) for one in in_terminal):
                self._check_time(begun, name, in_terminal, self.terminal.last)
                await asyncio.sleep(0.05)
            (self.into / f"{name}.txt").write_text(self.terminal.last.rstrip() + "\n")
            return time.monotonic() - begun

        async def page() -> float:
            text = await self.page.text()
            while not all(re.search(one, text) for one in in_page):
                self._check_time(begun, name, in_page, text)
                await asyncio.sleep(0.1)
                text = await self.page.text()
            return time.monotonic() - begun

        seen = Seen(name, *await asyncio.gather(terminal(), page()))
        self.seen.append(seen)
        print(f"{name:<12} terminal {seen.terminal:4.1f} s   page {seen.page:4.1f} s", flush=True)
        await self.keep(name)

    async def keep(self, name: str) -> None:
        """Pictures of the page as it is; of an incident wide and light, and dark on a phone."""
        for size, (width, height, dark) in _SIZES.items():
            if name != "running" and size in ("wide-dark", "phone"):
                continue
            await self.page.look(width=width, height=height, dark=dark)
            (self.into / f"{name}-{size}.png").write_bytes(await self.page.picture())

    def _check_time(self, begun: float, name: str, wanted: Sequence[str], shown: str) -> None:
        if time.monotonic() - begun > 4 * self.within:
            raise AssertionError(f"{name}: {wanted} is not shown:\n{shown}")


@contextlib.contextmanager
def serving(command: Sequence[str], place: dict[str, str]) -> Iterator[str]:
    """A command of Scrapy's that serves something; its address, without a slash at the end."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapy", *command, *options(place)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        try:

            def address() -> str | None:
                log.seek(0)
                found = _ADDRESS.search(log.read())
                assert process.poll() is None or found, f"{command[0]} has ended"
                return found[0].rstrip("/.,") if found else None

            wait_until(address, what=f"{command[0]} tells its address")
            found = address()
            assert found is not None
            yield found
        finally:
            process.terminate()
            process.wait(30)


def options(settings: dict[str, str]) -> list[str]:
    """As a command line has them."""
    return [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]


async def play(into: Path, listings: int, within: float, axe: Path | None) -> list[str]:
    """The whole scene; returns what is wrong with it."""
    wrong: list[str] = []
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(appendonly=True))
        databases = Databases(stack.enter_context(MongoServer()), stack.enter_context(PostgresServer()))
        site = stack.enter_context(StandIn(listings, latency=_LATENCY))
        shared = {"REDIS_URL": redis.url, "DURABLE_LEASE_SECONDS": str(_LEASE_SECONDS)}
        settings = {
            **FULL_SPEED,
            **shared,
            "CONCURRENT_REQUESTS": _CAP,
            "CONCURRENT_REQUESTS_PER_DOMAIN": _CAP,
            "CARS_STORE_TIMEOUT": 60,
        }

        def worker(number: int) -> Crawl:
            return crawl(
                site.url, place / "out", settings=settings, jobdir=place / f"job-{number}", env=databases.env
            )

        first = stack.enter_context(worker(1))
        second = stack.enter_context(worker(2))
        wait_until(lambda: site.counts()["specs"] > 200, what="a crawl at work")
        views = {**shared, "CARS_API_URL": site.url, "CARS_OUTPUT_DIR": str(place / "out")}
        watch = [sys.executable, "-m", "scrapy", "queue", "watch", *options(views)]
        terminal = stack.enter_context(Terminal(watch))
        url = stack.enter_context(serving(["dashboard", "--port", "0"], views))
        async with browser() as chromium:
            page = await chromium.open(url)
            scene = Scene(into, terminal, page, within)
            await scene.shows("running", ["running", r"answers/s"], [r"(?i)running"])
            await asyncio.sleep(15)  # so that there is something to see of rates
            await scene.keep("running")

            site.faults([{"fault": "delay", "seconds": 2.0}])
            slow = [r"an answer takes [\d.]+ s, and took"]
            await scene.shows("slow", slow, slow)

            site.faults([{"fault": "status", "status": 429, "retry_after": "12", "times": 8}])
            await scene.shows("throttled", ["429"], ["429"])
            site.faults([])
            await asyncio.sleep(14)

            first.kill()
            await scene.shows("killed", [r"silent for \d"], [r"silent for \d"])
            first = stack.enter_context(worker(1))
            wait_until(lambda: "Spider opened" in first.log, what="the worker is back")

            databases.postgres.kill()
            store = [r"PostgreSQL +lacks [\d,]+ records: it does not answer"]
            await scene.shows("store", store, store)
            databases.postgres.start()

            if axe is not None:
                wrong += await _judged_by(axe, page)
            for run in (first, second):
                status = await asyncio.to_thread(run.wait, 1200)
                if status:
                    wrong.append(f"a worker has ended with {status}:\n{run.log[-3000:]}")
            found = sorted(set(site.ids()) ^ set(first.cars()))
            if found:
                wrong.append(f"{len(found)} listings are missing or too many")
            wrong += [f"the browser complains: {one}" for one in page.complaints]
            wrong += [f"a request to {one}" for one in page.asked if not _is_here(one)]
            wrong += [
                f"{seen.name}: shown after {max(seen.terminal, seen.page):.1f} s"
                for seen in scene.seen
                if max(seen.terminal, seen.page) > within
            ]
    return wrong


def _is_here(url: str) -> bool:
    found = urlsplit(url)
    return found.scheme in ("data", "blob", "about") or found.hostname == "127.0.0.1"


async def _judged_by(axe: Path, page: Page) -> list[str]:
    """What an accessibility checker finds that is serious."""
    await page.run(axe.read_text() + "; 0")
    found = await page.run(
        "axe.run().then(found => found.violations.filter(one => ['serious', 'critical'].includes(one.impact))"
        ".map(one => one.id + ': ' + one.nodes.map(node => node.target.join(' ')).join(', ')))"
    )
    return [f"axe: {one}" for one in found]


def main() -> None:
    """Play it; exit status 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("into", type=Path)
    parser.add_argument("--listings", type=int, default=71_290)
    parser.add_argument("--within", type=float, default=5.0, help="seconds")
    parser.add_argument("--axe", type=Path)
    asked = parser.parse_args()
    asked.into.mkdir(parents=True, exist_ok=True)
    wrong = asyncio.run(play(asked.into, asked.listings, asked.within, asked.axe))
    for one in wrong:
        print(f"WRONG: {one}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
