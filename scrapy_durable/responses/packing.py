"""Bodies made small for storing, and read back with their checksum verified."""

from __future__ import annotations

import zstandard

MAX_BODY = 64 * 1024 * 1024
"""Bytes. What a store takes at most when it is told no closer limit: a larger body is not stored, and a stored one that
claims to be larger is damaged.
"""

_LEVEL = 3
_SMALL = 128
"""Bytes that are not worth compressing."""
_AS_IT_IS, _COMPRESSED = b"\0", b"\1"


class DamagedError(ValueError):
    """Raised when stored bytes cannot be what was stored; callers treat the entry as absent."""


class Packer:
    """Compresses with Zstandard, reusing its working memory: not for several threads at once."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._decompressor = zstandard.ZstdDecompressor()

    def pack(self, body: bytes) -> bytes:
        """One frame with its length and checksum."""
        return self._compressor.compress(body)

    def unpack(self, frame: bytes, most: int = MAX_BODY) -> bytes:
        """What was packed. Raises `DamagedError`, also for more than `most` bytes, before they take up memory."""
        try:
            length = zstandard.frame_content_size(frame)
            if not 0 <= length <= most:
                raise DamagedError(f"it says to have {length} bytes, and {most} are stored at most")
            return self._decompressor.decompress(frame, read_across_frames=False, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise DamagedError(str(error)) from error

    def pack_any(self, data: bytes) -> bytes:
        """Compressed only where that is worth it; without a checksum where it is not."""
        return _AS_IT_IS + data if len(data) <= _SMALL else _COMPRESSED + self.pack(data)

    def unpack_any(self, packed: bytes, most: int) -> bytes:
        """What `pack_any` was given. Raises `DamagedError`, as `unpack` does."""
        if packed[:1] == _COMPRESSED:
            return self.unpack(packed[1:], most)
        if packed[:1] != _AS_IT_IS or len(packed) > 1 + _SMALL:
            raise DamagedError("neither compressed nor small")
        return packed[1:]


def largest_frame(body: int) -> int:
    """Bytes that a body of that many can be packed into at most."""
    return body + body // 128 + 1024  # what cannot be made smaller grows by less than a hundredth
