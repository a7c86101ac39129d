"""Records in the item logs of processes that come and go, for the tests of what is delivered from them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from carscraper.items import Car
from carscraper.output.archive import Archive
from carscraper.output.entries import decode

TARGET = "127.0.0.1:27017/cars"


def car(number: int, size: int = 0) -> Car:
    """A record that says its number, with an attribute of that many letters."""
    scraped_at = f"2026-11-20T10:15:00.{number % 1000:03d}Z"
    return Car(str(number), "", scraped_at, {"number": number, "description": "x" * size}, [])


@contextmanager
def process(out: Path, crawl: str, worker: str, *, at: float = 1.0, ends: bool = False) -> Iterator[Archive]:
    """A process that takes part in a crawl; with `ends`, the crawl ends with it."""
    archive = Archive(out, crawl, worker, clock=lambda: at)
    archive.open(resumable=False)
    yield archive
    if ends:
        archive.end()
    archive.close()


def log(archive: Archive, numbers: Iterable[int], size: int = 0) -> None:
    """Have records flushed."""
    for number in numbers:
        archive.keep(car(number, size))
    flush(archive)


def flush(archive: Archive) -> None:
    """In an event loop of its own, so that tests with one can call it too."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, archive.write()).result()


def numbers_of(entries: Iterable[bytes]) -> list[int]:
    """What the records of entries say."""
    return [decode(entry).car_attrs["number"] for entry in entries]
