"""`make bench`: one catalogue, crawled by us, by stock Scrapy, and by a bare asyncio client as the limit.

All read it from the same static copy on loopback, 32 requests at once, without delays. With `--only
scheduler,ours,jobdir,redis` the contestants are this crawl on Scrapy's own in-memory scheduler, on the frontier in
memory, in a file, and on a Redis with an append-only file; with `--only ours,databases`, without and with a MongoDB
and a PostgreSQL; with `--only floor,ours,refresh`, the durable floor, a crawl, and one that finds all specifications
stored; with `--only reparse`, a crawl, and the same reparsed from what it has stored. What each took
is measured from outside, and its records are counted in the file that it left, and in the databases. The exit
status is 1 when one of them did not end well, did not keep every listing exactly once, or built other records, or
built a whole catalogue less than three times as fast as it was crawled.
"""

from __future__ import annotations

import argparse
import pstats
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from statistics import median

from redis import Redis

from benchmarks.contestants import ROOT, Result, clean_environment, command, measure
from tests.databases.looking import Databases, two_servers
from tests.redis_server import RedisServer

NAMES = {
    "ours": "this crawl",
    "stock": "stock Scrapy",
    "bare": "bare asyncio client",
    "floor": "durable floor",
    "scheduler": "… Scrapy's scheduler",
    "jobdir": "… with JOBDIR",
    "redis": "… on a local Redis",
    "databases": "… with both databases",
    "refresh": "… specs stored",
    "reparse": "… reparsed",
}
RACE = "ours,stock,bare"
TIMES_FASTER, WHOLE = 3.0, 50_000
"""How many times as long a crawl has to take as building it again, from so many listings on: of fewer, what counts is
the time that Python takes to start.
"""
TOP = 40


