"""A worker's runs on one directory, killed wherever a test likes; a kill leaves the files as they are then."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.test import get_crawler

from scrapy_durable.feeds import DurableFeeds, growing, growing_file, notes, whole_file
from scrapy_durable.feeds.shared_firsts import Claim
from scrapy_durable.item_log import ItemCodec, ItemLog

BEGUN_AT = 1_795_169_700.0
"""2026-11-20T10:15:00Z"""


class ShopSpider(Spider):
    name = "shop"


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Kills:
    """Counts the moments at which a kill makes a difference, and kills at one of them."""

    root: Path
    at: int | None = None
    moments: list[str] = field(default_factory=list)

    def moment(self, name: str, just_before: Callable[[], object] | None = None) -> None:
        self.moments.append(name)
        if self.at is not None and len(self.moments) == self.at + 1:
            if just_before is not None:
                just_before()
            shutil.copytree(self.root, self._stash, symlinks=True)
            raise Killed(name)

    def restore(self) -> None:
        """What a handler of the killed process did afterwards has not happened."""
        forget_files(self.root)
        shutil.rmtree(self.root)
        self._stash.rename(self.root)
        self.at = None

    @property
    def _stash(self) -> Path:
        return self.root.with_name(f"{self.root.name}.stash")


def forget_files(root: Path) -> None:
    """Drop all that this process has open below a directory, with its locks, and with what was not flushed."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for entry in list(Path("/proc/self/fd").iterdir()):
            with contextlib.suppress(OSError):
                if entry.readlink().is_relative_to(root):
                    os.dup2(null, int(entry.name))
    finally:
        os.close(null)


class Runs:
    """One crawl, in as many runs as it takes."""

    begun: ClassVar[list[Run]] = []
    """All runs of a test."""

    def __init__(self, root: Path, feeds: dict[Any, dict[str, Any]], **settings: Any) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.feeds = feeds
        self.settings = settings
        self.kills = Kills(root)
        self.accepted: list[Any] = []
        self.crawl_id = "shop-1"
        self.kind: type[DurableFeeds] = DurableFeeds
        self.state_dir = root / "job" / "items"
        self.claim: Claim | None = None
        self._tokens = 0
        self._run: Run | None = None

    async def run(self) -> Run:
        """The run that is under way, or a new one."""
        if self._run is None:
            self._run = await Run.begin(self)
            Runs.begun.append(self._run)
        return self._run

    async def accept(self, *items: Any) -> None:
        """A lease with these items is scraped and accepted."""
        run = await self.run()
        self._tokens += 1
        for item in items:
            run.log.append(self._tokens, item)
        run.log.accept([self._tokens])
        await run.log.write()
        self.accepted += items

    async def consume(self) -> None:
        run = await self.run()
        await run.feeds.consume()
        run.log.let_go(run.feeds.position)

    async def finish(self, complete: bool = True) -> bool:
        return await (await self.run()).feeds.finish(complete)

    async def stop(self) -> Run:
        """Ctrl-C."""
        run = await self.run()
        await run.feeds.close()
        run.log.close()
        await run.feeds.close_spider(run.spider)
        self._run = None
        return run

    def kill(self) -> None:
        """A kill while nothing is under way."""
        forget_files(self.root)
        self._run = None

    def killed(self) -> None:
        """`Killed` was raised."""
        self.kills.restore()
        self._run = None

    def begin_again(self) -> None:
        """The crawl is forgotten, and another one begins in the same directory."""
        self.kill()
        shutil.rmtree(self.root / "job")
        self.accepted = []
        self.crawl_id += "-again"


@dataclass
class Run:
    """One process of the crawl."""

    crawler: Crawler
    spider: Spider
    log: ItemLog
    feeds: DurableFeeds
    signals: list[Any]
    """The slots that `feed_slot_closed` named, and None for `feed_exporter_closed`."""

    @classmethod
    async def begin(cls, runs: Runs) -> Run:
        crawler = get_crawler(ShopSpider, {"FEEDS": runs.feeds, **runs.settings})
        crawler.spider = spider = crawler._create_spider()
        log = ItemLog(runs.state_dir, ItemCodec(ShopSpider), segment_bytes=4096)
        feeds = runs.kind.from_crawler(crawler)
        log.open(runs.crawl_id)
        try:
            await feeds.begin(log, runs.state_dir, BEGUN_AT, log.name, runs.claim)
        except BaseException:
            log.close()
            raise
        feeds.open_spider(spider)
        return cls(crawler, spider, log, feeds, heard(crawler))

    def put_away(self) -> None:
        """The test is over."""
        self.log.close()
        if self.feeds._consumer is not None:
            for feed in self.feeds._consumer.feeds:
                feed.close()

    def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(name)


def heard(crawler: Crawler) -> list[Any]:
    """What the signals of feeds tell from now on."""
    told: list[Any] = []

    def on_slot_closed(slot: Any) -> None:
        told.append(slot)

    def on_exporter_closed() -> None:
        told.append(None)

    crawler.signals.connect(on_slot_closed, signals.feed_slot_closed, weak=False)
    crawler.signals.connect(on_exporter_closed, signals.feed_exporter_closed, weak=False)
    return told


def watch(kills: Kills, patch: pytest.MonkeyPatch) -> None:
    """Have each step at which files change be a moment: before, after, and in the middle of what is written."""

    def around(module: Any, name: str, *, torn: bool = False) -> None:
        original = getattr(module, name)

        def step(*args: Any, **kwargs: Any) -> Any:
            kills.moment(f"before {name}")
            if torn:
                kills.moment(f"in {name}", lambda: args[0].write(args[1][: len(args[1]) // 2]))
            result = original(*args, **kwargs)
            kills.moment(f"after {name}")
            return result

        patch.setattr(module, name, step)

    around(growing_file, "write_all", torn=True)
    around(notes, "write_atomically")
    around(growing, "put_in_place")
    around(whole_file, "put_in_place")
    around(whole_file, "flush_by_name")


def in_loop(steps: Awaitable[Any]) -> Any:
    """Run steps to their end."""

    async def run() -> Any:
        return await steps

    return asyncio.run(run())


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": number, "name": f'thing {number}, "ü"\nof two lines'} for number in range(first, first + count)
    ]
