"""Those whom a run tells of what is wrong, while the reactor goes on."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_durable.config import Config
from scrapy_durable.exceptions import cause
from scrapy_durable.runs.file import note_killed
from scrapy_durable.runs.messages import Message, is_told, of_killed, of_run
from scrapy_durable.runs.notifying import MISSING, is_installed, tell

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_durable.runs.file import Run

logger = logging.getLogger(__name__)


class Telling:
    """Sends messages to `DURABLE_NOTIFY`, each by a task of its own."""

    def __init__(self, crawler: Crawler) -> None:
        config = Config.from_settings(crawler.settings)
        self._project = str(crawler.settings["BOT_NAME"])
        self._addresses = config.notify
        self._timeout = config.notify_timeout
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, path: Path) -> None:
        """Say so if nobody can be told, and tell of runs in this file that were killed and that nobody has told of."""
        if self._addresses and not is_installed():
            logger.warning("DURABLE_NOTIFY is set, and nobody can be told: %s", MISSING)
            self._addresses = ()
        try:
            killed = note_killed(path)
        except OSError as error:
            logger.debug(
                "Nobody knows of runs that were killed: %s", cause(error)
            )  # its own line is warned about
            return
        for run in killed:
            logger.warning(
                "Run %s of %s was killed: its process has left no last word", run["run"], run["spider"]
            )
            self._tell(of_killed(self._project, run))

    async def end(self, run: Run, *, concludes: bool) -> None:
        """Tell of the run if there is a reason, and wait until all messages are sent, or their time is over."""
        if is_told(run, concludes=concludes):
            self._tell(of_run(self._project, run))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _tell(self, message: Message) -> None:
        if self._addresses:
            work = asyncio.to_thread(tell, self._addresses, message, self._timeout)
            self._tasks.append(asyncio.create_task(work))
