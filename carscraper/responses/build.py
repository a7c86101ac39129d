"""Which response store a crawl uses: Redis when `REDIS_URL` is set, else a file in the output directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from carscraper.config import Config
from carscraper.responses.contract import ResponseStore
from carscraper.responses.origin import OriginStore
from carscraper.responses.sqlite import SqliteResponseStore
from scrapy_durable.connection import redis_client

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def build_response_store(
    settings: BaseSettings,
    *,
    spider: str,
    origin: str | None = None,
    clock: Callable[[], float] = time.time,
) -> ResponseStore:
    """The store of the spider of that name, not opened yet. On Redis its keys share the frontier's hash tag.

    `origin` is the address of the API whose answers it shows, by default `CARS_API_URL`. `clock` gives seconds since
    the epoch; in a crawl it is the crawl's.
    """
    config = Config.from_settings(settings)
    store = _backend(settings, config, spider, clock)
    return OriginStore(store, config.api_url if origin is None else origin)


def _backend(
    settings: BaseSettings, config: Config, spider: str, clock: Callable[[], float]
) -> ResponseStore:
    client = redis_client(settings)
    if client is not None:
        from carscraper.responses.redis import RedisResponseStore  # here: see `redis_client`

        return RedisResponseStore(
            client,
            prefix=f"{{{spider}}}",
            ttl=config.keep_specs,
            crawl_ttl=config.keep_pages,
            clock=clock,
            max_shared=config.max_spec_bytes,
            max_of_crawl=config.max_page_bytes,
        )
    return SqliteResponseStore(
        config.output_dir / "responses.sqlite",
        clock=clock,
        max_shared=config.max_spec_bytes,
        max_of_crawl=config.max_page_bytes,
    )
