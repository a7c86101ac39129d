"""What workers leave each other for the end of their crawl; a part of the frontier's contract."""

from __future__ import annotations

from typing import Protocol

MOST_BYTES = 8 << 20
"""Of one part."""


class Parts(Protocol):
    """Parts of what a verdict is reached from, by name, for workers that see nothing else of each other."""

    async def leave_part(self, name: str, part: bytes) -> None:
        """Leave it, in place of what was left under that name, until `forget`. Raises ValueError for one that has more
        than `MOST_BYTES`.
        """

    async def part(self, name: str) -> bytes | None:
        """What was left under that name by whichever worker of the crawl that this one has joined, or None. Raises
        `FrontierDamaged` for what none of them has left, as far as that can be told.
        """


def checked_part(part: bytes) -> bytes:
    """The part. Raises ValueError for one that is too large."""
    if len(part) > MOST_BYTES:
        raise ValueError(f"a part has at most {MOST_BYTES} bytes, not {len(part)}")
    return part
