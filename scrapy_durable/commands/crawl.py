"""`scrapy crawl`: Scrapy's own, whose exit status says whether anything is missing where the add-on is at work."""

from __future__ import annotations

import argparse

from scrapy.commands.crawl import Command as ScrapyCrawl

from scrapy_durable.noted import crawl_as


class Command(ScrapyCrawl):
    """Exit status 0: nothing is lost. 1: something is, or the crawl has not come to its end. 2: refused at start."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Crawl, and say how it ended."""
        self.exitcode = crawl_as(self, super().run, args, opts)
