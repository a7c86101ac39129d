"""Scrapy's download handler on aiohttp, with what it keeps to itself as methods of ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler
from scrapy.http import Headers

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from aiohttp.abc import AbstractResolver
    from aiohttp.client_proto import ResponseHandler


class OpenHandler(AiohttpDownloadHandler):
    """`handlers._aiohttp` is the module that holds it; `_extract_headers` makes Scrapy's headers of an answer."""

    @staticmethod
    def _extract_headers(response: ClientResponse) -> Headers:
        """As they were sent: aiohttp's own text of bytes that are no UTF-8 cannot be made bytes again."""
        return Headers(list(response.raw_headers))

    def connect_with(
        self,
        protocol: Callable[..., ResponseHandler],
        resolver: Callable[[AbstractResolver], AbstractResolver],
    ) -> None:
        """Have its connections speak `protocol`, and find addresses by what `resolver` makes of its own.

        `handler._session.connector` is aiohttp's `TCPConnector`, which calls `_factory()` for each connection and asks
        `_resolver` for each name; before the first request there are neither. Holds for aiohttp 3.
        """
        connector: Any = self._session.connector
        connector._factory = partial(protocol, loop=connector._loop)
        connector._resolver = resolver(connector._resolver)
