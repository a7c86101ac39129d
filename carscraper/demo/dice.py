"""Draws that depend on nothing but their name: the same on every machine, in every process and every run."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

_ENOUGH = 1 << 64


class Dice:
    """A stream of draws named by its arguments, as in `Dice(seed, "listing", 17)`.

    The name is hashed to a number of 512 bits, which the draws use up digit by digit; it is hashed again
    before it runs out. `random.Random` is not used because seeding one costs more than all the draws for a
    listing.
    """

    __slots__ = ("_left", "_name", "_refills")

    def __init__(self, *name: object) -> None:
        self._name = "/".join(map(str, name))
        self._refills = 0
        self._left = int.from_bytes(blake2b(self._name.encode()).digest(), "big")

    def _refill(self) -> None:
        self._refills += 1
        self._left = int.from_bytes(blake2b(f"{self._refills}/{self._name}".encode()).digest(), "big")

    def below(self, bound: int) -> int:
        """A number from 0 up to, not including, `bound` (which is at most 2**32)."""
        if self._left < _ENOUGH:
            self._refill()
        self._left, drawn = divmod(self._left, bound)
        return drawn

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def fraction(self) -> float:
        """A number from 0.0 up to, not including, 1.0."""
        return self.below(1 << 32) / (1 << 32)

    def one_in(self, n: int) -> bool:
        """True once in `n` draws, on average."""
        return self.below(n) == 0

    def choice(self, among: Sequence[T]) -> T:
        """One of `among`, all equally likely."""
        if self._left < _ENOUGH:
            self._refill()
        self._left, drawn = divmod(self._left, len(among))
        return among[drawn]
