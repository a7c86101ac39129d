"""`scrapy crawl`: Scrapy's own, whose exit status says whether anything is missing where the add-on is at work."""

from __future__ import annotations

import argparse

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import UsageError

from scrapy_durable.running import run


class Command(ScrapyCrawl):
    """Exit status 0: nothing is lost. 1: something is, or the crawl has not come to its end. 2: refused at start."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Crawl, and say how it ended."""
        if len(args) != 1:
            raise UsageError("name one spider")
        if self.crawler_process is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        self.exitcode = run(self.crawler_process, self._create_crawler(args[0]), **opts.spargs)
