"""Warnings about what may happen a thousand times a second, written at most once a minute of each kind."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

INTERVAL = 60.0
"""Seconds between two lines of one kind."""


class RareLog:
    """Writes the first warning of a kind at once, then one line a minute that counts those in between."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._next: dict[str, float] = {}
        self._held_back: dict[str, int] = {}

    def warning(self, kind: str, detail: object) -> None:
        """`kind` is the fixed part of the message and what the limit is counted by."""
        now = self._clock()
        if now < self._next.get(kind, now):
            self._held_back[kind] = self._held_back.get(kind, 0) + 1
            return
        self._next[kind] = now + INTERVAL
        self._logger.warning(
            "%s (%s; %d more since the last line)", kind, detail, self._held_back.pop(kind, 0)
        )
