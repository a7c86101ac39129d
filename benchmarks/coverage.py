"""`make coverage`: for how many cars each typed column has a value, and what could not be read.

A car counts for a column when one of the column's sources holds something else than "", "-", "n/a", "None" or null; a
monthly price of 0 is nothing too.
What is counted is found in the raw records by itself, not with the code that makes the rows.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from carscraper.api import columns as typed
from carscraper.api.rows import typed_row
from carscraper.items import Car
from carscraper.output.cars_json import read_cars
from scrapy_durable.exceptions import ConfigurationError

BEGIN, END = "<!-- made by `make coverage` -->", "<!-- until here -->"
_NOTHING = {"", "-", "n/a", "none"}
_EXAMPLES = 3


@dataclass
class Column:
    """What was counted for one column."""

    told: int = 0
    """Cars of which the API tells something."""
    read: int = 0
    """Cars that have a value in the table."""
    unread: Counter[str] = field(default_factory=Counter)
    """Raw values of cars that the API tells something of and that have none."""


@dataclass
class Coverage:
    """What was counted in all."""

    cars: int = 0
    columns: dict[str, Column] = field(default_factory=lambda: {name: Column() for name in typed.COLUMNS})
    unused: Counter[str] = field(default_factory=Counter)
    """Labels that no column is made of, and how many cars have them."""

    def add(self, car: Car) -> None:
        """Count one car."""
        self.cars += 1
        row = typed_row(car.car_attrs, car.car_specs)
        labels: dict[str, list[Any]] = {}
        for group in car.car_specs:
            for attr in group["attrs"]:
                labels.setdefault(attr["label"].strip().casefold(), []).append(attr["value"])
        self.unused.update(labels.keys() - _USED)
        for name, column in self.columns.items():
            raws = [raw for raw in _raws(SOURCES[name], car.car_attrs, labels) if not _is_nothing(name, raw)]
            column.told += bool(raws)
            if getattr(row, name) is not None:
                column.read += 1
            elif raws:
                column.unread[repr(raws[0])] += 1


SOURCES = {column.name: column for column in typed.DECLARED}
_USED = {label.casefold() for source in SOURCES.values() for label in source.labels}


def _raws(source: typed.Column, attributes: dict[str, Any], labels: dict[str, list[Any]]) -> Iterator[Any]:
    value: Any = attributes
    for step in source.attribute.split(".") if source.attribute else ():
        value = value.get(step) if isinstance(value, dict) else None
    if source.attribute:
        yield value
    for label in source.labels:
        yield from labels.get(label.casefold(), ())


def _is_nothing(column: str, raw: Any) -> bool:
    if column == "monthly_price_zar" and raw == 0:
        return True
    return raw is None or (isinstance(raw, str) and raw.strip().casefold() in _NOTHING)


def measure(cars: Iterable[Car]) -> Coverage:
    """Count all of them."""
    coverage = Coverage()
    for car in cars:
        coverage.add(car)
    return coverage


def table(coverage: Coverage) -> Iterator[str]:
    """Lines of Markdown."""
    yield f"Of {coverage.cars:,} cars:"
    yield ""
    yield "| column | the API tells it | read | share | could not be read |"
    yield "|---|---:|---:|---:|---|"
    for name, column in coverage.columns.items():
        # Rounded down: 100 % means all.
        share = f"{column.read * 10_000 // column.told / 100:.2f} %" if column.told else ""
        examples = ", ".join(f"`{raw}` ({n:,})" for raw, n in column.unread.most_common(_EXAMPLES))
        yield f"| `{name}` | {column.told:,} | {column.read:,} | {share} | {examples.replace('|', chr(92) + '|')} |"
    unused = sorted(coverage.unused, key=lambda label: (-coverage.unused[label], label))
    yield ""
    yield f"Labels that no column is made of, the most frequent first: {', '.join(unused) or 'none'}."


def put_into(page: Path, lines: Iterable[str]) -> None:
    """Replace what stands between the two marks of the page. Raises `ValueError` when they are not there."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: the marks {BEGIN} and {END} are missing")
    page.write_text("\n".join([f"{before}{begin}", "", *lines, "", f"{end}{after}"]), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("file", type=Path, help="a cars.json")
    parser.add_argument("--into", type=Path, help="the page whose table is replaced, instead of printing it")
    options = parser.parse_args(arguments)
    try:
        lines = list(table(measure(read_cars(options.file))))
        if options.into:
            put_into(options.into, lines)
        else:
            print("\n".join(lines))
    except (ConfigurationError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
