"""`python -m benchmarks.watched`: what it costs a crawl to be watched.

Crawls of one catalogue over one Redis, in pairs: one alone, one with `scrapy queue watch`, a dashboard whose page is
fetched each two seconds as an open tab does, and metrics that are scraped each five. Compared are the crawl's own CPU
time and that of Redis; the viewers run beside it, as they would on another machine, and are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.against import ratios
from benchmarks.bench import static_copy
from benchmarks.contestants import Result, measure
from benchmarks.scene import options, serving
from tests.redis_server import RedisServer
from tests.status.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Run:
    """A crawl, and the seconds of CPU that its Redis took."""

    crawl: Result
    redis_s: float

    @property
    def cpu_s(self) -> float:
        """Of both."""
        return self.crawl.cpu_s + self.redis_s


@contextlib.contextmanager
def viewers(place: dict[str, str]) -> Iterator[None]:
    """All views, of a crawl that may not have begun."""
    with ExitStack() as stack:
        command = [sys.executable, "-m", "scrapy", "queue", "watch", *options(place)]
        stack.enter_context(Terminal(command))
        page = stack.enter_context(serving(["dashboard", "--port", "0"], place))
        metrics = stack.enter_context(serving(["queue", "metrics", "--port", "0"], place))
        over = threading.Event()
        for url, seconds in ((f"{page}/live", 2.0), (f"{metrics.removesuffix('/metrics')}/metrics", 5.0)):
            reader = threading.Thread(target=_fetch, args=(url, seconds, over))
            reader.start()
            stack.callback(reader.join)
        stack.callback(over.set)
        yield


def _fetch(url: str, seconds: float, over: threading.Event) -> None:
    while not over.wait(seconds):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            answer.read()


def run(url: str, page_size: int, *, watched: bool) -> Run:
    """One crawl on a Redis of its own."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(RedisServer())
        if watched:
            stack.enter_context(viewers({"REDIS_URL": server.url, "CARS_API_URL": url}))
        output = directory / "output"
        output.mkdir()
        found = measure("redis", url, page_size, output, directory / "log", server.url)
        with server.client() as client:
            used = client.info("cpu")
        return Run(found, used["used_cpu_user"] + used["used_cpu_sys"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 when it costs more than `--most`, or a crawl is not complete."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watched", description=__doc__)
    parser.add_argument("--listings", type=int, default=20_000)
    parser.add_argument("--page-size", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.02)
    asked = parser.parse_args(arguments)
    pairs = []
    with static_copy(asked.listings, asked.page_size) as url:
        for number in range(asked.pairs):
            found = {}
            for watched in (True, False) if number % 2 else (False, True):
                found[watched] = run(url, asked.page_size, watched=watched)
                if not found[watched].crawl.complete(asked.listings):
                    print("a crawl is not complete", file=sys.stderr)
                    return 1
            pairs.append((found[True], found[False]))
            print(
                "   ".join(
                    f"{'watched' if one is found[True] else 'alone'}: crawl {one.crawl.cpu_s:.2f} s, Redis "
                    f"{one.redis_s:.2f} s, wall {one.crawl.wall_s:.1f} s"
                    for one in (found[True], found[False])
                ),
                flush=True,
            )
    each = sorted(watched.cpu_s / alone.cpu_s for watched, alone in pairs)
    print(f"CPU of crawl and Redis, watched over alone: {median(each):.3f} ({each[0]:.3f} to {each[-1]:.3f})")
    wall = ratios([(watched.crawl, alone.crawl) for watched, alone in pairs], "wall_s")
    print(f"wall, on the machine that the viewers are on too: {median(wall):.3f}")
    return int(median(each) > asked.most)


if __name__ == "__main__":
    sys.exit(main())
