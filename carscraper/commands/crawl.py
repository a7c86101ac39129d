"""`scrapy crawl`: Scrapy's own, whose exit status says whether anything is missing."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from typing import Any

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from carscraper.config import Config
from carscraper.connection import redis_client
from carscraper.exceptions import CarscraperError, ConfigurationError
from carscraper.exporters import check_feeds
from carscraper.frontier.build import make_jobdir
from carscraper.monitoring.completeness import Completeness, summary
from carscraper.spiders.cars import CarsSpider, read_arguments
from carscraper.stores.build import SETTINGS, build_database

logger = logging.getLogger(__name__)


class Command(ScrapyCrawl):
    """Exit status 0: the catalogue is complete. 1: something is missing, or the crawl was stopped. 2: refused
    at start.
    """

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Run a spider; exits 0 only when nothing is missing"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Check what was asked for, crawl, and report the verdict."""
        if len(args) != 1:
            raise UsageError("name one spider, as in: scrapy crawl cars")
        if self.settings is None or self.crawler_process is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            spider = get_spider_loader(self.settings).load(args[0])
        except KeyError:
            self._refuse(f"there is no spider {args[0]!r}")
            return
        try:
            Config.from_settings(self.settings).make_output_dir()
            make_jobdir(self.settings)
            redis_client(self.settings)
            for database in SETTINGS:
                build_database(self.settings, database)
            check_feeds(self.settings)
            if issubclass(spider, CarsSpider):
                read_arguments({name: value for name, value in opts.spargs.items() if name != "_job"})
        except ConfigurationError as error:
            self._refuse(str(error))
            return
        # Thousands of records are alive at a time, and hardly any is part of a cycle: looking for cycles as
        # often as Python does by default takes a fifth of a crawl.
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        crawler = self._create_crawler(spider)
        running = self.crawler_process.crawl(crawler, **opts.spargs)
        if isinstance(running, asyncio.Task):
            running.add_done_callback(self._note_failure)
        self.crawler_process.start()
        if self.exitcode:
            return
        if self.crawler_process.bootstrap_failed:
            self.exitcode = 1
            return
        ending = crawler.get_extension(Completeness)
        if ending is not None:
            if ending.verdict is not None:
                sys.stderr.write("\n" + "\n".join(summary(ending.verdict)) + "\n")
            if ending.verdict is None or not ending.verdict.complete:
                self.exitcode = 1

    def _refuse(self, problem: str) -> None:
        self.exitcode = 2
        sys.stderr.write(f"error: {problem}\n")

    def _note_failure(self, running: asyncio.Task[Any]) -> None:
        """A crawl that was refused at start: one line instead of a traceback."""
        error = None if running.cancelled() else running.exception()
        if isinstance(error, CarscraperError):
            self.exitcode = 2
            logger.critical("%s", error)
        elif error is not None:
            self.exitcode = 1
            logger.critical("The crawl could not start", exc_info=error)
