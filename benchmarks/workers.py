"""`python -m benchmarks.workers`: how busy workers on one Redis keep a site that answers after a fixed latency.

The site is asyncio in this process, its bodies are two bytes, and no more requests are in flight than a cap that all
workers share: so the most that can be reached is cap / latency. Measured between a fifth and four fifths of the
answers, once all workers have joined: requests a second (the slope of a line through all answers, since those that
were asked for together come together), round trips to the frontier (calls of scripts) a request, how many requests
each worker has had of them, and the most at once that the site has seen.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from statistics import linear_regression, median

import redis
import uvloop

from benchmarks.contestants import ROOT
from tests.redis_server import RedisServer
from tests.tcp_proxy import TcpProxy

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


class Site:
    """Answers everything after `latency` seconds, once it is open; counts by the name of who asks."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.open = asyncio.Event()
        self.answered: list[tuple[float, str]] = []
        """When, and whom."""
        self.most = 0
        """In flight at once."""
        self.port = 0
        self.in_flight = 0

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more."""
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"user-agent:"))
                agent = line.split()[1].decode()
                self.in_flight += 1
                self.most = max(self.most, self.in_flight)
                await self._pass_time(agent)
                self.in_flight -= 1
                self.answered.append((time.monotonic(), agent))
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _pass_time(self, agent: str) -> None:
        await self.open.wait()
        await asyncio.sleep(self.latency)


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: requests a second, round trips a request, how many each worker had, the most at once."""

    rate: float
    round_trips: float
    shares: list[int]
    most: int


async def crawl(
    *, workers: int, cap: int, concurrent: int, latency: float, redis_latency: float, requests: int
) -> Run:
    """Let so many workers crawl so many pages; 0: one with Scrapy's own scheduler, without Redis.

    `latency` and `redis_latency` are seconds.
    """
    site, stock = Site(latency), False
    await site.start()
    with tempfile.TemporaryDirectory() as directory, RedisServer() as server, server.client() as client:
        if not workers:
            workers, stock = 1, True
        async with TcpProxy(server.port) as proxy:
            proxy.delay = redis_latency
            port = proxy.port if redis_latency else server.port
            processes = [
                start_worker(directory, f"worker-{number}", port, site.port, requests, cap, concurrent, stock)
                for number in range(workers)
            ]
            try:
                if not stock:
                    await _until(lambda: client.hlen("{pages}:workers") == workers)
                site.open.set()
                await _until(lambda: len(site.answered) >= requests // 5)
                calls, first = _calls(client), len(site.answered)
                await _until(lambda: len(site.answered) >= requests * 4 // 5)
                calls, last = _calls(client) - calls, len(site.answered)
                for process in processes:
                    if await asyncio.to_thread(process.wait, 300) != 0:
                        raise RuntimeError("a crawl has failed; see above")
            finally:
                for process in processes:
                    process.kill()
                await site.close()
    measured = site.answered[first:last]
    shares = Counter(agent for _, agent in measured)
    return Run(
        linear_regression([at for at, _ in measured], range(len(measured))).slope,
        calls / len(measured),
        [shares[f"worker-{number}"] for number in range(workers)],
        site.most,
    )


def start_worker(
    directory: str,
    name: str,
    redis_port: int,
    site_port: int,
    requests: int,
    cap: int,
    concurrent: int,
    stock: bool = False,
) -> subprocess.Popen[bytes]:
    """A crawl in a process of its own; `name` is what it tells the site, `stock` is Scrapy alone."""
    settings = {
        "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "USER_AGENT": name,
        "CONCURRENT_REQUESTS": concurrent,
        "CONCURRENT_REQUESTS_PER_DOMAIN": cap,
        "LOG_LEVEL": "ERROR",
    }
    if stock:
        settings.update({"ADDONS": "{}", "REDIS_URL": ""})
    command = [sys.executable, "-m", "scrapy", "runspider", str(ROOT / "benchmarks" / "workers_spider.py")]
    command += ["-a", f"site=http://127.0.0.1:{site_port}", "-a", f"pages={requests}"]
    for setting, value in settings.items():
        command += ["-s", f"{setting}={value}"]
    return subprocess.Popen(command, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)})


async def _until(condition: object) -> None:
    until = time.monotonic() + 300
    while not condition():  # type: ignore[operator]
        if time.monotonic() > until:
            raise RuntimeError("the workers stand still")
        await asyncio.sleep(0.01)


def _calls(client: redis.Redis) -> int:
    """Scripts that were called by now."""
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


def main() -> None:
    """Measure as the arguments say, and print a line of a table for each number of workers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[0, 1, 2, 4], help="0: Scrapy's own scheduler"
    )
    parser.add_argument("--cap", type=int, default=16, help="in flight at once, of all workers (default: 16)")
    parser.add_argument("--concurrent", type=int, default=16, help="CONCURRENT_REQUESTS (default: 16)")
    parser.add_argument("--latency", type=float, default=0.2, help="of the site, in seconds (default: 0.2)")
    parser.add_argument("--redis-latency", type=float, default=0.0, help="of Redis, in seconds (default: 0)")
    parser.add_argument("--seconds", type=float, default=12, help="that a run takes at best (default: 12)")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(
        "| workers | requests/s (at most) | times one | round trips a request | requests of each | most at once |"
    )
    print("|---|---|---|---|---|---|")
    one = 0.0
    for workers in options.workers:
        ideal = min(options.cap, max(1, workers) * options.concurrent) / options.latency
        runs = [
            uvloop.run(
                crawl(
                    workers=workers,
                    cap=options.cap,
                    concurrent=options.concurrent,
                    latency=options.latency,
                    redis_latency=options.redis_latency,
                    requests=round(ideal * options.seconds),
                )
            )
            for _ in range(options.runs)
        ]
        rate = median(run.rate for run in runs)
        one = rate if workers == 1 else one
        print(
            f"| {workers or 'Scrapy alone'} | {spread([run.rate for run in runs], 1)} ({ideal:.0f}) "
            f"| {f'{rate / one:.2f}' if one else ''} "
            f"| {spread([run.round_trips for run in runs], 3)} "
            f"| {'; '.join(' '.join(map(str, run.shares)) for run in runs)} "
            f"| {max(run.most for run in runs)} of {options.cap} |",
            flush=True,
        )


def spread(figures: list[float], digits: int) -> str:
    """The median, and from where to where they go."""
    return f"{median(figures):.{digits}f} ({min(figures):.{digits}f} to {max(figures):.{digits}f})"


if __name__ == "__main__":
    main()
