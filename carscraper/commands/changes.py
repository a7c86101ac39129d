"""`scrapy changes`: what has changed from one complete catalogue to the next."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections import Counter
from typing import Any, ClassVar

import orjson
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from carscraper.changes.lines import FOUND, KINDS, RUN
from carscraper.changes.log import CHANGES_JSONL, Changes
from carscraper.changes.reading import Wanted, read_changes, table_line, time_of
from carscraper.config import Config
from scrapy_durable.exceptions import ConfigurationError, DurableError, cause
from scrapy_durable.plain import plain_table, show


class Command(ScrapyCommand):
    """Reads `changes.jsonl` in `CARS_OUTPUT_DIR`, while a crawl runs or not.

    Exit status 0: done, also when nothing has changed. 1: a line is damaged, or the disk does not do its part. 2:
    refused.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Options only."""
        return "[options]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Show what has changed between complete catalogues"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and these."""
        super().add_options(parser)
        parser.add_argument(
            "--since",
            default="",
            metavar="RUN|DATE",
            help="after a run, which is the safe way to follow; from a time on (UTC)",
        )
        parser.add_argument("--kind", default="", choices=KINDS, help=f"one of {', '.join(KINDS)}")
        parser.add_argument("--make", default="", help="of cars of this make only, as in Toyota")
        parser.add_argument("--json", action="store_true", help="the lines as they are")
        parser.add_argument("--drop-before", metavar="DATE", help="cut what is older, for good; show nothing")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Show, or cut."""
        if args:
            raise UsageError("scrapy changes takes options only", print_help=False)
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            config = Config.from_settings(self.settings)
            config.keep_private()
            changes = Changes(config.output_dir)
            self.exitcode = _cut(changes, opts.drop_before) if opts.drop_before else _show(changes, opts)
        except ConfigurationError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        except BrokenPipeError:  # whoever reads has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.exitcode = 1
        except (DurableError, OSError) as error:
            self.exitcode = 1
            show(sys.stderr, f"error: {cause(error) if isinstance(error, OSError) else error}")


def _cut(changes: Changes, date: str) -> int:
    at = time_of(date)
    if not changes.path.exists():
        raise ConfigurationError(f"{changes.path}: there is no such file")
    show(sys.stdout, f"{changes.drop_before(at):,} lines are cut from {CHANGES_JSONL}")
    return 0


def _show(changes: Changes, opts: argparse.Namespace) -> int:
    if changes.path.parent.is_dir():
        _recover(changes)
    broken: list[int] = []
    wanted = Wanted(opts.since, opts.kind, opts.make)
    counts: Counter[str] = Counter()
    for number, line in read_changes(changes.path, wanted, broken.append):
        if opts.json:
            sys.stdout.buffer.writelines(plain_table([line]) if sys.stdout.isatty() else [line])
            continue
        try:
            change = orjson.loads(line)
            shown = _shown(change, opts.kind)
        except (AttributeError, KeyError, TypeError):
            broken.append(number)
            continue
        counts[change["kind"]] += 1
        show(sys.stdout, *shown)
    if not opts.json and opts.kind != RUN:
        found = [f"{counts[kind]:,} {kind}" for kind in KINDS if kind != RUN and counts[kind]]
        show(sys.stdout, ", ".join(found) or "nothing has changed")
    sys.stdout.flush()
    for number in broken:
        show(sys.stderr, f"error: {changes.path}, line {number}: damaged, and left out")
    return 1 if broken else 0


def _recover(changes: Changes) -> None:
    """What a crawl that died has published, and not said yet."""
    try:
        changes.recover()
    except OSError as error:  # whoever may only read reads what is there
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            show(sys.stderr, f"what a crawl that died has found may be missing: {cause(error)}")


def _shown(change: dict[str, Any], kind: str) -> list[str]:
    if change["kind"] != RUN:
        return [table_line(change)]
    if kind != RUN:
        return []
    found = ", ".join(f"{change[kind]:,} {kind}" for kind in FOUND if change[kind])
    return [f"{change['run']}  {change['listings']:,} listings  {found}"]
