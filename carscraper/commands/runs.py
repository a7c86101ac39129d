"""`scrapy runs`, as the core has it, for the file of this project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from carscraper.monitoring.history import cars_runs_file, reads_whole_catalogue
from scrapy_durable.commands.runs import Command as CoreCommand

if TYPE_CHECKING:
    from scrapy_durable.runs.file import Run


class Command(CoreCommand):
    """The core's own."""

    requires_project = True

    def file(self) -> Path | None:
        """In `CARS_OUTPUT_DIR`, unless `DURABLE_RUNS_FILE` is set."""
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        return cars_runs_file(self.settings)

    def counts(self, run: Run) -> bool:
        """A search, or a crawl with a limit, is none of the whole catalogue."""
        return reads_whole_catalogue(run)
