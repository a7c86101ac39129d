"""`scrapy queue`: look into the frontier, and deal with its dead letters."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_durable.config import Config
from scrapy_durable.exceptions import (
    ConfigurationError,
    DurableError,
    ForeignFile,
    FrontierRefused,
    OtherRelease,
)
from scrapy_durable.frontier.build import build_frontier, is_shared
from scrapy_durable.frontier.contract import DeadLetter, Frontier
from scrapy_durable.operating import LONGEST_PAUSE, USUAL_PAUSE, find, list_requests, pause, push, resume
from scrapy_durable.plain import plain, plain_json, show
from scrapy_durable.reaching import Reach, check_place, has_jobdir, only_spider
from scrapy_durable.runs.extension import runs_file
from scrapy_durable.status.document import status_document
from scrapy_durable.status.life import key_text, life_lines
from scrapy_durable.status.lines import status_lines
from scrapy_durable.status.listing import STATES, listing_document, listing_lines
from scrapy_durable.status.looking import build_looker
from scrapy_durable.status.report import nothing_seen
from scrapy_durable.status.watching import LEASES, Watch
from scrapy_durable.status.words import address

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.runs.file import Run
    from scrapy_durable.status.report import Report

_BETWEEN_LOOKS = 1.0
"""Seconds."""
_LIVELY = 60.0
"""Seconds since a worker was heard of, after which nothing is expected to happen while somebody waits."""
_ACTIONS = (
    "status",
    "watch",
    "metrics",
    "show URL-OR-KEY",
    "list",
    "dead",
    "retry-dead",
    "drop-dead",
    "push URL",
    "pause HOST",
    "resume HOST",
    "abandon WORKER",
    "forget",
)


class Command(ScrapyCommand):
    """Works on the frontier that `REDIS_URL` or `JOBDIR` names, while a crawl runs or not.

    Exit status 0: done. 1: the frontier did not answer, or the question was answered with no. 2: refused.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """The actions."""
        return f"[options] <{'|'.join(_ACTIONS)}>"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Show the frontier; retry, drop or forget what is in it"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's own options, and these."""
        super().add_options(parser)
        parser.add_argument("--spider", help="whose frontier (default: the project's only spider)")
        parser.add_argument("--json", action="store_true", help="status, list, dead: as JSON")
        parser.add_argument(
            "--limit", type=int, default=100, help="list, dead, leases: how many at most (default: 100)"
        )
        parser.add_argument("--state", help=f"list: {', '.join(STATES)}")
        parser.add_argument("--slot", default="", help="list: of that host alone")
        parser.add_argument(
            "--callback", help="push: the spider's method (default: parse); list: for it alone"
        )
        parser.add_argument("--priority", type=int, default=0, help="push: higher goes first (default: 0)")
        parser.add_argument(
            "--for",
            dest="seconds",
            type=float,
            default=USUAL_PAUSE,
            help=f"pause: seconds, {LONGEST_PAUSE:.0f} at most (default: {USUAL_PAUSE:.0f})",
        )
        parser.add_argument(
            "--port", type=int, help="metrics: 0 for a free one (default: DURABLE_METRICS_PORT)"
        )
        parser.add_argument("--host", help="metrics: where to listen (default: DURABLE_METRICS_HOST)")
        parser.add_argument("--yes", action="store_true", help="drop-dead, forget: do not ask first")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do the one action that was named."""
        action, *names = args or [""]
        if (action, len(names)) not in [(known.split()[0], len(known.split()) - 1) for known in _ACTIONS]:
            raise UsageError(f"name one of: {', '.join(_ACTIONS)}")
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            _check(opts, action)
            spider = opts.spider or only_spider(self.settings)
            if action == "watch":
                asyncio.run(_watch(self.settings, spider))
                return
            if action == "metrics":
                asyncio.run(self._serve_metrics(self.settings, spider, opts))
                return
            frontier = _frontier(self.settings, spider)
            self.exitcode = asyncio.run(_act(frontier, self.settings, action, names, opts))
        except (ConfigurationError, ForeignFile, FrontierRefused, OtherRelease) as error:
            self.exitcode = 2
            show(sys.stderr, f"error: {error}")
        except DurableError as error:
            self.exitcode = 1
            show(sys.stderr, f"error: {error}")

    def runs_file(self, settings: BaseSettings) -> Path | None:
        """The history of runs, for the time of the last complete one; None where there is none."""
        return runs_file(settings)

    def counts(self, run: Run) -> bool:
        """Whether a run that is complete is one that is waited for."""
        return True

    async def _serve_metrics(self, settings: BaseSettings, spider: str, opts: argparse.Namespace) -> None:
        from scrapy_durable.metrics.standing import History, serve  # loads a web server, which few need

        config = Config.from_settings(settings)
        port = config.metrics_port if opts.port is None else opts.port
        if port is None:
            raise ConfigurationError(
                "name a port with --port, or by DURABLE_METRICS_PORT; 0 takes a free one"
            )
        path = self.runs_file(settings)
        history = History(path, lambda run: run["spider"] == spider and self.counts(run)) if path else None
        async with _looks(settings, spider, leases=0) as look:
            await serve(
                look,
                history,
                host=opts.host or config.metrics_host,
                port=port,
                say=_say_at_once,
            )


def _say_at_once(line: str) -> None:
    """Whoever waits for it may read a file, or a pipe."""
    show(sys.stdout, line)
    sys.stdout.flush()


def _check(opts: argparse.Namespace, action: str) -> None:
    if action == "list" and opts.state not in STATES:
        raise ConfigurationError(f"--state: one of {', '.join(STATES)}, not {opts.state}")
    if opts.limit < 0:
        raise ConfigurationError(f"--limit: 0 or more, not {opts.limit}")
    if opts.port is not None and not 0 <= opts.port <= 65_535:
        raise ConfigurationError(f"--port: from 0 to 65535, not {opts.port}")


def _frontier(settings: BaseSettings, spider: str) -> Frontier:
    """The frontier that outlives its crawls; `ConfigurationError` when the settings name none."""
    check_place(settings)
    if not is_shared(settings) and not has_jobdir(settings):
        show(sys.stderr, f"no crawl: there is no {Path(settings['JOBDIR']).absolute()}")
        settings = settings.copy()
        settings.set("JOBDIR", None, "cmdline")  # an empty frontier in memory: a look makes nothing
    return build_frontier(settings, worker="scrapy-queue", spider=spider)


async def _act(
    frontier: Frontier, settings: BaseSettings, action: str, names: list[str], opts: argparse.Namespace
) -> int:
    """Do it and print what was done; returns the exit status."""
    try:
        if action == "status":
            report = await _report(frontier, settings, opts.limit)
            show(sys.stdout, *(_json(status_document(report)) if opts.json else status_lines(report)))
        elif action == "show":
            element = await find(frontier, settings, opts.spider or only_spider(settings), names[0])
            show(sys.stdout, *life_lines(element, (await frontier.status()).now))
        elif action == "list":
            await _list(frontier, opts)
        elif action == "dead":
            letters = await frontier.dead_letters(opts.limit)
            show(sys.stdout, *(_dead_as_json(letters) if opts.json else _dead_lines(letters)))
        elif action == "retry-dead":
            show(sys.stdout, f"{await frontier.retry_dead()} requests are queued again")
        elif action == "drop-dead":
            if not _sure(opts, "Drop all dead letters, so that the crawl counts as if they had never been?"):
                return 1
            show(sys.stdout, f"{await frontier.drop_dead()} dead letters are gone")
        elif action == "push":
            spider = opts.spider or only_spider(settings)
            said = await push(
                frontier, settings, spider, names[0], callback=opts.callback, priority=opts.priority
            )
            show(sys.stdout, said)
        elif action == "pause":
            show(sys.stdout, await pause(frontier, names[0], opts.seconds))
        elif action == "resume":
            show(sys.stdout, await resume(frontier, names[0]))
        elif action == "abandon":
            return await _abandon(frontier, names[0], opts)
        else:
            if not _sure(opts, f"Forget the whole crawl {await _crawl(frontier)}?"):
                return 1
            await frontier.forget()
            show(sys.stdout, "forgotten; the next run starts afresh")
    finally:
        await frontier.close()
    return 0


@asynccontextmanager
async def _looks(
    settings: BaseSettings, spider: str, leases: int
) -> AsyncIterator[Callable[[], Awaitable[Report]]]:
    """For looks again and again."""
    reach = Reach(settings, spider, name="scrapy-queue")
    looker = build_looker(settings)

    async def look() -> Report:
        async with reach.frontier() as frontier:
            return nothing_seen() if frontier is None else await looker.look(frontier, leases)

    try:
        yield look
    finally:
        await reach.close()


async def _watch(settings: BaseSettings, spider: str) -> None:
    """Until Ctrl-C."""
    async with _looks(settings, spider, LEASES) as look:
        await Watch(look, sys.stdout, spider).run()


async def _report(frontier: Frontier, settings: BaseSettings, leases: int) -> Report:
    """From two looks while somebody works on the crawl, so that it has rates; else from one."""
    looker = build_looker(settings)
    report = await looker.look(frontier, leases)
    if any(not worker.has_left and worker.silent < _LIVELY for worker in report.workers):
        await asyncio.sleep(_BETWEEN_LOOKS)
        report = await looker.look(frontier, leases)
    return report


async def _list(frontier: Frontier, opts: argparse.Namespace) -> None:
    callback = opts.callback or ""
    found = await list_requests(frontier, STATES[opts.state], opts.limit, opts.slot, callback)
    lines = listing_lines(found, opts.state, filtered=bool(opts.slot or callback))
    show(sys.stdout, *(_json(listing_document(found, opts.state)) if opts.json else lines))


async def _abandon(frontier: Frontier, name: str, opts: argparse.Namespace) -> int:
    """Give up the items of a worker that never comes back."""
    logs = {log.name: log for log in await frontier.logs()}
    log = logs.get(name)
    if log is None:
        known = ", ".join(sorted(known for known, one in logs.items() if not one.closed)) or "none"
        show(sys.stderr, f"error: no worker {name} has items in this crawl; those that have: {known}")
        return 1
    if log.closed:
        show(sys.stdout, f"all items of {name} are stored, or it was given up before")
        return 0
    silent = max(0.0, (await frontier.status()).now - log.last_seen)
    heard = f"{log.worker}, last heard of {silent:.0f} s ago" if log.last_seen else log.worker
    if not _sure(opts, f"Give up all items in the directory of {name} ({heard})?"):
        return 1
    lost = await frontier.abandon_log(name)
    show(
        sys.stdout,
        f"{name} ({log.worker}) is given up. What its feeds have stored stays. The rest of its items is lost with its "
        f"directory, those of {lost} requests that had just been acknowledged among them.",
    )
    return 0


async def _crawl(frontier: Frontier) -> str:
    """What there is to forget."""
    try:
        status = await frontier.status()
    except OtherRelease:
        return "of another release"
    left = status.total.queued + status.total.delayed + status.total.leased
    return f"{status.crawl_id}, with {left} requests unfinished"


def _sure(opts: argparse.Namespace, question: str) -> bool:
    if opts.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} Nobody is there to ask; repeat with --yes")
    return input(f"{plain(question)} [y/N] ").strip().lower() in ("y", "yes")


def _dead_lines(letters: list[DeadLetter]) -> Iterator[str]:
    if not letters:
        yield "no dead letters"
    for letter in letters:
        when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(letter.died_at))
        yield f"{when}  {letter.callback}  after {letter.attempts}: {letter.reason}"
        yield f"    {address(letter.payload)}"


def _dead_as_json(letters: list[DeadLetter]) -> list[str]:
    rows = [
        {
            "key": key_text(letter.key),
            "url": address(letter.payload),
            "callback": letter.callback,
            "slot": letter.slot,
            "attempts": letter.attempts,
            "failures": letter.failures,
            "reason": letter.reason,
            "died_at": letter.died_at,
        }
        for letter in letters
    ]
    return _json(rows)


def _json(document: object) -> list[str]:
    return plain_json(document, orjson.OPT_INDENT_2).decode().split("\n")
