"""What `run.json` holds, and what the verdict is reached from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from carscraper.catalogue.ids import PackedIds
from carscraper.export.feeds import Feeds
from carscraper.items import OddSpec, PageRead, SetAside
from carscraper.monitoring.verdict import Reading, Verdict
from scrapy_durable.identity import begin_time, crawl_clock
from scrapy_durable.plain import plain_json

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from carscraper.output.archive import Archive
    from carscraper.output.entries import LedgerItem
    from scrapy_durable.feeds import Whereabouts

_LISTED = 1000
"""How many missing ids, listings set aside and requests given up `run.json` names at most, of each."""


def read_ledger(archive: Archive) -> Reading:
    """What the crawl has noted. Raises as `Archive.ledger`."""
    return reading_of(archive.ledger())


def reading_of(ledger: Iterable[LedgerItem]) -> Reading:
    """What a ledger says."""
    pages, aside, odd = [], [], []
    for item in ledger:
        match item:
            case PageRead():
                item.ids, item.specs = PackedIds(item.ids), PackedIds(item.specs)
                pages.append(item)
            case OddSpec():
                odd.append(item)
            case SetAside():
                aside.append(item)
    return Reading(pages, aside, odd)


def reported(verdict: Verdict, dead_letters: int) -> dict[str, Any]:
    """The verdict with the counts of what it names, of which no more is named than can be read. `dead_letters` is the
    frontier's count, where not all of them are at hand.
    """
    found = asdict(verdict)
    for name in ("missing", "set_aside", "given_up", "spec_missing"):
        found[f"{name}_count"] = len(found[name])
        found[name] = found[name][:_LISTED]
    found["given_up_count"] = max(found["given_up_count"], dead_letters)
    return found


class RunReport:
    """`run.json`, which is written with the verdict, and once more when this worker's feeds are stored or cannot be."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._written: tuple[Archive, str, dict[str, Any]] | None = None

    @property
    def feeds(self) -> list[Whereabouts]:
        """Where the feeds are that are made of the item log."""
        feeds = self._crawler.get_extension(Feeds)
        return feeds.whereabouts() if feeds is not None else []

    async def write(self, archive: Archive, status: str, found: dict[str, Any]) -> None:
        """Write it; `found` takes the place of what is told of this worker alone. Raises `OSError`."""
        self._written = archive, status, found
        feeds = {"feeds": self.feeds} if self.feeds else {}
        await asyncio.to_thread(archive.report, _run_json(self._crawler, archive, status, found | feeds))

    async def write_stored(self, missing: Sequence[str]) -> None:
        """Write it again, if there are such feeds or anything is `missing`, which says in a sentence each what is not
        stored. Raises `OSError`.
        """
        if self._written is None or not (self.feeds or missing):
            return
        archive, status, found = self._written
        if missing:
            status, reasons = "incomplete", [*found["reasons"], *missing]
            found = found | {"complete": False, "reasons": reasons}
        await self.write(archive, status, found)

    async def write_findings(self, findings: Sequence[dict[str, Any]]) -> None:
        """Write it again with what is unusual about the run, where this worker has written it. Raises `OSError`."""
        if self._written is not None:
            archive, status, found = self._written
            await self.write(archive, status, found | {"findings": list(findings)})


def _run_json(crawler: Crawler, archive: Archive, status: str, found: dict[str, Any]) -> bytes:
    run = {
        "crawl_id": archive.crawl_id,
        "status": status,
        "started_at": begin_time(archive.crawl_id),
        "ended_at": utc(crawl_clock(crawler)()),
        "arguments": getattr(crawler.spider, "arguments", {}),
        "requests": crawler.stats.get_value("downloader/request_count", 0),
        **found,
    }
    return plain_json(run, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def utc(seconds: float) -> str:
    """Seconds since the epoch as `2026-11-20T10:15:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
