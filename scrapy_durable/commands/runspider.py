"""`scrapy runspider`: Scrapy's own, whose exit status says whether anything is missing where the add-on is at work."""

from __future__ import annotations

import argparse

from scrapy.commands.runspider import Command as ScrapyRunspider

from scrapy_durable.noted import crawl_as


class Command(ScrapyRunspider):
    """Exit status as that of `scrapy crawl`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Crawl, and say how it ended."""
        self.exitcode = crawl_as(self, super().run, args, opts)
