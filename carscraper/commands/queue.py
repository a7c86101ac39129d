"""`scrapy queue`, as the core has it, for settings that are checked as those of a crawl are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from carscraper.config import Config
from carscraper.monitoring.history import cars_runs_file, reads_whole_catalogue
from scrapy_durable.commands.queue import Command as CoreCommand
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.plain import show

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.runs.file import Run


class Command(CoreCommand):
    """The core's own, which does not know the names of this site's settings."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do the one action that was named; refused when a setting is, as for a crawl."""
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            Config.from_settings(self.settings)
        except ConfigurationError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        else:
            super().run(args, opts)

    def runs_file(self, settings: BaseSettings) -> Path | None:
        """In `CARS_OUTPUT_DIR`, unless `DURABLE_RUNS_FILE` is set."""
        return cars_runs_file(settings)

    def counts(self, run: Run) -> bool:
        """The whole catalogue's do, searches do not."""
        return reads_whole_catalogue(run)
