"""`scrapy runspider`: Scrapy's own, whose exit status says whether anything is missing where the add-on is at work."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.commands.runspider import Command as ScrapyRunspider

from scrapy_durable.running import conclude

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler


class Command(ScrapyRunspider):
    """Exit status as that of `scrapy crawl`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Crawl, and say how it ended."""
        super().run(args, opts)
        self.exitcode = self.exitcode or conclude(self._crawler)

    def _create_crawler(self, spidercls: type[Spider] | str) -> Crawler:
        self._crawler = super()._create_crawler(spidercls)
        return self._crawler
