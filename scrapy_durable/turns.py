"""Requests that the engine starts together, and that do not go in step."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request


_IN_STEP = 4
"""Requests in one turn of the event loop. Fewer would gain little more, and each turn takes some time."""


class TurnsMiddleware:
    """Lets some requests pass in each turn of the event loop, in the order in which they come.

    Left alone, those that were started together go through Scrapy in step: each part of the way is gone by all of them
    before any goes the next. So the first is sent when the last is ready, their places at the site are empty for as
    long as all of them take, and their answers come together again.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._passed = 0
        """How many have, in this turn."""

    async def process_request(self, request: Request) -> None:
        """Return when it is this one's turn."""
        if self._passed < _IN_STEP:
            self._count_one()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _count_one(self) -> None:
        if not self._passed:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._passed += 1

    def _begin_turn(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < _IN_STEP:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                self._count_one()
