"""Item logs as the tests of all parts of them need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scrapy import Spider

from scrapy_durable.item_log import BEGINNING, ItemCodec, ItemLog, Position

CRAWL = "shop-1"


class ShopSpider(Spider):
    name = "shop"


CODEC = ItemCodec(ShopSpider)


def opened(directory: Path, *, crawl: str = CRAWL, segment_bytes: int = 64 << 20) -> ItemLog:
    log = ItemLog(directory, CODEC, segment_bytes=segment_bytes)
    log.open(crawl)
    return log


def items(log: ItemLog, after: Position = BEGINNING, most: int = 100) -> list[Any]:
    """All that counts behind a position, read in steps."""
    found: list[Any] = []
    while accepted := log.read(after, most):
        found += [item for part in accepted for item in part.items]
        after = accepted[-1].position
    return found


def end(log: ItemLog, after: Position = BEGINNING) -> Position:
    """The position behind all that counts."""
    while accepted := log.read(after, 1000):
        after = accepted[-1].position
    return after


async def flushed(log: ItemLog, token: int, *found: Any) -> None:
    """Items of a lease, flushed."""
    for item in found:
        log.append(token, item)
    await log.write()


async def accepted(log: ItemLog, token: int, *found: Any) -> None:
    """The same, and that they count."""
    await flushed(log, token, *found)
    log.accept([token])
    await log.write()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def left_open(directory: Path) -> list[int]:
    """The leases that the next process has to decide."""
    log = ItemLog(directory, CODEC)
    tokens = log.open(CRAWL)
    log.close()
    return tokens
