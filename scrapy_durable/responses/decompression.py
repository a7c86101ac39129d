"""How large an answer may be, by its kind; compressed bodies unpacked, within that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from scrapy_durable.config import LARGEST, Config
from scrapy_durable.responses.middleware import KEPT, STORE_KEY
from scrapy_durable.robots import UNBOUNDED

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

MOST_ENCODINGS = 3
"""Encodings around one body at most: one is usual, two come from a server behind a proxy that packs once more."""


class DecompressionMiddleware(HttpCompressionMiddleware):
    """Scrapy's own, which raises when a body is damaged or grows above its limit.

    What is raised on a response's way back is seen by no other middleware, and so the request would be lost
    without a trace. Here such a response goes on without its body, with the flag `undecodable`, `too_large` or
    `encoded_too_often`, which the retry middleware obeys.

    The limit is `DURABLE_RESPONSES_MAX_SHARED` for an answer with a key in the response store,
    `DURABLE_RESPONSES_MAX_KEPT` for one that is kept for its crawl, and never more than `DOWNLOAD_MAXSIZE`. It is set
    here, next to the downloader, so that nothing that comes from a queue can change it; the download handler keeps to
    it while a body arrives.
    """

    def __init__(self, *, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        most = self._most = crawler.settings.getint("DOWNLOAD_MAXSIZE") or LARGEST
        config = Config.from_settings(crawler.settings)
        self._limits = {
            KEPT: min(config.responses_max_kept, most),
            STORE_KEY: min(config.responses_max_shared, most),
        }

    def process_request(self, request: Request, spider: Any = None) -> None:
        """Say which encodings are understood, and how large the answer may be."""
        super().process_request(request)
        unbounded = UNBOUNDED in request.meta and request.callback is NO_CALLBACK
        request.meta["download_maxsize"] = 0 if unbounded else self._limit(request)

    def _limit(self, request: Request) -> int:
        return next((limit for kind, limit in self._limits.items() if kind in request.meta), self._most)

    def process_response(
        self, request: Request, response: Response, spider: Any = None
    ) -> Request | Response:
        """The response with its body unpacked, or without and with a flag."""
        encodings = response.headers.getlist("Content-Encoding")
        if not encodings:
            return response
        layers = sum(encoding.count(b",") + 1 for encoding in encodings)
        if layers > MOST_ENCODINGS:
            logger.warning("Cannot unpack %s: %d encodings around one body", response, layers)
            return self._emptied(response, "encoded_too_often")
        request.meta["download_maxsize"] = self._limit(request)
        try:
            return super().process_response(request, response)
        except IgnoreRequest:  # logged by Scrapy, with both sizes
            return self._emptied(response, "too_large")
        except Exception as error:  # noqa: BLE001  each encoding has errors of its own, and so has each library
            logger.warning("Cannot unpack %s: %s: %s", response, type(error).__name__, error)
            return self._emptied(response, "undecodable")

    @staticmethod
    def _emptied(response: Response, flag: str) -> Response:
        headers = response.headers.copy()
        del headers["Content-Encoding"]
        return response.replace(body=b"", headers=headers, flags=[*response.flags, flag])
