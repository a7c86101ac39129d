"""Metrics of a crawl from outside, by a process that goes on when every worker is dead."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.metrics.server import MetricsServer
from scrapy_durable.metrics.values import Values, history_values
from scrapy_durable.runs.file import read_runs

if TYPE_CHECKING:
    from scrapy_durable.runs.file import Run
    from scrapy_durable.status.report import Report


class History:
    """The history of runs, read again when its file has changed."""

    def __init__(self, path: Path, counts: Callable[[Run], bool]) -> None:
        """`counts` says which runs do."""
        self._path = path
        self._counts = counts
        self._read: tuple[int, int, int] | None = None
        self._values: Values = {}

    def values(self) -> Values:
        """Nothing where the file cannot be read; one that is not there has no runs."""
        try:
            found = self._path.stat()
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if state != self._read:
                runs = read_runs(self._path, _leave_out)
                self._values = history_values([run for run in runs if self._counts(run)])
                self._read = state
        except FileNotFoundError:
            self._read, self._values = None, history_values([])
        except OSError:
            self._read, self._values = None, {}
        return self._values


def _leave_out(line: int) -> None:
    """A damaged line is `scrapy runs`' to tell of."""


async def serve(
    look: Callable[[], Awaitable[Report]],
    history: History | None,
    *,
    host: str,
    port: int,
    say: Callable[[str], None],
) -> None:
    """Until SIGINT or SIGTERM. Raises `ConfigurationError` when it cannot listen there."""
    server = MetricsServer(look, history.values if history else dict, process=False)
    enough = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    try:
        address = await server.start(host, port)
    except OSError as error:
        raise ConfigurationError(f"no metrics at {host}:{port}: {cause(error)}") from None
    try:
        say(f"metrics are at {address}")
        await enough.wait()
    finally:
        await server.stop()
