"""`python -m benchmarks.busy`: whether all workers of one Redis are busy, figure by figure, against what is aimed for.

Each figure is of crawls of `benchmarks/workers.py`, which take turns, so that what else the machine does is spread over
all: the median of the runs, and from where to where they go. The site's latency is high enough that the processes need
less than one core together; only the crawls at full speed, in which the round trips are what is looked at, take what
there is. The exit status is 1 when a figure's median misses its aim.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import uvloop

from benchmarks.workers import Run, crawl, spread

CONCURRENT = 16
LATENCY = 0.2
"""Seconds; of the site whose cap one worker can fill."""
SLOW = 1.0
"""The same of the one that takes four workers: 64 requests a second."""
FULL_SPEED = 800
"""Requests of a crawl of a site that answers at once."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """One that is measured; `latency` is in seconds, `cap` is of all workers."""

    workers: int
    cap: int
    latency: float

    @property
    def ideal(self) -> float:
        """Requests a second, at most."""
        return min(self.cap, max(1, self.workers) * CONCURRENT) / self.latency

    def measured(self, seconds: float) -> Run:
        """Run it for so long, at best."""
        requests = round(self.ideal * seconds) if self.latency else FULL_SPEED
        return uvloop.run(
            crawl(
                workers=self.workers,
                cap=self.cap,
                concurrent=CONCURRENT,
                latency=self.latency,
                redis_latency=0.0,
                requests=requests,
            )
        )


ALONE = [Crawl(number, CONCURRENT, LATENCY) for number in (0, 1)]
SHARED = {number: Crawl(number, CONCURRENT, LATENCY) for number in (1, 2, 4)}
SLOWLY = {number: Crawl(number, 4 * CONCURRENT, SLOW) for number in (1, 2, 4)}
FAST = {number: Crawl(number, 4 * CONCURRENT, 0.0) for number in (1, 2, 4)}
ALL = list(dict.fromkeys([*ALONE, *SHARED.values(), *SLOWLY.values(), *FAST.values()]))


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: its numbers, one of each round, and what their median has to be."""

    name: str
    numbers: Sequence[float]
    digits: int
    aim: str
    is_met: Callable[[float], bool]

    def line(self) -> str:
        """As Markdown."""
        met = "yes" if self.is_met(median(self.numbers)) else "no"
        return f"| {self.name} | {spread(list(self.numbers), self.digits)} | {self.aim} | {met} |"


def farthest(run: Run) -> float:
    """By how much of an even share the share of a worker differs from it, at most."""
    even = sum(run.shares) / len(run.shares)
    return max(abs(share - even) for share in run.shares) / even


def figures(runs: dict[Crawl, list[Run]]) -> list[Figure]:
    """All that are asked for, and Scrapy alone beside the first."""
    found = [
        Figure(
            f"{who} at a cap of {CONCURRENT}, part of cap / latency",
            [run.rate / one.ideal for run in runs[one]],
            2,
            aim,
            is_met,
        )
        for who, one, aim, is_met in (
            ("Scrapy alone", ALONE[0], "", lambda _: True),
            ("one worker", ALONE[1], "≥ 0.95", lambda part: part >= 0.95),
        )
    ]
    for number, aim in ((2, 1.9), (4, 3.7)):
        times = [
            several.rate / one.rate
            for several, one in zip(runs[SLOWLY[number]], runs[SLOWLY[1]], strict=True)
        ]
        found.append(
            Figure(
                f"{number} workers at a cap of {4 * CONCURRENT}, times one",
                times,
                2,
                f"≥ {aim}",
                lambda ratio, aim=aim: ratio >= aim,  # type: ignore[misc]
            )
        )
    for number in (2, 4):
        shares = [farthest(run) for run in runs[SHARED[number]]]
        name = f"a share of {number} workers at a cap of {CONCURRENT}, off the even one"
        found.append(Figure(name, shares, 2, "≤ 0.20", lambda off: off <= 0.2))
    most = [max(run.most - one.cap for one in ALL for run in runs[one])]
    found.append(
        Figure("in flight beyond the cap, at most, in all crawls", most, 0, "≤ 0", lambda over: over <= 0)
    )
    for name, crawls in ((f" at {LATENCY * 1000:.0f} ms", SHARED), (" at full speed", FAST)):
        for number, one in crawls.items():
            trips = [run.round_trips for run in runs[one]]
            who = f"{number} worker{'s' if number > 1 else ''}"
            found.append(
                Figure(f"round trips a request, {who}{name}", trips, 3, "≤ 0.1", lambda each: each <= 0.1)
            )
    return found


def main() -> int:
    """Measure in turns, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.busy", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=12, help="that a run takes at best (default: 12)")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    runs: dict[Crawl, list[Run]] = {one: [] for one in ALL}
    for number in range(options.runs):
        for one in ALL if number % 2 == 0 else reversed(ALL):
            runs[one].append(one.measured(options.seconds))
            sys.stderr.write(f"{one}: {runs[one][-1]}\n")
    found = figures(runs)
    sys.stdout.write("| | median (from, to) | aim | met |\n|---|---|---|---|\n")
    sys.stdout.write("".join(f"{figure.line()}\n" for figure in found))
    sys.stdout.write(f"\nload {before:.1f} before, {os.getloadavg()[0]:.1f} after\n")
    return int(not all(figure.is_met(median(figure.numbers)) for figure in found))


if __name__ == "__main__":
    sys.exit(main())
