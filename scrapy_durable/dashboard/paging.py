"""A list cut into pages; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Row = TypeVar("Row")
SIZE = 50
"""Rows of a page."""


@dataclass(frozen=True, slots=True)
class Paging:
    """One page of a list."""

    number: int
    """From 1."""
    pages: int
    """1 at least."""
    total: int
    """Rows."""
    asked: str
    """What was asked for, when there is no such page; the nearest is shown then. Empty otherwise."""

    @classmethod
    def of(cls, asked: str | None, total: int) -> Paging:
        """The page that is asked for, or the nearest that there is."""
        pages = max(1, -(-total // SIZE))
        wanted = int(asked) if asked and asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
        number = min(max(1, wanted), pages)
        return cls(number, pages, total, asked if asked and wanted != number else "")

    @property
    def first(self) -> int:
        """How many rows are before."""
        return (self.number - 1) * SIZE

    @property
    def last(self) -> int:
        """How many rows there are until the end of the page."""
        return self.number * SIZE

    def cut(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of the page, of all that there are."""
        return rows[self.first : self.last]
