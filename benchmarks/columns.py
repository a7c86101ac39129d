"""`make columns`: the rows of the typed columns in `docs/columns.md`, made of their declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from carscraper.api.columns import DECLARED, Column
from carscraper.export.tables import columns

_KINDS = {column.name: column.kind for column in columns()}
_BEFORE, _BEHIND = "| `removed_at` |", "| `unread` |"
"""How the rows begin between which they stand."""


def row(column: Column) -> str:
    """A line of Markdown."""
    unit = {"R": "rand"}.get(column.unit or "", column.unit or column.measured_in)
    labels = ", ".join(f"`{label}`" for label in column.labels)
    source = "; ".join(
        part
        for part in (f"a: `{column.attribute}`" if column.attribute else "", f"s: {labels}" if labels else "")
        if part
    )
    cells = (f"`{column.name}`", _KINDS[column.name], unit, source, "yes", column.meaning)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def with_rows(page: str, rows: Iterable[str]) -> str:
    """The page with these rows for the typed columns. Raises `ValueError` when it has no place for them."""
    lines = page.split("\n")
    try:
        before, behind = (
            next(at for at, line in enumerate(lines) if line.startswith(mark)) for mark in (_BEFORE, _BEHIND)
        )
    except RuntimeError as error:
        raise ValueError(f"the rows {_BEFORE} and {_BEHIND} are missing") from error
    return "\n".join([*lines[: before + 1], *rows, *lines[behind:]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page that is named. Returns the exit status."""
    (name,) = sys.argv[1:] if arguments is None else arguments
    page = Path(name)
    page.write_text(with_rows(page.read_text(encoding="utf-8"), map(row, DECLARED)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
