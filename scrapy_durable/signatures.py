"""Signatures, by which workers that have `DURABLE_QUEUE_KEY` know what one of them has written to a shared server."""

from __future__ import annotations

import hmac
from hashlib import sha256

SIGNATURE = sha256().digest_size
"""Bytes of a signature."""


class Signer:
    """Signs with HMAC-SHA256, under a key of its own for each use of `DURABLE_QUEUE_KEY`.

    What is signed is signed together with its place, so that it counts nowhere else.
    """

    def __init__(self, key: str, use: str) -> None:
        """`use` says what is signed and whose it is: `queue` and its name, or `responses` and the store's prefix."""
        self._key = hmac.digest(key.encode(), b"scrapy_durable " + use.encode(), "sha256")
        self.mark = hmac.digest(self._key, b"mark", "sha256").hex()[:8]
        """Tells one key from another, and the key to nobody."""

    def sign(self, document: bytes, *place: str) -> bytes:
        """The signature of the document in that place."""
        bound = "".join([f"{len(part)}:{part}" for part in place])
        return hmac.digest(self._key, f"{len(place)}:{bound}".encode() + document, "sha256")

    def is_signed(self, document: bytes, signature: bytes, *place: str) -> bool:
        """Whether `sign` has made that signature, with this key, for this place."""
        return hmac.compare_digest(signature, self.sign(document, *place))
