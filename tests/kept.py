"""What crawls have kept in the item logs under an output directory, seen from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from carscraper.output.archive import CARS, mapped
from carscraper.output.entries import line_begin, listing_in
from scrapy_durable.item_log import flushed_items, segments_in


def kept_records(out: Path, crawl_id: str = "*") -> list[dict[str, Any]]:
    """The records that are flushed, of all crawls or one, in the order in which each process has logged them."""
    return [orjson.loads(line) for line in _lines(out, crawl_id)]


def kept_by_crawl(out: Path) -> dict[str, int]:
    """How many records are flushed of each crawl that has any, by its name."""
    found = {crawl.name: len(list(_lines(out, crawl.name))) for crawl in out.rglob("crawls/[!.]*/")}
    return {name: number for name, number in found.items() if number}


def segments(out: Path) -> dict[str, bytes]:
    """What is in the files of the logs of records, up to the last whole flush."""
    found = {}
    for log in _logs(out, "*"):
        for path in segments_in(log):
            with mapped(path) as content:
                ends = [end for _, end in flushed_items(path, content)]
                found[str(path.relative_to(out))] = content[: ends[-1]] if ends else b""
    return {name: content for name, content in found.items() if content}


def _lines(out: Path, crawl_id: str) -> Iterator[bytes]:
    for log in _logs(out, crawl_id):
        for path in segments_in(log):
            with mapped(path) as content:
                for begin, end in flushed_items(path, content):
                    if listing_in(content, begin, end) is not None:
                        yield content[line_begin(content, begin, end) : end]


def _logs(out: Path, crawl_id: str) -> list[Path]:
    return sorted(out.rglob(f"crawls/{crawl_id}/[!.]*/{CARS}"))
