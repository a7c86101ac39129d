"""Where requests may go: to the configured API, and nowhere else, on every hop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.utils.httpobj import urlparse_cached

from carscraper.api.endpoints import api_origin
from carscraper.config import Config

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler


class NotAllowed(IgnoreRequest):
    """Raised for a request to anywhere but the API."""


class AllowListMiddleware:
    """Refuses every request whose scheme, host or port is not that of `CARS_API_URL`.

    It stands next to the downloader, so that redirects, retries and requests made by other middlewares pass
    it too, and it heeds no `dont_filter`, which lets Scrapy's own off-site check be skipped.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._origin = api_origin(Config.from_settings(crawler.settings).api_url)
        self._stats = crawler.stats
        self._known_good: set[tuple[str, str]] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `ConfigurationError` when `CARS_API_URL` is refused."""
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        """Let the request pass, or raise `NotAllowed`."""
        parts = urlparse_cached(request)
        if (parts.scheme, parts.netloc) in self._known_good:
            return
        try:
            allowed = "@" not in parts.netloc and api_origin(request.url) == self._origin
        except (KeyError, ValueError):
            allowed = False
        if not allowed:
            self._stats.inc_value("allow_list/refused")
            raise NotAllowed(
                f"{request.url} is not at {self._origin}, the only place that this crawl may ask"
            )
        self._known_good.add((parts.scheme, parts.netloc))
