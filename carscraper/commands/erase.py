"""`scrapy erase`: single listings removed from wherever this project keeps them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from carscraper.api.search_page import is_listing_id
from carscraper.config import Config
from carscraper.erasure.everywhere import Erasure
from carscraper.exceptions import InUse
from scrapy_durable.exceptions import (
    ConfigurationError,
    DurableError,
    ForeignFile,
    FrontierRefused,
    OtherRelease,
)
from scrapy_durable.plain import show

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

OUT_OF_REACH = (
    "not looked at: feeds and exports written elsewhere, backups, logs, runs.jsonl (reasons, arguments), "
    "disks of other machines"
)


class Command(ScrapyCommand):
    """Removes listings from the files below `CARS_OUTPUT_DIR`, the response store and the databases, while no crawl
    runs. It may be repeated.

    Exit status 0: they are nowhere any more, also when they were not before. 1: a place could not be reached; a line
    names it. 2: refused, and nothing is erased, unless a crawl began meanwhile.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Ids of listings."""
        return "[options] <id> [<id> ...]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Remove single listings from files, kept pages and databases"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Erase the listings that are named."""
        if not args:
            raise UsageError("name the listings to erase by their ids", print_help=False)
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            self.exitcode = 1 if _erase(self.settings, args) else 0
        except (ConfigurationError, ForeignFile, FrontierRefused, InUse, OtherRelease) as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        except (DurableError, OSError) as error:
            self.exitcode = 1
            show(sys.stderr, f"error: {error}")
        except KeyboardInterrupt:
            self.exitcode = 1
            show(sys.stderr, "stopped; the same command goes on")


def _erase(settings: BaseSettings, ids: list[str]) -> bool:
    """Whether a place could not be reached."""
    for given in ids:
        if not is_listing_id(given):
            raise ConfigurationError(f"{given!r} is no listing's id: 1 to 64 letters, digits, - or _")
    Config.from_settings(settings).keep_private()
    erasure = Erasure(settings, ids, lambda line: show(sys.stdout, line))
    asyncio.run(erasure.run())
    for listing in dict.fromkeys(ids):
        if listing not in erasure.found:
            show(sys.stdout, f"{listing}: found nowhere{' that could be read' if erasure.failed else ''}")
    show(sys.stdout, OUT_OF_REACH)
    return erasure.failed