@contextmanager
def static_copy(listings: int, page_size: int) -> Iterator[str]:
    """A static server in a process of its own; gives its address."""
    arguments = [f"--listings={listings}", f"--page-size={page_size}"]
    command_line = [sys.executable, "-m", "benchmarks.static_server", *arguments]
    with subprocess.Popen(command_line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the static server ended with {process.wait()}")
            yield url
        finally:
            process.terminate()


def table(results: Sequence[Result]) -> str:
    """One line per run, and one per contestant with its ratios to the others (medians of wall and CPU)."""
    lines = [
        f"{'contestant':<22}{'wall s':>9}{'CPU s':>9}{'peak MB':>9}{'requests':>10}{'pages':>7}{'specs':>8}"
        f"{'records':>9}{'ids':>8}{'exit':>6}{'server CPU s':>14}"
    ]
    lines += [
        f"{NAMES[run.name]:<22}{run.wall_s:>9.2f}{run.cpu_s:>9.2f}{run.peak_mb:>9.0f}{run.requests:>10}"
        f"{run.served['pages']:>7}{run.served['specs']:>8}{run.rows:>9}{run.ids:>8}{run.status:>6}"
        f"{run.server_cpu_s:>14.2f}"
        for run in results
    ]
    names = list(dict.fromkeys(run.name for run in results))
    for other in (
        "floor",
        "bare",
        "stock",
        "scheduler",
        *(("ours",) if {"databases", "refresh", "reparse"} & set(names) else ()),
    ):
        for name in names:
            if other in names and name != other:
                wall, cpu, peak = (
                    _ratio(results, name, other, measured) for measured in ("wall_s", "cpu_s", "peak_mb")
                )
                lines.append(
                    f"{NAMES[name]} / {NAMES[other]}: wall {wall:.2f}, CPU {cpu:.2f}, peak memory {peak:.2f},"
                    f" requests {_ratio(results, name, other, 'requests'):.2f}"
                )
    return "\n".join(lines)


def fingerprint(path: Path) -> int:
    """Of the lines of a file, whatever their order; a line at a time, so that this process stays small."""
    with path.open("rb") as lines:
        return sum(int.from_bytes(blake2b(line.rstrip(b",\n"), digest_size=16).digest()) for line in lines)


def _ratio(results: Sequence[Result], name: str, other: str, measured: str) -> float:
    over, under = (
        median(getattr(run, measured) for run in results if run.name == wanted) for wanted in (name, other)
    )
    return float(over / under)


def profile(url: str, page_size: int) -> int:
    """Run this crawl under cProfile and print where its own time goes; returns its exit status."""
    with tempfile.TemporaryDirectory() as directory:
        stats = Path(directory) / "profile"
        crawl = command("ours", url, page_size, Path(directory) / "output")
        ended = subprocess.run(
            [*crawl, "--profile", str(stats)], cwd=ROOT, env=clean_environment(), check=False
        )
        figures = pstats.Stats(str(stats))
        figures.sort_stats("tottime").print_stats(TOP)
        print("\n".join([*shares(figures), "", *largest(figures)]))
    return ended.returncode


def shares(figures: pstats.Stats) -> Iterator[str]:
    """How much of the time was spent in whose functions: packages, our parts, built-in functions by name."""
    times: Counter[str] = Counter()
    for (path, _, function), (_, _, own_time, _, _) in figures.stats.items():  # type: ignore[attr-defined]
        if found := re.search(r"site-packages/(\w+)/(\w+)", path):
            whose = (
                "/".join(found.groups())
                if found[1] in ("scrapy", "carscraper", "scrapy_durable")
                else found[1]
            )
        elif Path(path).is_relative_to(ROOT):
            whose = "/".join(Path(path).relative_to(ROOT).with_suffix("").parts[:2])
        else:
            whose = function if path == "~" else "Python's library"
        times[whose] += own_time
    total = sum(times.values())
    for whose, seconds in times.most_common(25):
        yield f"{100 * seconds / total:5.1f} %  {whose}"


def largest(figures: pstats.Stats) -> Iterator[str]:
    """Our functions that take most of the time by themselves, what they call that is built in included."""
    times: Counter[str] = Counter()
    total = 0.0
    for (path, line, function), (_, _, own_time, _, callers) in figures.stats.items():  # type: ignore[attr-defined]
        total += own_time
        whose = {(path, line, function): own_time}
        if path == "~":
            whose = {caller: time for caller, (_, _, time, _) in callers.items()}
        for (where, _, name), seconds in whose.items():
            if Path(where).is_relative_to(ROOT) and "site-packages" not in where:
                times[f"{Path(where).relative_to(ROOT)} {name}"] += seconds
    for function, seconds in times.most_common(12):
        yield f"{100 * seconds / total:5.1f} %  {function}"


def run_all(names: Sequence[str], listings: int, page_size: int, runs: int) -> list[Result]:
    """Each contestant `runs` times, in turns; the log of a run that did not end well goes to stderr."""
    results = []
    with static_copy(listings, page_size) as url, ExitStack() as stack:
        redis_url = ""
        if "redis" in names:
            server = stack.enter_context(RedisServer(appendonly=True))
            redis_url = server.url
        servers = stack.enter_context(two_servers()) if "databases" in names else None
        for name in list(names) * runs:
            with tempfile.TemporaryDirectory() as directory:
                output, log = Path(directory) / "output", Path(directory) / "log"
                output.mkdir()
                if redis_url:
                    Redis.from_url(redis_url).flushall()
                fresh = (
                    Databases(servers.mongo, servers.postgres) if servers and name == "databases" else None
                )
                if name == "refresh":
                    measure("ours", url, page_size, output, log)
                if name == "reparse":
                    results.append(measure("ours", url, page_size, output, log))
                    crawled = fingerprint(output / "cars.json")
                result = measure(
                    name, url, page_size, output, log, redis_url, env=fresh.env if fresh else None
                )
                if name == "reparse" and (result.requests or fingerprint(output / "cars.json") != crawled):
                    print(
                        f"{result.requests} requests, or other records than those of the crawl",
                        file=sys.stderr,
                    )
                    result = replace(result, status=1)
                if fresh and fresh.counts() != (listings, listings):
                    print(f"MongoDB and PostgreSQL hold {fresh.counts()}", file=sys.stderr)
                    result = replace(result, status=1)
                if not result.complete(listings):
                    print(log.read_text(errors="replace")[-4_000:], file=sys.stderr)
            results.append(result)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=__doc__)
    parser.add_argument("--listings", type=int, default=71_290)
    parser.add_argument("--page-size", type=int, default=100)
    parser.add_argument("--only", default=RACE, help=f"of {','.join(NAMES)}; default: {RACE}")
    parser.add_argument("--runs", type=int, default=1, help="how often each; ratios are of medians")
    parser.add_argument(
        "--profile", action="store_true", help="instead: run ours under cProfile, print the top 40"
    )
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if not set(names) <= NAMES.keys():
        parser.error(f"--only: of {', '.join(NAMES)}")
    if options.profile:
        with static_copy(options.listings, options.page_size) as url:
            return profile(url, options.page_size)
    results = run_all(names, options.listings, options.page_size, options.runs)
    print(f"{options.listings} listings, pages of {options.page_size}")
    print(table(results))
    fast_enough = True
    if "reparse" in names:
        times = _ratio(results, "ours", "reparse", "wall_s")
        fast_enough = times >= TIMES_FASTER or options.listings < WHOLE
        print(f"a crawl takes {times:.1f} times as long as reparsing it")
    return 0 if fast_enough and all(run.complete(options.listings) for run in results) else 1


if __name__ == "__main__":
    sys.exit(main())
