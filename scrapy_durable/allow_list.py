"""Where requests may go: to the allowed origins, and nowhere else, on every hop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from scrapy_durable.config import Config
from scrapy_durable.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler


class NotAllowed(IgnoreRequest):
    """Raised for a request to anywhere but the allowed origins."""


class AllowListMiddleware:
    """Refuses every request whose scheme, host and port are not in `DURABLE_ALLOWED_ORIGINS`. Off when that is empty.

    It stands next to the downloader, so that redirects, retries and requests made by other middlewares pass
    it too, and it ignores `dont_filter` and `allow_offsite`, which skip Scrapy's own off-site check.

    Stat: `allow_list/refused`.
    """

    def __init__(self, crawler: Crawler, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)
        self._stats = crawler.stats
        self._known_good: set[tuple[str, str]] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when every origin is allowed, `ConfigurationError` when the setting is refused."""
        origins = Config.from_settings(crawler.settings).allowed_origins
        if not origins:
            raise NotConfigured
        return cls(crawler, origins)

    def process_request(self, request: Request) -> None:
        """Let the request pass, or raise `NotAllowed`."""
        parts = urlparse_cached(request)
        if (parts.scheme, parts.netloc) in self._known_good:
            return
        try:
            allowed = "@" not in parts.netloc and origin_of(request.url) in self._origins
        except ValueError:
            allowed = False
        if not allowed:
            self._stats.inc_value("allow_list/refused")
            allowed_are = ", ".join(sorted(self._origins))
            raise NotAllowed(f"{request.url} is at none of the allowed origins: {allowed_are}")
        self._known_good.add((parts.scheme, parts.netloc))
