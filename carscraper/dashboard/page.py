"""The tab about cars of `scrapy dashboard`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from carscraper.config import Config
from carscraper.dashboard.latest import Latest, Shown
from carscraper.dashboard.view import view

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.dashboard.tabs import Asked

_WAIT = 2.0
"""Seconds that a page waits for what is being read; then it shows what was read before, and says so."""


class CarsTab:
    """Made of the files of one output directory, whatever a crawl does to them meanwhile."""

    path = "cars"
    title = "Cars"
    templates = Path(__file__).parent / "templates"

    def __init__(self, settings: BaseSettings) -> None:
        """Of `CARS_OUTPUT_DIR`. Raises `ConfigurationError`."""
        self._latest = Latest(Config.from_settings(settings).output_dir)
        self._shown: Shown | None = None
        self._reading: asyncio.Future[Shown] | None = None

    async def render(self, asked: Asked) -> str:
        """The query names `make`, `model`, and `of` which make the model is, when those come from a form."""
        now = datetime.now(UTC)
        shown, is_reading = await self._look(now)
        make, model, of = (asked.query.get(name, "") for name in ("make", "model", "of"))
        # In a thread: it takes half a second where one model has a hundred thousand listings.
        values = await asyncio.to_thread(view, shown, make, model, of, now)
        return asked.template("cars.html", is_reading=is_reading, **values)

    async def _look(self, now: datetime) -> tuple[Shown, bool]:
        """What was read last, and whether something else is being read."""
        if self._reading is None:
            self._reading = _in_thread(self._latest, now)
        await asyncio.wait({self._reading}, timeout=_WAIT)
        if (reading := self._reading) is not None and reading.done():
            self._reading = None
            self._shown = reading.result()
        return self._shown or Shown(), self._reading is not None


def _in_thread(latest: Latest, now: datetime) -> asyncio.Future[Shown]:
    """What `latest` shows, read in a thread that a process which ends does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Shown] = loop.create_future()

    def tell(found: Shown | BaseException) -> None:
        if isinstance(found, Shown):
            future.set_result(found)
        else:
            future.set_exception(found)

    def read() -> None:
        found: Shown | BaseException
        try:
            found = latest.shown(now)
        except BaseException as error:  # noqa: BLE001 (who waits for it is told)
            found = error
        with contextlib.suppress(RuntimeError):  # the dashboard has ended
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=read, name="cars.json", daemon=True).start()
    return future
