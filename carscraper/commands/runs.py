"""`scrapy runs`, as the core has it, for the file of this project."""

from __future__ import annotations

from pathlib import Path

from carscraper.monitoring.history import cars_runs_file
from scrapy_durable.commands.runs import Command as CoreCommand


class Command(CoreCommand):
    """The core's own."""

    requires_project = True

    def file(self) -> Path | None:
        """In `CARS_OUTPUT_DIR`, unless `DURABLE_RUNS_FILE` is set."""
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        return cars_runs_file(self.settings)
