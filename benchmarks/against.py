"""This checkout against another commit: both crawl the same catalogue, in turns, and what each took is compared.

`python -m benchmarks.against COMMIT` checks the commit out beside this one, for as long as it takes. Each pair is a
crawl by either, the order changing from pair to pair; the ratios are those of the pairs, with their median. `--jobdir`
has both keep their frontier in a file, `--databases` has both write to a MongoDB and a PostgreSQL of their own, empty
at first; `--again` measures a second run on the same output directory, which finds its specifications stored. The exit
status is 1 when a crawl did not keep every listing once, in all places, when one asked for more than the other, or when
this checkout takes more than `--most` times as much user CPU time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.bench import static_copy
from benchmarks.contestants import ROOT, Result, measure
from tests.databases.looking import Databases, two_servers

MEASURED = {"user": "user_s", "user and system": "cpu_s", "wall": "wall_s", "peak memory": "peak_mb"}


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A directory with the files of a commit of this repository."""
    with tempfile.TemporaryDirectory() as directory:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x"], cwd=directory, check=True, input=archive.stdout)
        yield Path(directory)


def run_pairs(
    other: Path, *, listings: int, page_size: int, pairs: int, name: str, again: bool, databases: bool
) -> Iterator[tuple[Result, Result]]:
    """What this checkout and the other one took, pair by pair."""
    with static_copy(listings, page_size) as url, ExitStack() as stack:
        servers = stack.enter_context(two_servers()) if databases else None
        for number in range(pairs):
            found = {}
            for root in (ROOT, other) if number % 2 else (other, ROOT):
                with tempfile.TemporaryDirectory() as directory:
                    output, log = Path(directory) / "output", Path(directory) / "log"
                    output.mkdir()
                    fresh = Databases(servers.mongo, servers.postgres) if servers else None
                    for _ in range(2 if again else 1):
                        found[root] = measure(
                            name, url, page_size, output, log, root=root, env=fresh.env if fresh else None
                        )
                    if fresh and fresh.counts() != (listings, listings):
                        print(f"MongoDB and PostgreSQL hold {fresh.counts()}", file=sys.stderr)
                        found[root] = replace(found[root], status=1)
                    if not found[root].complete(listings):
                        print(log.read_text(errors="replace")[-4_000:], file=sys.stderr)
            yield found[ROOT], found[other]


def line(pair: tuple[Result, Result]) -> str:
    """One pair, this checkout first."""
    return "   ".join(
        f"user {run.user_s:6.2f} s  wall {run.wall_s:6.2f} s  peak {run.peak_mb:4.0f} MB  requests {run.requests}"
        for run in pair
    )


def ratios(pairs: Sequence[tuple[Result, Result]], measured: str) -> list[float]:
    """This checkout's over the other's, from the lowest to the highest."""
    return sorted(getattr(ours, measured) / getattr(other, measured) for ours, other in pairs)


def summary(pairs: Sequence[tuple[Result, Result]]) -> Iterator[str]:
    """One line per measure: medians of both, and the ratios of the pairs."""
    for name, measured in MEASURED.items():
        ours, other = (median(getattr(pair[side], measured) for pair in pairs) for side in (0, 1))
        found = ratios(pairs, measured)
        yield (
            f"{name:<16}{ours:8.2f} against {other:8.2f}, ratio of pairs {median(found):.3f}"
            f" ({found[0]:.3f} to {found[-1]:.3f})"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--listings", type=int, default=71_290)
    parser.add_argument("--page-size", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--jobdir", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--databases", action="store_true")
    parser.add_argument("--most", type=float, default=1.05)
    options = parser.parse_args(arguments)
    pairs = []
    with checkout(options.commit) as other:
        for pair in run_pairs(
            other,
            listings=options.listings,
            page_size=options.page_size,
            pairs=options.pairs,
            name="jobdir" if options.jobdir else "ours",
            again=options.again,
            databases=options.databases,
        ):
            pairs.append(pair)
            print(line(pair), flush=True)
    print("\n".join(summary(pairs)))
    same = all(
        run.complete(options.listings) and ours.requests <= other.requests
        for ours, other in pairs
        for run in (ours, other)
    )
    return 0 if same and median(ratios(pairs, "user_s")) <= options.most else 1


if __name__ == "__main__":
    sys.exit(main())
