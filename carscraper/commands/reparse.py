"""`scrapy reparse`: the records of a crawl made once more from what it fetched, without asking the site."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.log import install_scrapy_root_handler

from carscraper.config import Config
from carscraper.reparse.spider import SETTINGS, ReparseSpider
from carscraper.reparse.stored import StoredPages, stored_pages
from carscraper.running import crawler_process, run_to_verdict
from carscraper.stores.build import check_databases
from scrapy_durable.exceptions import ConfigurationError, DurableError
from scrapy_durable.plain import show, show_plainly
from scrapy_durable.responses.retention import megabytes


class Command(ScrapyCommand):
    """Exit status 0: the crawl was reparsed, and nothing is missing. 1: something is, or it was stopped. 2: refused
    at start.
    """

    requires_project = True
    requires_crawler_process = False  # `run` makes it, once nothing is refused any more

    def syntax(self) -> str:
        """Nothing but options."""
        return "[options]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Make the records of a crawl once more from what it fetched, without asking the site"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and these."""
        super().add_options(parser)
        parser.add_argument(
            "--list", action="store_true", help="show the crawls that are kept, and what they take up"
        )
        parser.add_argument("--crawl", metavar="ID", help="which of them (default: the one that began last)")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """List the crawls, or reparse one of them and report the verdict."""
        if args:
            raise UsageError(f"nothing but options is understood: {' '.join(args)}", print_help=False)
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            config = Config.from_settings(self.settings)
            config.keep_private()
            show_plainly(self.settings)
            install_scrapy_root_handler(self.settings)
            config.make_output_dir()
            crawls, size = asyncio.run(stored_pages(self.settings))
            if opts.list:
                show(sys.stdout, *_table(crawls, size, config))
                return
            chosen = _chosen(crawls, opts.crawl)
            check_databases(self.settings)
        except DurableError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
            return
        self.settings.setdict(SETTINGS, priority="cmdline")
        self.crawler_process = crawler_process(self.settings)
        crawler = self.crawler_process.create_crawler(ReparseSpider)
        self.exitcode = run_to_verdict(self.crawler_process, crawler, pages=chosen)


def _chosen(crawls: list[StoredPages], crawl_id: str | None) -> StoredPages:
    """The crawl that was asked for. Raises `ConfigurationError` when nothing is kept of it."""
    if not crawls:
        raise ConfigurationError("no listing pages are kept of any crawl (CARS_KEEP_PAGES says for how long)")
    if crawl_id is None:
        return crawls[-1]
    for crawl in crawls:
        if crawl.crawl_id == crawl_id:
            return crawl
    raise ConfigurationError(
        f"--crawl: no listing pages are kept of crawl {crawl_id!r}; scrapy reparse --list shows of which"
    )


def _table(crawls: list[StoredPages], size: int, config: Config) -> Iterator[str]:
    """A row for each crawl, the oldest first, and what all of the store takes up."""
    if crawls:
        yield f"{'crawl':<24}{'pages':>8}{'listings':>10}{'bytes':>12}  {'first page':<21}{'last page':<21}asked for"
    for crawl in crawls:
        first, last = (
            time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at)) for at in (crawl.first, crawl.last)
        )
        yield (
            f"{crawl.crawl_id:<24}{len(crawl.names):>8}{crawl.listings:>10}{crawl.bytes:>12}  {first:<21}{last:<21}"
            f"{crawl.identity}"
        )
    kept = f"{len(crawls)} crawls are kept" if crawls else "no crawl is kept"
    yield f"{kept}; with specifications they take up {megabytes(size)} of {megabytes(config.responses_max_bytes)}"
