"""What this site's settings mean to the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carscraper.config import Config
from scrapy_durable.origins import origin_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def set_core_settings(settings: BaseSettings) -> None:
    """Set the core's settings for this site's spider alone, not for others of this project.

    Raises `ConfigurationError` for a setting that is refused.
    """
    config = Config.from_settings(settings)
    settings.set("DURABLE_ALLOWED_ORIGINS", [origin_of(config.api_url)], priority="spider")
    # The allow-list replaces it, and it costs a call per request.
    settings["DOWNLOADER_MIDDLEWARES"]["scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"] = None
