"""What this site's settings mean to the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carscraper.config import Config
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.origins import origin_of
from scrapy_durable.responses.build import build_response_store
from scrapy_durable.responses.contract import ResponseStore

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def set_core_settings(settings: BaseSettings) -> None:
    """Set the core's settings for this site's spider alone, not for others of this project.

    Raises `ConfigurationError` for a setting that is refused.
    """
    config = Config.from_settings(settings)
    settings.setdict(
        {
            "DURABLE_ALLOWED_ORIGINS": [origin_of(config.api_url)],
            # Specifications are shared by crawls, pages are kept for their crawl.
            "DURABLE_RESPONSES_DIR": str(config.output_dir),
            "DURABLE_RESPONSES_NAMESPACE": config.api_url,
            "DURABLE_RESPONSES_MAX_AGE": config.spec_ttl,
            "DURABLE_RESPONSES_KEEP": config.keep_pages,
            "DURABLE_RESPONSES_MAX_BYTES": config.responses_max_bytes,
            "DURABLE_RESPONSES_MAX_SHARED": config.max_spec_bytes,
            "DURABLE_RESPONSES_MAX_KEPT": config.max_page_bytes,
        },
        priority="spider",
    )
    # The allow-list replaces it, and it costs a call per request. Set as a whole: what is set inside is undone when the
    # process applies the project's settings again.
    offsite = {"scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None}
    components = {**settings.getdict("DOWNLOADER_MIDDLEWARES"), **offsite}
    settings.set("DOWNLOADER_MIDDLEWARES", components, priority="spider")


def with_core_settings(settings: BaseSettings) -> BaseSettings:
    """A copy for commands that have no spider to set them. Raises as above."""
    told = settings.copy()
    set_core_settings(told)
    return told


def stored_responses(settings: BaseSettings, *, spider: str, namespace: str | None = None) -> ResponseStore:
    """The response store that the core's settings lead to, not opened yet, for what reads it without a crawl.

    `namespace` is the address of the API whose specifications it shows, by default `CARS_API_URL`. Raises
    `ConfigurationError` when there is no store.
    """
    store = build_response_store(settings, spider=spider, namespace=namespace)
    if store is None:
        raise ConfigurationError("DURABLE_RESPONSES_DIR: nothing is stored without it")
    return store
