"""`python -m benchmarks.far`: what a crawl takes with a Redis that is far away, against one that is near.

The same crawl of 300 listings, by the real command line, with answers of Redis that are late by so many seconds, in
turns. Round trips are those of all connections, many of which go on beside each other.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.crawling import crawl
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.tcp_proxy import TcpProxy


async def measured(listings: int, latency: float) -> tuple[float, int]:
    """Seconds, and how often the crawl has waited for Redis, on all connections."""
    with (
        RedisServer(appendonly=True) as server,
        StandIn(listings) as site,
        tempfile.TemporaryDirectory() as directory,
    ):
        async with TcpProxy(server.port) as proxy:
            proxy.delay = latency
            began = time.monotonic()
            url = f"redis://127.0.0.1:{proxy.port}/0"
            with crawl(
                site.url, Path(directory) / "out", redis_url=url, jobdir=Path(directory) / "job"
            ) as run:
                if await asyncio.to_thread(run.wait, 300):
                    raise RuntimeError(run.log)
            return time.monotonic() - began, len(proxy.round_trips)


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
    runs: dict[float, list[tuple[float, int]]] = {0.0: [], options.latency: []}
    for _ in range(options.runs):
        for latency, found in runs.items():
            found.append(asyncio.run(measured(options.listings, latency)))
    print("| Redis | seconds | round trips |\n|---|---|---|")
    for latency, found in runs.items():
        seconds, trips = [one for one, _ in found], [one for _, one in found]
        print(
            f"| {latency * 1000:.0f} ms away | {median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f}) "
            f"| {median(trips):.0f} ({min(trips)} to {max(trips)}) |"
        )
    far, near = (median(one for one, _ in runs[latency]) for latency in (options.latency, 0.0))
    print(f"\nthe distance costs {far - near:.1f} s")


if __name__ == "__main__":
    main()
