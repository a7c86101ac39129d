"""What is kept in memory: a cache bounded by what its entries weigh, and JSON with nothing reserved behind it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def compact(json: bytes) -> bytes:
    """The same bytes in memory of their own: what `orjson` returns has up to four times as much reserved behind it."""
    return bytes(memoryview(json))


class WeighedCache(Generic[_K, _V]):
    """Keeps what was used last, up to a weight of `most` in all. Whoever puts something in says what it weighs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._kept: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def __len__(self) -> int:
        """How many entries are kept."""
        return len(self._kept)

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()
        self._weight = 0

    def get(self, key: _K) -> _V | None:
        """What was put under the key; None when it is not kept."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: _K, value: _V, weight: int) -> None:
        """Keep a value, in place of what was under the key, and of those that were used longest ago. One that is
        heavier than all may be together is not kept.
        """
        replaced = self._kept.pop(key, None)
        if replaced is not None:
            self._weight -= replaced[1]
        if weight > self._most:
            return
        self._kept[key] = value, weight
        self._weight += weight
        while self._weight > self._most:
            self._weight -= self._kept.popitem(last=False)[1][1]
