"""What a project's feeds hold: every format read back as the same rows, of all its workers together."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

_PRODUCTS = ["sku", "title", "price", "host", "link_text", "page", "pounds", "gone"]
_QUOTES = ["text", "author", "tags", "name", "born"]
"""Of all spiders: CSV takes its columns from the first item, unless it is told."""
FEEDS: dict[str, dict[str, Any]] = {
    "feeds/%(worker)s.jl": {"format": "jsonlines"},
    "feeds/%(worker)s.csv": {"format": "csv", "overwrite": True, "fields": [*_PRODUCTS, *_QUOTES]},
    "feeds/%(worker)s.json": {"format": "json", "overwrite": True},
    "feeds/%(worker)s.xml": {"format": "xml", "overwrite": True},
}
Row = frozenset[tuple[str, str]]
"""An item's fields that have a value, as text: what CSV and XML keep of it."""


def rows(items: Iterable[dict[str, Any]]) -> Counter[Row]:
    """How often there is each; a list as CSV writes it."""
    return Counter(frozenset((name, _text(value)) for name, value in item.items() if value) for item in items)


def of_lines(lines: Iterable[str]) -> Counter[Row]:
    """The same of items as lines of JSON."""
    return rows(json.loads(line) for line in lines)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _jl(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text()
    assert not text or text.endswith("\n"), f"{path.name} ends within a line"
    return map(json.loads, text.splitlines())


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file, strict=True)


def _xml(path: Path) -> Iterator[dict[str, Any]]:
    for item in ElementTree.parse(path).getroot():
        yield {
            field.tag: [value.text for value in field] if len(field) else field.text or "" for field in item
        }


def _json(path: Path) -> Iterator[dict[str, Any]]:
    return iter(json.loads(path.read_text()))


READERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "jl": _jl,
    "csv": _csv,
    "json": _json,
    "xml": _xml,
}


def read(directory: Path, kind: str) -> Counter[Row]:
    """The union of the workers' feeds of that kind. Fails for a file that is not whole."""
    found: Counter[Row] = Counter()
    for path in sorted(directory.glob(f"*.{kind}")):
        if not path.stem.endswith(".incomplete"):
            found += rows(READERS[kind](path))
    return found
