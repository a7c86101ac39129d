"""What the tab about cars takes to read a catalogue: `python -m benchmarks.cars_tab data/cars.json --times 14`.

With `--times`, that many catalogues of these records one after the other, as one.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from carscraper.dashboard import catalogue as module
from carscraper.dashboard.charts import price_over_age
from carscraper.output.cars_json import Line, published_lines


def _memory() -> float:
    """The most that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Read, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="a cars.json")
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()

    def lines(path: Path) -> Iterator[Line]:
        for _ in range(options.times):
            yield from published_lines(path)

    with mock.patch.object(module, "published_lines", lines):
        took, before = time.process_time(), _memory()
        catalogue = module.read_catalogue(options.file)
        took, grown = time.process_time() - took, _memory() - before
    print(f"{catalogue.listings:,} listings read in {took:.1f} s of CPU, {grown:.0f} MB more memory")
    make = max(catalogue.makes, key=catalogue.makes.__getitem__)
    counts = catalogue.counts(make)
    model = max(counts, key=counts.__getitem__)
    took = time.process_time()
    chart = price_over_age(catalogue, make, model)
    took = time.process_time() - took
    print(f"a chart of the {chart['listings']:,} listings of {make} {model}: {took * 1000:.0f} ms")


if __name__ == "__main__":
    main()
