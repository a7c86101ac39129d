"""`spider.state` in `JOBDIR`, as Scrapy has it, kept up with what is acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_durable.disk import write_atomically
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.frontier.build import make_jobdir
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_GATHER = 0.05
"""Seconds that changes gather at least before the state is written: acknowledgements wait for it."""
_SHARE = 10
"""Times as long as the last write took is waited for the next: a large state costs no more than a tenth of the time."""
_PROTOCOL = 4
"""Of pickle, as Scrapy's own extension writes the file, which either can read."""


class SpiderState:
    """In the place of `scrapy.extensions.spiderstate.SpiderState`, which writes the state when a crawl is stopped.

    What a request has left in `spider.state` is on disk before it is acknowledged, so after a kill the state has what
    all acknowledged requests have left there; what a request that is done again leaves there comes again. (This is a
    `DurableStore`: its numbers are those of its writes.)

    A state that cannot be pickled is warned about once, and is lost in a kill.
    """

    def __init__(self, crawler: Crawler, path: Path | None) -> None:
        self.durable = 0
        self._crawler = crawler
        self._path = path
        self._kept, self._written = _read(path)
        self._next = 1
        """Number of the next write; what changes now is in it."""
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._has_warned = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` without `JOBDIR`, `ConfigurationError` when what is there cannot be read."""
        jobdir = make_jobdir(crawler.settings)
        if jobdir is None:
            raise NotConfigured
        state = cls(crawler, None if is_at_a_command(crawler) else jobdir / "spider.state")
        crawler.signals.connect(state._on_opened, signals.spider_opened)
        return state

    @property
    def received(self) -> int:
        """The write that has all that is in the state now."""
        if self._writing is None or (self._written is None and not self._state):
            return self.durable
        self._changed.set()
        return self._next

    @property
    def _state(self) -> Any:
        """What the spider has there now, which may be another object than at the start."""
        return getattr(self._crawler.spider, "state", None)

    async def _write_until_closed(self) -> None:
        pause = _GATHER
        while not self._closing.is_set():
            await self._changed.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            self._changed.clear()
            begun_at = time.monotonic()
            await self._write()
            pause = max(_GATHER, _SHARE * (time.monotonic() - begun_at))

    async def _write(self) -> None:
        """Raises `OSError`."""
        number, self._next = self._next, self._next + 1
        data = self._pickled()
        if data is not None and data != self._written and self._path is not None:
            await asyncio.to_thread(write_atomically, self._path, [data])
            self._written = data
        self.durable = number

    def _pickled(self) -> bytes | None:
        try:
            return pickle.dumps(self._state, protocol=_PROTOCOL)
        except Exception as error:  # noqa: BLE001 (whatever the objects that a spider has put there raise)
            if not self._has_warned:
                self._has_warned = True
                logger.warning("spider.state cannot be kept, and is lost with this process: %s", cause(error))
            return None

    def _on_opened(self, spider: Spider) -> None:
        spider.state = self._kept  # type: ignore[attr-defined]
        if self._path is not None:
            self._writing = asyncio.create_task(self._write_until_closed())
            self._writing.add_done_callback(partial(self._on_ended, self._path))
            self._crawler.signals.connect(self._on_closed, signals.spider_closed)

    def _on_ended(self, path: Path, writing: asyncio.Task[None]) -> None:
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            stop_crawl(self._crawler, "spider_state_failed", f"{path}: {cause(error)}")

    async def flush(self) -> None:
        """Write what there is, so that what has left it there can be acknowledged; nothing is written by itself from
        then on.
        """
        if self._writing is None:
            return
        self._closing.set()
        self._changed.set()
        await asyncio.wait([self._writing])
        try:
            await self._write()  # what came after the last one
        except OSError as error:
            logger.error("spider.state cannot be written: %s", cause(error))

    async def _on_closed(self) -> None:
        await self.flush()


def _read(path: Path | None) -> tuple[Any, bytes | None]:
    """The state, and the bytes that it was read from. Raises `ConfigurationError`."""
    if path is None:
        return {}, None
    try:
        data = path.read_bytes()
        return pickle.loads(data), data  # noqa: S301 (whoever can write to JOBDIR can run code here, as in Scrapy)
    except FileNotFoundError:
        return {}, None
    except Exception as error:
        raise ConfigurationError(f"JOBDIR: {path} cannot be read: {cause(error)}") from error
