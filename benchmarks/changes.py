"""How large `changes.jsonl` gets, and what comparing takes: `python -m benchmarks.changes --listings 71290`.

The stand-in's catalogue is published, changed by its churn (each day 2 % of the listings come, 2 % go, 3 % change their
price), and published again.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from carscraper.changes.lines import head_of
from carscraper.changes.log import CHANGES_JSONL, Changes
from carscraper.demo.catalogue import Catalogue
from carscraper.demo.churn import Change
from scrapy_durable.disk import write_atomically

COME, PRICED = 0.02, 0.03


def records(catalogue: Catalogue, day: int) -> Iterator[tuple[str, bytes]]:
    """As a crawl of that day keeps them."""
    for listing in catalogue.ids:
        resource_ = catalogue.listing(listing)
        assert resource_ is not None
        attributes = resource_["attributes"]
        spec = catalogue.spec(attributes["code"], attributes["year"]) or {}
        record = {
            "id": listing,
            "url": attributes.get("website_url", ""),
            "scraped_at": f"2026-11-{day:02d}T10:15:00.000Z",
            "car_attrs": attributes,
            "car_specs": spec.get("data", spec) or [],
        }
        yield listing, orjson.dumps(record)


def array(lines: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The text of `cars.json`."""
    separator = b"[\n"
    for _, record in lines:
        yield separator
        yield record
        separator = b",\n"
    yield b"\n]\n"


def _memory() -> float:
    """The most that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Publish twice, and print what that has made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=5000)
    listings = parser.parse_args().listings
    catalogue = Catalogue(listings)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place)
        for day in (1, 2):
            time_ = f"2026-11-{day:02d}T11:00:00Z"
            new = list(records(catalogue, day))
            took, before = time.process_time(), _memory()
            with Changes(out).following(f"run-{day}", time_, time_, new, ()):
                took, grown = time.process_time() - took, _memory() - before
                write_atomically(out / "cars.json", array(new))
            prices = dict.fromkeys(catalogue.ids[: int(listings * PRICED)], 1000 + day)
            middle = (listings // 2, int(listings * COME))
            Change(0, int(listings * COME), (), middle, prices).apply(catalogue)
        sizes, counts = Counter[str](), Counter[str]()
        for line in (out / CHANGES_JSONL).read_bytes().splitlines(keepends=True):
            head = head_of(line)
            assert head is not None
            sizes[head.kind] += len(line)
            counts[head.kind] += 1
        print(f"{listings:,} listings, cars.json {(out / 'cars.json').stat().st_size / 1e6:.1f} MB")
        for kind, number in counts.items():
            print(f"{kind:8} {number:6,} lines of {sizes[kind] / number:7,.0f} bytes")
        print(
            f"a day: {sum(sizes.values()) / 1e6:.2f} MB; compared in {took:.1f} s of CPU, {grown:.0f} MB more memory"
        )


if __name__ == "__main__":
    main()
