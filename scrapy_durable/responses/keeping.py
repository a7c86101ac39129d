"""Answers on their way into the response store, while their callbacks read them."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from scrapy_durable.responses.contract import StoredResponse

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""Answers that may be on their way: those behind wait, as a store that does not answer takes its time for each."""
_REMEMBERED = 4 * 1024**2
"""Bytes of bodies that are remembered."""


class Keeping:
    """A `DurableStore`: a request is acknowledged once the store has been given what came before it had finished."""

    def __init__(self) -> None:
        self.received = 0
        self._under_way: dict[int, asyncio.Task[None]] = {}

    @property
    def durable(self) -> int:
        """All answers up to this number are stored, or lost."""
        return next(iter(self._under_way), self.received + 1) - 1

    async def begin(self, putting: Coroutine[Any, Any, None]) -> None:
        """Have an answer put beside other work; waits while there are too many."""
        while len(self._under_way) >= AT_ONCE:
            await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
        self.received += 1
        number = self.received
        self._under_way[number] = task = asyncio.create_task(putting)
        task.add_done_callback(lambda _: self._end(number))

    def _end(self, number: int) -> None:
        task = self._under_way.pop(number)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("An answer was lost on its way into the response store: %s", error, exc_info=error)

    async def flush(self) -> None:
        """Wait for those that are under way."""
        if self._under_way:
            await asyncio.wait(self._under_way.values())


class LastAnswers:
    """The last shared answers that came here, up to a weight, so that nobody here asks a store for them."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, StoredResponse] = OrderedDict()
        self._bytes = 0

    def get(self, key: str, since: float) -> StoredResponse | None:
        """The one under that key, when it was fetched later than that."""
        found = self._answers.get(key)
        return found if found is not None and found.fetched_at > since else None

    def add(self, answer: StoredResponse) -> None:
        """Remember it in the place of an earlier one."""
        self._drop(self._answers.pop(answer.key, None))
        self._answers[answer.key] = answer
        self._bytes += len(answer.body)
        while self._bytes > _REMEMBERED:
            self._drop(self._answers.popitem(last=False)[1])

    def _drop(self, answer: StoredResponse | None) -> None:
        self._bytes -= len(answer.body) if answer is not None else 0
