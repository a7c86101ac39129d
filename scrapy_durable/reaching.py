"""Reaches the frontier of a spider from outside its crawl, for those who look at it or work on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.spiderloader import get_spider_loader

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.frontier.build import build_frontier, is_resumable, is_shared

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.frontier.contract import Frontier


def only_spider(settings: BaseSettings) -> str:
    """The one of the project; raises `ConfigurationError` when it has several, or none."""
    names = sorted(get_spider_loader(settings).list())
    if len(names) != 1:
        raise ConfigurationError(
            f"name a spider with --spider: {', '.join(names) or 'this project has none'}"
        )
    return names[0]


def check_place(settings: BaseSettings) -> None:
    """Raises `ConfigurationError` when the settings name no frontier that outlives its crawls."""
    if not is_resumable(settings):
        raise ConfigurationError("set REDIS_URL or JOBDIR: without, the queue lives and dies with its crawl")


def has_jobdir(settings: BaseSettings) -> bool:
    """True when `JOBDIR` is there."""
    return Path(settings["JOBDIR"]).is_dir()


class Reach:
    """The frontier of a spider, again and again: one connection to Redis; a file is opened for each use, since it may
    be made, replaced and removed meanwhile.
    """

    def __init__(self, settings: BaseSettings, spider: str, *, name: str) -> None:
        """`name`: who reaches. Raises `ConfigurationError`."""
        check_place(settings)
        self._settings, self._spider, self._name = settings, spider, name
        self._shared = self._build() if is_shared(settings) else None

    @asynccontextmanager
    async def frontier(self) -> AsyncIterator[Frontier | None]:
        """None when there is no `JOBDIR`, so that nothing was crawled."""
        if self._shared is not None:
            yield self._shared
        elif not has_jobdir(self._settings):
            yield None
        else:
            frontier = self._build()
            try:
                yield frontier
            finally:
                await frontier.close()

    async def close(self) -> None:
        """End the connection."""
        if self._shared is not None:
            await self._shared.close()

    def _build(self) -> Frontier:
        return build_frontier(self._settings, worker=self._name, spider=self._spider)
