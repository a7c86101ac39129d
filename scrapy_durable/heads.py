"""How much a site may send before an answer begins."""

from __future__ import annotations

from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

MOST_INFORMATIONAL = 16
"""Informational responses (1xx) before an answer at most; a server that means well sends one or two."""
LONGEST_HEAD = 256 * 1024
"""Bytes before the body at most, informational responses included. aiohttp lets a head have 128 fields of 8 KB."""
_PIECE = 16 * 1024
"""Bytes parsed at once before the body, so that what is beyond the bounds is not read first."""


class BoundedResponseHandler(ResponseHandler):
    """aiohttp's end of a connection. It would read informational responses for as long as they come, and keep all
    that it has read at once; here they are dropped, and too many of them end the connection.
    """

    _is_before_body = False
    _informational = 0
    _head_bytes = 0

    def set_response_params(self, **parameters: Any) -> None:
        """Called for each request, before it is sent."""
        self._is_before_body = True
        self._informational = self._head_bytes = 0
        super().set_response_params(**parameters)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Called by the parser for each head that it has read."""
        if 100 <= data[0].code < 200 and data[0].code != 101:
            self._informational += 1
            return
        self._is_before_body = False
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Called by the transport, with up to 256 KiB."""
        at = 0
        while self._is_before_body and at < len(data):
            piece = data[at : at + _PIECE]
            at += len(piece)
            self._head_bytes += len(piece)
            super().data_received(piece)
            if self.exception() is not None:
                return
            if self._informational > MOST_INFORMATIONAL:
                self._refuse(f"more than {MOST_INFORMATIONAL} informational responses before the answer")
                return
            if self._is_before_body and self._head_bytes > LONGEST_HEAD:
                self._refuse(f"more than {LONGEST_HEAD} bytes before the body")
                return
        if at < len(data) or not data:
            super().data_received(data[at:] if at else data)

    def _refuse(self, problem: str) -> None:
        self._is_before_body = False
        self.set_exception(HttpProcessingError(code=502, message=problem))
        if self.transport is not None:
            self.transport.abort()
