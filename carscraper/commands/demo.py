"""`scrapy demo`: a stand-in for the listing API on this machine, to try, test and measure the crawl."""

from __future__ import annotations

import argparse
import sys
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.plain import show


class Command(ScrapyCommand):
    """Prints the stand-in's address as one line, just as `CARS_API_URL` takes it; serves until a signal."""

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Nothing but options."""
        return "[options]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Serve a stand-in for the listing API on this machine"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and the stand-in's."""
        # Here, since every command loads this module, and a server takes a fifth of the time that it takes to start.
        from carscraper.demo.launch import add_options

        super().add_options(parser)
        add_options(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Serve; the exit status is 1 when an option is refused, 2 for words beside them."""
        if args:
            raise UsageError(f"nothing but options is understood: {' '.join(args)}", print_help=False)
        from carscraper.demo.launch import run

        try:
            run(opts)
        except ConfigurationError as error:
            show(sys.stderr, f"error: {error}")
            self.exitcode = 1
