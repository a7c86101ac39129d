"""Of items that repeat each other in the logs of several workers, the first: who asks the frontier first has it.

Each worker asks about the items that count in its own log, in the order of that log, before its feeds read them, and
never again: what it was told is in `firsts.sqlite`. A worker that is killed before that is on disk asks again, and is
told the same, since its log has the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from scrapy_durable.feeds.firsts import ELSEWHERE, Firsts, Place
from scrapy_durable.feeds.reading import Accepted, Log, Position

Claim = Callable[[Sequence[str]], Awaitable[Sequence[bool]]]
"""Has items of these keys be this worker's, unless they are another's: which are. See `Frontier.claim_items`."""

_MOST = 1000
"""Items that are asked about at once."""


class SharedFirsts:
    """How far it is known which items of a log are the first of their keys, among those of all workers."""

    def __init__(
        self, log: Log, firsts: Firsts, key_of: Callable[[Any], str | None], claim: Claim, after: Position
    ) -> None:
        """Nobody reads what is before `after` any more."""
        self.upto = after
        self._log = log
        self._firsts = firsts
        self._key_of = key_of
        self._claim = claim

    async def decide(self) -> None:
        """Ask about all that is new. Raises what the log and the frontier raise; it is asked again then."""
        while accepted := self._log.read(self.upto, _MOST):
            asked = self._unknown(accepted)
            claimed = await self._claim(list(asked)) if asked else ()
            for (key, place), is_ours in zip(asked.items(), claimed, strict=True):
                self._firsts.add(key, place if is_ours else ELSEWHERE)
            self.upto = accepted[-1].position
            await asyncio.sleep(0)

    def _unknown(self, accepted: Sequence[Accepted]) -> dict[str, Place]:
        """Keys that nobody was asked about, with the place of their first item here."""
        found: dict[str, Place] = {}
        for lease in accepted:
            for item, number in zip(lease.items, lease.numbers, strict=True):
                key = self._key_of(item)
                if key is not None and key not in found and self._firsts.find(key) is None:
                    found[key] = (*lease.lease, number)
        return found
