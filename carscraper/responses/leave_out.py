"""Attributes that shall not be kept, taken out of listing pages before anything is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured

from carscraper.api.leave_out import leave_out
from carscraper.config import Config
from scrapy_durable.responses.middleware import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class LeaveOutMiddleware:
    """Takes `CARS_LEAVE_OUT` out of each listing page, nearest to the network: the response store, the queue,
    logs, records and reports come after it. Off when nothing shall be left out.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when it has nothing to do."""
        patterns = Config.from_settings(crawler.settings).leave_out
        if not patterns:
            raise NotConfigured
        return cls(patterns)

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        """The page without them."""
        if KEPT not in request.meta or not response.body:
            return response
        return response.replace(body=leave_out(response.body, self._patterns))
