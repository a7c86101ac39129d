"""Single listings taken out of the files of an output directory; all else in them stays as it is, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from carscraper.items import SetAside
from carscraper.output.cars_json import published_lines
from carscraper.output.entries import decode, erased, listing_in, replaced
from scrapy_durable.disk import write_atomically
from scrapy_durable.item_log import change_items
from scrapy_durable.plain import plain_json

ERASED = "erased"
"""What is left of the reason why a listing was set aside: it quotes the listing."""


def erase_records(path: Path, ids: Collection[str], still: Callable[[], None]) -> list[str]:
    """Take records out of a JSON array that a crawl has published. Returns their ids.

    `still` is called before the new file takes the place of the old one, and raises when it may not. Raises
    `ValueError` for a file that is none of ours, and `OSError`; then it is untouched.
    """
    found = [listing for listing, _, _ in published_lines(path) if listing in ids]
    if found:
        write_atomically(path, _array(path, ids, still), large=True)
    return found


def _array(path: Path, ids: Collection[str], still: Callable[[], None]) -> Iterator[bytes]:
    separator = b"[\n"
    for listing, _, line in published_lines(path):
        if listing not in ids:
            yield separator
            yield line
            separator = b",\n"
    yield b"[]\n" if separator == b"[\n" else b"\n]\n"
    still()


def erase_kept(path: Path, ids: Collection[str]) -> list[str]:
    """Take records out of a segment of those that a crawl has kept. Returns their ids.

    Raises `ItemLogDamaged`, `OtherRelease`, `OSError` and `ValueError`.
    """
    found = []

    def change(entry: bytes) -> bytes:
        listing = listing_in(entry, 0, len(entry))
        if listing is None or listing not in ids:
            return entry
        found.append(listing)
        return erased(entry)

    change_items(path, change)
    return found


def erase_ledger(path: Path, ids: Collection[str]) -> list[str]:
    """Take out of a segment of the ledger what it quotes of listings that were rejected: that they were, and that a
    page has named them, stays, so that the crawl's verdict is the same.

    Returns their ids. Raises as `erase_kept`, and `CodecError`.
    """
    found: list[str] = []

    def change(entry: bytes) -> bytes:
        item = decode(entry)
        if not isinstance(item, SetAside) or item.id is None or item.id not in ids:
            return entry
        if item.problem in (ERASED, ""):
            return entry
        found.append(item.id)
        return replaced(entry, replace(item, problem=ERASED), replace(item, problem=""))

    change_items(path, change)
    return found


def erase_report(path: Path, ids: Collection[str]) -> list[str]:
    """The same for `run.json`. Raises `ValueError` and `OSError`."""
    run = orjson.loads(path.read_bytes())
    aside = run.get("set_aside") if type(run) is dict else None
    entries = aside if type(aside) is list else []
    found = [entry["id"] for entry in entries if _clear(entry, ids)]
    if found:
        write_atomically(path, [plain_json(run, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)])
    return found


def _clear(entry: Any, ids: Collection[str]) -> bool:
    """Whether there was something to clear."""
    if type(entry) is not dict or entry.get("id") not in ids or entry.get("problem") == ERASED:
        return False
    entry["problem"] = ERASED
    return True
