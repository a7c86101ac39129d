"""What Scrapy's own command would crawl, found out by that command itself; it is crawled here, with a verdict."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from scrapy_durable.running import run

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.commands import ScrapyCommand
    from scrapy.crawler import AsyncCrawlerProcess, Crawler


class _Noted:
    """In the place of a command's process: notes the crawler and the spider's arguments."""

    bootstrap_failed = False
    crawler: Crawler
    arguments: dict[str, Any]

    def __init__(self, process: Any) -> None:
        self.create_crawler = process.create_crawler

    def crawl(self, crawler: Crawler | type[Spider] | str, **arguments: Any) -> None:
        """Called by Scrapy's command; before Scrapy 2.19 with the spider, or its name."""
        self.crawler, self.arguments = self.create_crawler(crawler), arguments

    def start(self) -> None:
        """Called by Scrapy's command."""


def crawl_as(
    command: ScrapyCommand,
    scrapys_run: Callable[[list[str], argparse.Namespace], None],
    args: list[str],
    opts: argparse.Namespace,
) -> int:
    """Crawl what `scrapys_run`, Scrapy's own method of the command, would; returns the exit status. Raises `UsageError`
    as that method does.
    """
    process = command.crawler_process
    if process is None:
        raise RuntimeError("a command runs through scrapy.cmdline")
    noted = _Noted(process)
    command.crawler_process = cast("AsyncCrawlerProcess", noted)
    scrapys_run(args, opts)
    command.crawler_process = process
    return run(process, noted.crawler, **noted.arguments)
