"""`scrapy crawl`: Scrapy's own, whose exit status says whether anything is missing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.log import install_scrapy_root_handler

from carscraper.catalogue.searches import Search
from carscraper.config import Config
from carscraper.export.exporters import check_feeds
from carscraper.running import crawler_process, run_to_verdict
from carscraper.spiders.cars import CarsSpider
from carscraper.stores.build import check_databases
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.frontier.build import check_frontier, make_jobdir
from scrapy_durable.plain import show, show_plainly

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import Settings


class Command(ScrapyCrawl):
    """Exit status 0: the catalogue is complete. 1: something is missing, or the crawl was stopped. 2: refused
    at start.
    """

    requires_crawler_process = False  # `run` makes it, once nothing is refused any more

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Run a spider; exits 0 only when nothing is missing"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Check what was asked for, crawl, and report the verdict."""
        if len(args) != 1:
            raise UsageError("name one spider, as in: scrapy crawl cars")
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            config = Config.from_settings(self.settings)
            config.keep_private()
            show_plainly(self.settings)
            install_scrapy_root_handler(self.settings)
            spider = _spider(self.settings, args[0])
            config.make_output_dir()
            make_jobdir(self.settings)
            check_feeds(self.settings)
            if issubclass(spider, CarsSpider):
                Search.from_arguments(opts.spargs)
            asyncio.run(check_frontier(self.settings, spider=spider.name))
            check_databases(self.settings)
        except ConfigurationError as error:
            self._refuse(str(error))
            return
        self.crawler_process = crawler_process(self.settings)
        self.exitcode = run_to_verdict(self.crawler_process, self._create_crawler(spider), **opts.spargs)

    def _refuse(self, problem: str) -> None:
        self.exitcode = 2
        show(sys.stderr, f"error: {problem}")


def _spider(settings: Settings, name: str) -> type[Spider]:
    try:
        return get_spider_loader(settings).load(name)
    except KeyError:
        raise ConfigurationError(f"there is no spider {name!r}") from None
