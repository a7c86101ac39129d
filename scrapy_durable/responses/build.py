"""Which response store a crawl uses: Redis when `REDIS_URL` is set, else a file in `DURABLE_RESPONSES_DIR`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy_durable.config import Config
from scrapy_durable.connection import redis_client
from scrapy_durable.responses.contract import ResponseStore
from scrapy_durable.responses.namespace import NamespaceStore
from scrapy_durable.responses.sqlite import SqliteResponseStore
from scrapy_durable.signatures import Signer

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def build_response_store(
    settings: BaseSettings,
    *,
    spider: str,
    namespace: str | None = None,
    clock: Callable[[], float] = time.time,
    on_not_signed: Callable[[], object] = lambda: None,
) -> ResponseStore | None:
    """The store of the spider of that name, not opened yet; None without `DURABLE_RESPONSES_DIR`. On Redis its keys
    share the frontier's hash tag.

    `namespace` is the one whose shared answers it shows, by default `DURABLE_RESPONSES_NAMESPACE`. `clock` gives
    seconds since the epoch; in a crawl it is the crawl's. With `DURABLE_QUEUE_KEY`, what is stored on Redis is
    signed, and `on_not_signed` is called for each answer that is not.
    """
    config = Config.from_settings(settings)
    if config.responses_dir is None:
        return None
    client = redis_client(settings)
    store: ResponseStore
    if client is not None:
        from scrapy_durable.responses.redis import RedisResponseStore  # here: see `redis_client`

        prefix = f"{{{spider}}}"
        store = RedisResponseStore(
            client,
            prefix,
            ttl=config.responses_keep_shared,
            crawl_ttl=config.responses_keep,
            clock=clock,
            max_shared=config.responses_max_shared,
            max_of_crawl=config.responses_max_kept,
            signer=Signer(config.queue_key, f"responses\0{prefix}") if config.queue_key else None,
            on_not_signed=on_not_signed,
        )
    else:
        store = SqliteResponseStore(
            config.responses_dir / "responses.sqlite",
            clock=clock,
            max_shared=config.responses_max_shared,
            max_of_crawl=config.responses_max_kept,
        )
    return NamespaceStore(store, config.responses_namespace if namespace is None else namespace)
