"""Time as a process itself had it: a machine that stops all of it, or gives it no core, stops its clock too."""

from __future__ import annotations

import asyncio
import threading
import time

_TICK = 0.01
_LONGEST_TICK = 0.1
"""Seconds that one tick may count for: a thread that slept for longer was kept from waking up."""


class OwnClock:
    """Seconds since it was made, counted by a thread of this process until `close`.

    What keeps one thread waiting, such as a socket that does not answer, leaves the clock running.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def __call__(self) -> float:
        return self._seconds

    def _count(self) -> None:
        before = time.monotonic()
        while not self._closed.wait(_TICK):
            now = time.monotonic()
            self._seconds += min(now - before, _LONGEST_TICK)
            before = now

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


async def lag(clock: OwnClock) -> float:
    """By how many seconds the event loop is late now, with a timer of a tick."""
    before = clock()
    await asyncio.sleep(_TICK)
    return clock() - before - _TICK
