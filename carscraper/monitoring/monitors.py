"""What is unusual about a crawl of cars, beside what would be of any; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from scrapy_durable.runs.monitors import ENOUGH_ITEMS, ERROR, WARNING, Finding, measured

if TYPE_CHECKING:
    from scrapy_durable.runs.file import Run

COLUMNS = ("make", "model", "year", "price")
"""What a listing is worth nothing without."""
_ENOUGH_REMOVED = 20


@dataclass(frozen=True, slots=True)
class FillRates:
    """A minimum for the columns that analysts cannot do without, whatever was usual before."""

    least: float
    left_out: Sequence[str] = ()

    def __call__(self, run: Run, before: Sequence[Run]) -> Iterator[Finding]:
        """An error for each column."""
        if run.get("items", 0) < ENOUGH_ITEMS:
            return
        for name in COLUMNS:
            share = run.get("fill", {}).get(name, 0.0)
            if share < self.least and not any(fnmatchcase(name, pattern) for pattern in self.left_out):
                expected, found = f"at least {self.least:.1%}", f"{share:.1%}"
                yield Finding(
                    f"column:{name}", ERROR, expected, found, f"{found} of the listings have a {name}"
                )


@dataclass(frozen=True, slots=True)
class Removals:
    """A maximum for the share of listings that have gone since the last whole catalogue."""

    most: float

    def __call__(self, run: Run, before: Sequence[Run]) -> Iterator[Finding]:
        """A warning."""
        removed, added, kept = (measured(run, name) for name in ("removed", "added", "kept"))
        if removed is None or added is None or kept is None or removed < _ENOUGH_REMOVED:
            return
        were = kept - added + removed
        if removed > were * self.most:
            share = f"{removed / were:.1%}"
            sentence = (
                f"{removed:,.0f} of {were:,.0f} listings were removed since the last complete catalogue"
            )
            yield Finding("removals", WARNING, f"at most {self.most:.1%}", share, sentence)
