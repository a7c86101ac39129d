"""`scrapy runs`: the runs that there were, and what came of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_durable.exceptions import ConfigurationError, DurableError, cause
from scrapy_durable.plain import plain_json, show, show_plainly
from scrapy_durable.runs.checking import check, send_test
from scrapy_durable.runs.extension import runs_file
from scrapy_durable.runs.file import ENDED, read_runs
from scrapy_durable.runs.overdue import duration

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.runs.file import Run

_WIDTH = 80


class Command(ScrapyCommand):
    """Reads the history of runs, while a crawl runs or not, and tells people of a run that did not happen.

    Exit status 0: done. 1: a line is damaged, or the disk does not do its part; no run has happened; a message was not
    taken. 2: refused.
    """

    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """All of them, or one."""
        return "[options] [show RUN | check --max-age TIME | notify --test]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Show the runs that there were, newest last"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and these."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="as JSON, a run a line")
        parser.add_argument("--limit", type=int, default=20, help="how many of the last (default: 20)")
        parser.add_argument("--spider", help="of this spider only")
        parser.add_argument(
            "--max-age",
            metavar="TIME",
            help="check: within which a complete run has to have ended, as in 26h",
        )
        parser.add_argument("--test", action="store_true", help="notify: send a message to DURABLE_NOTIFY")

    def file(self) -> Path | None:
        """Where the history is."""
        return runs_file(self.settings)

    def counts(self, run: Run) -> bool:
        """Whether a run is one that `check` asks for."""
        return True

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Show them, or one; check that they happen; try whether people are told."""
        match args:
            case [] | ["show", _] | ["check"] | ["notify"]:
                pass
            case _:
                raise UsageError("name nothing, or one of: show RUN, check, notify", print_help=False)
        show_plainly(self._settings)
        try:
            match args:
                case ["check"]:
                    self.exitcode = self._check(opts)
                case ["notify"]:
                    self.exitcode = self._notify(opts)
                case _:
                    self.exitcode = self._show(args[1] if args else "", opts)
        except ConfigurationError as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        except (DurableError, OSError) as error:
            self.exitcode = 1
            show(sys.stderr, f"error: {cause(error) if isinstance(error, OSError) else error}")

    def _check(self, opts: argparse.Namespace) -> int:
        if not opts.max_age:
            raise ConfigurationError("--max-age: a time such as 26h is needed")
        max_age = duration("--max-age", opts.max_age)
        return 0 if check(self._settings, self._named_file(), opts.spider, max_age, self.counts) else 1

    def _notify(self, opts: argparse.Namespace) -> int:
        if not opts.test:
            raise ConfigurationError("--test is needed: it sends a message to DURABLE_NOTIFY")
        return 0 if send_test(self._settings) else 1

    @property
    def _settings(self) -> BaseSettings:
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        return self.settings

    def _named_file(self) -> Path:
        path = self.file()
        if path is None:
            raise ConfigurationError("set DURABLE_RUNS_FILE or JOBDIR: without, no history is kept")
        return path

    def _show(self, run: str, opts: argparse.Namespace) -> int:
        path = self._named_file()
        if not path.exists():
            raise ConfigurationError(f"{path}: there is no such file; a run makes it")
        broken: list[int] = []
        runs = [one for one in read_runs(path, broken.append) if opts.spider in (None, one["spider"])]
        if run:
            found = next((one for one in runs if one["run"] == run), None)
            if found is None:
                raise ConfigurationError(f"{path} has no run {run}")
            lines = plain_json(found, 0 if opts.json else orjson.OPT_INDENT_2).decode().split("\n")
        elif opts.json:
            lines = [plain_json(one).decode() for one in runs[-max(opts.limit, 0) or len(runs) :]]
        else:
            lines = list(_table(runs[-max(opts.limit, 0) or len(runs) :]))
        show(sys.stdout, *lines)
        for number in broken:
            show(sys.stderr, f"error: {path}, line {number}: damaged, and left out")
        return 1 if broken else 0


def _table(runs: list[Run]) -> Iterator[str]:
    if not runs:
        yield "no runs"
        return
    yield f"{'run':23}  {'spider':10}  {'took':>8}  {'items':>8}  {'requests':>8}  verdict"
    for run in runs:
        ended = run["state"] == ENDED
        took = _duration(run.get("seconds")) if ended else "-"
        items, requests = (_number(run.get(name)) if ended else "-" for name in ("items", "requests"))
        verdict = str(run.get("verdict")) if ended else run["state"]
        verdict += " !" if run.get("findings") else ""
        line = f"{run['run']:23}  {run['spider'][:10]:10}  {took:>8}  {items:>8}  {requests:>8}  {verdict}"
        yield line[:_WIDTH]


def _number(value: Any) -> str:
    return f"{value:,}" if type(value) is int else "-"


def _duration(seconds: Any) -> str:
    """`1:02:03`."""
    if not isinstance(seconds, int | float):
        return "-"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
