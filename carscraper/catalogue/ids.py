"""Ids of a whole catalogue in little memory: a million as a set of strings take 90 MB, packed they take 9.

Where it matters which of them are the same, they are numbered, and what is known of each is an array.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

_IN_A_TEXT = 10_000
"""Ids that become strings at once while all are gone through."""
_AT_ONCE = 1 << 17
"""Different ids, about, that are in a dictionary at once while all are numbered: 17 MB."""


class PackedIds(Collection[str]):
    """Ids one behind the other; none has a space in it. To ask whether one is there is to look through all."""

    __slots__ = ("_count", "_texts")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._count = 0
        rest = iter(ids)
        while some := list(islice(rest, _IN_A_TEXT)):
            self.extend(some)

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Self:
        """Those of which each text has one or more, with spaces between."""
        packed = cls()
        packed._texts = list(texts)
        packed._count = sum(text.count(" ") + 1 for text in packed._texts)
        return packed

    @property
    def texts(self) -> list[str]:
        """What `from_texts` makes the same of."""
        return self._texts

    def extend(self, ids: Sequence[str]) -> None:
        """Add some, as many as may be in memory at once."""
        if ids:
            self._texts.append(" ".join(ids))
            self._count += len(ids)

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def __iter__(self) -> Iterator[str]:
        """In their order."""
        return chain.from_iterable(text.split(" ") for text in self._texts)

    def __contains__(self, listing: object) -> bool:
        """Whether it is one of them."""
        return any(listing == other for other in self)


def numbered(groups: Sequence[Collection[str]]) -> tuple[list[array[int]], int]:
    """For each group the number of each of its ids, the same for the same id wherever it is, and how many different
    ones there are, which have the numbers from 0 on.

    Part of them by part, so that no dictionary holds all: the groups are gone through as often as there are parts.
    """
    numbers = [array("I", bytes(4 * len(group))) for group in groups]
    parts = sum(map(len, groups)) // _AT_ONCE + 1
    count = 0
    for part in range(parts):
        known: dict[str, int] = {}
        for group, own in zip(groups, numbers, strict=True):
            for at, listing in enumerate(group):
                if hash(listing) % parts == part:
                    own[at] = known.setdefault(listing, count + len(known))
        count += len(known)
    return numbers, count


def lacking(named: Sequence[Collection[str]], kept: Collection[str]) -> set[str]:
    """Those named that were not kept."""
    numbers, count = numbered([kept, *named])
    is_kept = bytearray(count)
    for number in numbers[0]:
        is_kept[number] = 1
    return {
        listing
        for group, own in zip(named, numbers[1:], strict=True)
        for listing, number in zip(group, own, strict=True)
        if not is_kept[number]
    }


class Holders:
    """Which groups hold an id."""

    def __init__(self, groups: Sequence[Collection[str]]) -> None:
        self._numbers, count = numbered(groups)
        sizes = array("I", bytes(4 * (count + 1)))
        for own in self._numbers:
            for number in set(own):
                sizes[number + 1] += 1
        self._begins = array("I", accumulate(sizes))
        """Where in `_holders` those of each number begin, and where the last end."""
        self._holders = array("I", bytes(4 * self._begins[-1]))
        following = self._begins[:]
        for group, own in enumerate(self._numbers):
            for number in set(own):
                self._holders[following[number]] = group
                following[number] += 1

    def sharing(self, group: int) -> Iterator[int]:
        """The groups that hold ids of this one, itself among them, each as often as it has ids in common with it."""
        for number in set(self._numbers[group]):
            yield from self._holders[self._begins[number] : self._begins[number + 1]]
