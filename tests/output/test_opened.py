"""Who reads the log is told when it cannot be had."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from carscraper.catalogue.searches import Search
from carscraper.config import Config
from carscraper.output.archive import Archive
from carscraper.pipelines import item_log as module
from carscraper.pipelines.item_log import ItemLogPipeline
from scrapy_durable.exceptions import ConfigurationError


def test_a_log_that_could_not_be_opened_is_refused_to_whoever_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = SimpleNamespace(crawl_id="crawl", worker="a", resumable=True)
    monkeypatch.setattr(module, "crawl_identity", lambda _: identity)
    monkeypatch.setattr(module, "crawl_clock", lambda _: lambda: 1.0)
    monkeypatch.setattr(module, "search_of", lambda _: Search())

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Archive, "open", refuse)
    settings = Settings()
    settings.setmodule("carscraper.settings")
    settings.set("CARS_OUTPUT_DIR", str(tmp_path))
    config = Config.from_settings(settings)
    log = ItemLogPipeline(SimpleNamespace(spider=None), config)  # type: ignore[arg-type]

    async def ask() -> None:
        asked = asyncio.create_task(log.opened())
        with pytest.raises(ConfigurationError, match="No space left on device"):
            await log.open_spider()
        with pytest.raises(ConfigurationError, match="CARS_OUTPUT_DIR cannot be used"):
            await asked

    asyncio.run(ask())
