"""Compressed bodies unpacked, within bounds; one that cannot be is flagged instead of dropped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

logger = logging.getLogger(__name__)


class DecompressionMiddleware(HttpCompressionMiddleware):
    """Scrapy's own, which raises when a body is damaged or grows above `DOWNLOAD_MAXSIZE`.

    What is raised on a response's way back is seen by no other middleware, and so the request would be lost
    without a trace. Here such a response goes on without its body, with the flag `undecodable` or
    `too_large`, which the retry middleware heeds.
    """

    def process_response(
        self, request: Request, response: Response, spider: Any = None
    ) -> Request | Response:
        """The response with its body unpacked, or without and with a flag."""
        if b"Content-Encoding" not in response.headers:
            return response
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
