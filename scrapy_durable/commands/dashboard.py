"""`scrapy dashboard`: the crawl in a browser."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_durable.config import Config
from scrapy_durable.exceptions import ConfigurationError, DurableError
from scrapy_durable.plain import show, show_plainly
from scrapy_durable.reaching import check_place, only_spider


class Command(ScrapyCommand):
    """Serves the status of the crawl that `REDIS_URL` or `JOBDIR` names, while it runs or not, until Ctrl-C.

    Exit status 0: ended by hand. 1: the frontier did not answer. 2: refused.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Options only."""
        return "[options]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Show the crawl in a browser"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and these."""
        super().add_options(parser)
        parser.add_argument("--spider", help="whose crawl (default: the project's only spider)")
        parser.add_argument("--host", default="127.0.0.1", help="address to serve at (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8123, help="0: any that is free (default: 8123)")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Serve."""
        if args:
            raise UsageError(f"{args[0]}: nothing is named here but options", print_help=False)
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            if not 0 <= opts.port <= 65535:
                raise ConfigurationError(f"--port: 0 to 65535, not {opts.port}")  # noqa: TRY301
            if importlib.util.find_spec("jinja2") is None:
                raise ConfigurationError(  # noqa: TRY301
                    "scrapy dashboard needs what the extra operate brings; install it with: pip install Jinja2"
                )
            from scrapy_durable.dashboard.guard import check_access
            from scrapy_durable.dashboard.server import serve

            show_plainly(self.settings)
            token = Config.from_settings(self.settings).dashboard_token
            check_access(opts.host, token)
            check_place(self.settings)
            spider = opts.spider or only_spider(self.settings)
            asyncio.run(serve(self.settings, spider, opts.host, opts.port, token))
        except ConfigurationError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        except DurableError as error:
            self.exitcode = 1
            show(sys.stderr, f"error: {error}")
