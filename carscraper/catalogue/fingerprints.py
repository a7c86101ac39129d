"""What makes two requests the same."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

DISTINCT = "distinct"
"""`meta` key: text that tells requests of the same URL apart, such as which listings wait for the answer."""


class RequestFingerprinter:
    """Method, URL as written, body, and `meta["distinct"]`; 20 bytes of BLAKE2b.

    URLs are not canonicalised: this project writes every URL itself, the same way each time, and
    canonicalising cost as much as the rest of a request's way through the scheduler.
    """

    def fingerprint(self, request: Request) -> bytes:
        """The identity of the request; its first eight bytes are its key in the frontier."""
        parts = (
            request.method.encode(),
            request.url.encode(),
            request.body,
            str(request.meta.get(DISTINCT, "")).encode(),
        )
        return blake2b(b"\0".join(parts), digest_size=20).digest()
