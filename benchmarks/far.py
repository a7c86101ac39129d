"""`python -m benchmarks.far`: what a crawl takes with a Redis that is far away, against one that is near.

The same crawl of 300 listings, by the real command line, with answers of Redis that are late by so many seconds, in
turns: until the first exchange with the frontier, until a worker is elected to finish, and the end. Round trips are
those of all connections, many of which go on beside each other; `--latency 1` tells how many the crawl waits for, since
nothing else takes as long.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.workers import spread
from scrapy_durable.frontier.redis_scripts import load_script
from tests.crawling import crawl
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.tcp_proxy import TcpProxy

PARTS = ("begin", "middle", "end")
SCRAPY = (str(Path(sys.executable).with_name("scrapy")),)
"""Started as a user does: what the tests fork would lack the time that this takes."""


class Timed(list[bytes]):
    """The round trips that a proxy notes, and when each was begun."""

    def __init__(self) -> None:
        super().__init__()
        self._at: list[float] = []

    def append(self, asked: bytes) -> None:
        """Note it, and the time."""
        self._at.append(time.monotonic())
        super().append(asked)

    def first(self, script: str) -> float:
        """When that script was called for the first time."""
        sha = load_script(script).sha.encode()
        return next(
            at for at, asked in zip(self._at, self, strict=True) if b"EVALSHA" in asked and sha in asked
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: seconds of its parts, and how often it has waited for Redis, on all connections."""

    begin: float
    middle: float
    end: float
    round_trips: int


async def measured(listings: int, latency: float) -> Run:
    """Crawl once with a Redis that is so many seconds away."""
    with (
        RedisServer(appendonly=True) as server,
        StandIn(listings) as site,
        tempfile.TemporaryDirectory() as directory,
    ):
        async with TcpProxy(server.port) as proxy:
            proxy.delay, proxy.round_trips = latency, (timed := Timed())
            began = time.monotonic()
            url = f"redis://127.0.0.1:{proxy.port}/0"
            places = {"redis_url": url, "jobdir": Path(directory) / "job"}
            with crawl(site.url, Path(directory) / "out", runner=SCRAPY, **places) as run:
                if await asyncio.to_thread(run.wait, 300):
                    raise RuntimeError(run.log)
            ended = time.monotonic()
            first, last = timed.first("exchange"), timed.first("elect_finisher")
            return Run(first - began, last - first, ended - last, len(timed))


def main() -> None:
    """Measure, and print a line of a table for each distance."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--listings", type=int, default=300)
    parser.add_argument(
        "--latency", type=float, default=0.2, help="of the far Redis, in seconds (default: 0.2)"
    )
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    runs: dict[float, list[Run]] = {0.0: [], options.latency: []}
    for _ in range(options.runs):
        for latency, found in runs.items():
            found.append(asyncio.run(measured(options.listings, latency)))
    print("| Redis | begin | middle | end | round trips |\n|---|---|---|---|---|")
    for latency, found in runs.items():
        seconds = " | ".join(spread([getattr(one, part) for one in found], 1) for part in PARTS)
        trips = spread([one.round_trips for one in found], 0)
        print(f"| {latency * 1000:.0f} ms away | {seconds} | {trips} |")
    near, far = (
        sum(median(getattr(one, part) for one in found) for part in PARTS) for found in runs.values()
    )
    print(f"\nthe distance costs {far - near:.1f} s, {(far - near) / options.latency:.0f} round trips")


if __name__ == "__main__":
    main()
