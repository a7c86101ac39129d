"""`scrapy dashboard`, as the core has it, for settings that are checked as those of a crawl are."""

from __future__ import annotations

import argparse
import sys

from carscraper.config import Config
from scrapy_durable.commands.dashboard import Command as CoreCommand
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.plain import show


class Command(CoreCommand):
    """The core's own, which does not know the names of this site's settings."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Serve; refused when a setting is, as for a crawl."""
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            Config.from_settings(self.settings)
        except ConfigurationError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        else:
            super().run(args, opts)
