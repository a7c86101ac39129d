"""What `scrapy runs check` and `scrapy runs notify` do: find out whether there was a run, and tell people."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.spiderloader import get_spider_loader

from scrapy_durable.config import Config
from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.plain import show
from scrapy_durable.runs.file import note_killed, read_runs
from scrapy_durable.runs.messages import Message, of_killed, of_overdue, of_test
from scrapy_durable.runs.notifying import send
from scrapy_durable.runs.overdue import overdue

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.runs.file import Run


def check(
    settings: BaseSettings, path: Path, spider: str | None, max_age: timedelta, counts: Callable[[Run], bool]
) -> bool:
    """Whether a complete run has ended within that time, of the runs that count. True is quiet; else what is wrong is
    said on standard error, and to people, who also hear of a run that was killed. Raises `ConfigurationError` for a
    spider that nobody knows.
    """
    problems = _problems(settings, path, spider, max_age, counts)
    if problems:
        show(sys.stderr, *problems)
        again = (
            f"scrapy runs{f' --spider {shlex.quote(spider)}' if spider else ''}, then start the crawl again"
        )
        say(settings, of_overdue(settings["BOT_NAME"], problems, again))
    return not problems


def send_test(settings: BaseSettings) -> bool:
    """Send a message that says nothing; False when it was not taken by all. Raises `ConfigurationError`."""
    if not Config.from_settings(settings).notify:
        raise ConfigurationError("DURABLE_NOTIFY is not set: nobody is told")
    sent = say(settings, of_test(settings["BOT_NAME"], socket.gethostname()))
    if sent:
        show(sys.stdout, "sent: every address has taken it")
    return sent


def say(settings: BaseSettings, message: Message) -> bool:
    """Tell people, if there is anybody; False when it was not taken by all, which is said on standard error."""
    config = Config.from_settings(settings)
    problem = send(config.notify, message, config.notify_timeout) if config.notify else None
    if problem is not None:
        show(sys.stderr, f"error: a notification was not sent: {problem}")
    return problem is None


def _problems(
    settings: BaseSettings, path: Path, spider: str | None, max_age: timedelta, counts: Callable[[Run], bool]
) -> list[str]:
    damaged: list[int] = []
    try:
        _tell_of_killed(settings, path)
        runs = read_runs(path, damaged.append) if path.exists() else None
    except OSError as error:
        return [f"nobody knows whether there was a run: {cause(error)}"]
    _check_spider(settings, spider, runs or [])
    asked = [run for run in runs or [] if spider in (None, run["spider"]) and counts(run)]
    problems = overdue(asked, spider, datetime.now(UTC), max_age)
    if runs is None:
        problems.append(f"{path}: there is no such file; a run makes it")
    return problems + [f"{path}, line {number}: damaged, and left out" for number in damaged]


def _tell_of_killed(settings: BaseSettings, path: Path) -> None:
    """Of each once, unless a later run has done so. A file that may only be read is left alone."""
    try:
        killed = note_killed(path)
    except PermissionError:
        return
    for run in killed:
        show(sys.stderr, f"{run['run']} of {run['spider']} was killed")
        say(settings, of_killed(settings["BOT_NAME"], run))


def _check_spider(settings: BaseSettings, spider: str | None, runs: list[Run]) -> None:
    known = {run["spider"] for run in runs}
    if spider is None or spider in known:
        return
    known.update(get_spider_loader(settings).list())
    if spider not in known:
        raise ConfigurationError(
            f"--spider: there is no {spider!r}, but {', '.join(sorted(known)) or 'none'}"
        )
