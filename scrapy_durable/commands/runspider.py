"""`scrapy runspider`: Scrapy's own, whose exit status says whether anything is missing where the add-on is at work."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

from scrapy.commands.runspider import Command as ScrapyRunspider

from scrapy_durable.running import run

if TYPE_CHECKING:
    from scrapy.crawler import AsyncCrawlerProcess, Crawler


class _Noted:
    """In the place of the process while Scrapy's own command finds out what to run: notes it, and runs nothing."""

    bootstrap_failed = False

    def __init__(self, process: Any) -> None:
        self.create_crawler = process.create_crawler

    def crawl(self, crawler: Crawler, **arguments: Any) -> None:
        """Called by Scrapy's command."""
        self.crawler, self.arguments = crawler, arguments

    def start(self) -> None:
        """Called by Scrapy's command."""


class Command(ScrapyRunspider):
    """Exit status as that of `scrapy crawl`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Crawl, and say how it ended."""
        process = self.crawler_process
        if process is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        noted = _Noted(process)
        self.crawler_process = cast("AsyncCrawlerProcess", noted)
        super().run(args, opts)
        self.crawler_process = process
        self.exitcode = run(process, noted.crawler, **noted.arguments)
