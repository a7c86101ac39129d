"""Which response store a crawl uses: Redis when `REDIS_URL` is set, else a file in the output directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carscraper.config import Config
from carscraper.connection import redis_client
from carscraper.responses.contract import ResponseStore
from carscraper.responses.redis import RedisResponseStore
from carscraper.responses.sqlite import SqliteResponseStore

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def build_response_store(settings: BaseSettings) -> ResponseStore:
    """The store for these settings, not opened yet."""
    config = Config.from_settings(settings)
    client = redis_client(settings)
    if client is not None:
        return RedisResponseStore(client, prefix="cars", ttl=config.spec_ttl)
    return SqliteResponseStore(config.output_dir / "responses.sqlite")
