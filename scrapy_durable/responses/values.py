"""An answer as one value in Redis: packed, signed where there is a key, and read only as far as it can be an answer."""

from __future__ import annotations

import struct

from scrapy_durable.responses.contract import MOST_DERIVED, StoredResponse
from scrapy_durable.responses.packing import DamagedError, Packer, largest_frame
from scrapy_durable.signatures import SIGNATURE, Signer

_HEADER = struct.Struct(">BHdI")
HEADER = _HEADER.size
"""Bytes at the beginning of a value, by which `lua/claim.lua` tells when the answer was fetched."""
_LENGTH = 4
"""Bytes of the length of what is derived from an answer."""
_PLAIN, _SIGNED, _DERIVED = 1, 2, 3
_FORMS = (_PLAIN, _SIGNED, _DERIVED)
_LONGEST_URL = 8192
_FIRST_TIME = 1_577_836_800.0
"""Seconds since the epoch: nothing was fetched before 2020."""
_LATEST = 3600.0
"""Seconds that a time may be ahead of this worker's: the clocks of two machines differ."""


class NotSignedError(DamagedError):
    """Raised when a value is not signed with the key of this store, for its place in it."""


class Values:
    """Makes values of answers, and answers of values.

    A value is: format (1 byte), status (2), time fetched (8, a double), length of the URL (4); in format 2, a
    signature (32); the URL in UTF-8, and the body as one Zstandard frame. What is signed are all other bytes, the key
    of the answer, and the crawl that it belongs to. In format 3, which is signed too, what is derived from the answer
    stands before the URL, packed, behind its length (4). With a `signer` values are of formats 2 and 3, and no other is
    read. Without, all are read, but not what is derived: nobody looks into that, so anybody could put it.
    """

    def __init__(self, signer: Signer | None) -> None:
        self._signer = signer
        self._packer = Packer()

    def pack(self, response: StoredResponse, crawl_id: str | None) -> bytes:
        """The value of an answer, which belongs to that crawl if there is one."""
        address = response.url.encode()
        derived = response.derived if self._signer and len(response.derived) <= MOST_DERIVED else b""
        packed = self._packer.pack_any(derived)
        form = _DERIVED if derived else _SIGNED if self._signer else _PLAIN
        header = _HEADER.pack(form, response.status, response.fetched_at, len(address))
        beside = len(packed).to_bytes(_LENGTH, "big") + packed if derived else b""
        rest = beside + address + self._packer.pack(response.body)
        if self._signer is None:
            return header + rest
        return header + self._signer.sign(header + rest, *_place(response.key, crawl_id)) + rest

    def unpack(
        self, key: str, crawl_id: str | None, value: bytes | int, most: int, now: float
    ) -> StoredResponse:
        """The answer under that key, with a body of `most` bytes at most; a value that is a number stands for one of
        that many bytes, which was not read.

        Raises `NotSignedError`, and `DamagedError` for what no worker can have put until `now`: others may write to
        the server too.
        """
        if isinstance(value, int):
            raise DamagedError(f"it has {value} bytes, and {largest_value(most)} are stored at most")
        try:
            form, status, fetched_at, length = _HEADER.unpack_from(value)
        except struct.error as error:
            raise DamagedError(str(error)) from error
        start = HEADER + (0 if form == _PLAIN else SIGNATURE)
        if self._signer is not None:
            signed, signature = value[:HEADER] + value[start:], value[HEADER:start]
            if form == _PLAIN or not self._signer.is_signed(signed, signature, *_place(key, crawl_id)):
                raise NotSignedError("whoever has put it did not have the key, or put it elsewhere")
        derived = b""
        if form == _DERIVED:
            size = int.from_bytes(value[start : start + _LENGTH], "big")
            start += _LENGTH + size
            if self._signer:
                derived = self._packer.unpack_any(value[start - size : start], MOST_DERIVED)
        if form not in _FORMS or len(value) < start + length:
            raise DamagedError("an unknown format, or cut")
        try:
            url = value[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise DamagedError("not an address") from error
        body = self._packer.unpack(value[start + length :], most)
        return _checked(StoredResponse(key, status, url, fetched_at, body, derived), now)


def largest_value(body: int) -> int:
    """Bytes of the value of an answer whose body has that many, at most."""
    return largest_frame(body) + HEADER + SIGNATURE + _LENGTH + largest_frame(MOST_DERIVED) + _LONGEST_URL


def _place(key: str, crawl_id: str | None) -> tuple[str, ...]:
    return (key,) if crawl_id is None else (key, crawl_id)


def _checked(stored: StoredResponse, now: float) -> StoredResponse:
    if not _FIRST_TIME <= stored.fetched_at <= now + _LATEST:
        raise DamagedError(f"fetched at {stored.fetched_at!r}, which has not come yet or is long past")
    if not 100 <= stored.status <= 599:
        raise DamagedError(f"status {stored.status}")
    if not stored.url.startswith(("http://", "https://")) or not stored.url.isprintable():
        raise DamagedError("not an address")
    return stored
