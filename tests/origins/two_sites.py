"""A crawl of several sites, by the core alone: `crawl_sites` runs it in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response

from scrapy_durable.frontier.codec import url_of
from scrapy_durable.frontier.contract import DeadLetter
from scrapy_durable.scheduler import frontier_scheduler
from tests.standin import ROOT

_SECONDS = 120
"""No crawl here takes longer."""
PAGES = 20
"""Of each site: `/0` to `/19`, and `/0` leads to the others."""


@dataclass
class Told:
    """What came of a crawl."""

    reason: str
    """Why it finished."""
    read: list[str]
    """The addresses of the pages that were read, sorted."""
    dead: dict[str, str]
    """The reasons of the dead letters, by address."""
    stats: dict[str, Any]
    log: str = ""


class TwoSites(Spider):
    """Reads every page of each of `sites`."""

    name = "two_sites"

    def __init__(self, sites: list[str]) -> None:
        super().__init__()
        self.sites = sites
        self.read: list[str] = []
        self.dead: list[DeadLetter] = []

    async def start(self) -> AsyncIterator[Request]:
        self.scheduler = frontier_scheduler(self.crawler)
        for site in self.sites:
            yield Request(f"{site}/0")

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Request]:
        self.read.append(response.url)
        if response.url.endswith("/0"):
            yield from (response.follow(f"/{page}") for page in range(1, PAGES))

    def closed(self, reason: str) -> None:
        """Called by Scrapy; the scheduler has closed before."""
        assert self.scheduler is not None
        self.dead = self.scheduler.last_dead


SETTINGS = {
    "SCHEDULER": "scrapy_durable.scheduler.FrontierScheduler",
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ROBOTSTXT_OBEY": True,
    "RETRY_TIMES": 2,
    "DURABLE_RETRY_BASE_DELAY": 0.05,
    "DURABLE_RETRY_MAX_DELAY": 0.1,
    "TELNETCONSOLE_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_durable.retry.middleware.LastWordMiddleware": 10,
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_durable.robots.RobotsTxtMiddleware": 100,
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
        "scrapy_durable.retry.middleware.RetryMiddleware": 550,
        "scrapy_durable.allow_list.AllowListMiddleware": 990,
    },
}


def crawl_sites(*sites: str, **settings: object) -> Told:
    """Crawl them, and return what came of it."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(settings), *sites],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return Told(**json.loads(done.stdout), log=done.stderr)


def main() -> None:
    """Crawl, and tell on stdout."""
    sites, own = sys.argv[2:], json.loads(sys.argv[1])
    process = AsyncCrawlerProcess({**SETTINGS, **own})
    crawler = process.create_crawler(TwoSites)
    process.crawl(crawler, sites=sites)
    process.start()
    spider, stats = cast("TwoSites", crawler.spider), crawler.stats.get_stats()
    told = Told(
        reason=stats["finish_reason"],
        read=sorted(spider.read),
        dead={url_of(letter.payload): letter.reason for letter in spider.dead},
        stats={name: value for name, value in stats.items() if isinstance(value, int | float)},
    )
    sys.stdout.write(json.dumps({name: value for name, value in asdict(told).items() if name != "log"}))


if __name__ == "__main__":
    main()
