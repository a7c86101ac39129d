"""Dead letters as they are now, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_durable.frontier.reasons import kind_of

if TYPE_CHECKING:
    from scrapy_durable.frontier.contract import DeadLetter, Frontier

MOST = 5000
"""Letters that are read for a page; there are thousands only where something is wrong with all of them."""
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, and the kind that its reason is of."""

    letter: DeadLetter
    kind: str


@dataclass(frozen=True, slots=True)
class Letters:
    """The oldest dead letters."""

    letters: list[Letter]
    has_more: bool
    """More than `MOST` are there."""


async def read_letters(frontier: Frontier | None) -> Letters:
    """All of them, or `MOST`."""
    found: list[Letter] = []
    while frontier is not None and len(found) < MOST:
        batch = await frontier.dead_letters(_BATCH, len(found))
        found += [Letter(letter, kind_of(letter.reason)) for letter in batch]
        if len(batch) < _BATCH:
            return Letters(found, False)
    return Letters(found, bool(found))


def groups_of(letters: Sequence[Letter]) -> list[tuple[str, int]]:
    """Kinds of reasons and how many letters have them, the most frequent first."""
    counted = Counter(letter.kind for letter in letters)
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


async def replay_of_reason(frontier: Frontier, kind: str) -> int:
    """Queue again every letter whose reason is of that kind; returns how many. Letters that die meanwhile may be left
    out, as may some of those behind one that somebody else replays or drops meanwhile.
    """
    keys: list[int] = []
    read = 0
    while batch := await frontier.dead_letters(_BATCH, read):
        keys += [letter.key for letter in batch if kind_of(letter.reason) == kind]
        read += len(batch)
    return await frontier.retry_dead(keys)
