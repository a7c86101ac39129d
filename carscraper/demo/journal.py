"""What was asked of the stand-in, and when: the witness for tests of rates, order and concurrency."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TextIO


@dataclass(slots=True)
class Entry:
    """One request.

    `started` and `ended` are seconds of the machine's monotonic clock, which all processes share;
    `started_at` and `ended_at` are the same moments in seconds since the epoch. `target` is the raw
    `path?query`. `concurrency` is how many requests were under way at its start, itself included. `fault`
    is the kind of fault that it met. `ended` is when the answer was handed to the operating system, or the
    client went away; None while it is under way. `status` is None when no answer was begun.
    """

    started: float
    started_at: float
    method: str
    target: str
    user_agent: str
    concurrency: int
    status: int | None = None
    fault: str | None = None
    ended: float | None = None
    ended_at: float | None = None


class Journal:
    """All requests in the order of their start, in memory; each that ends also goes to a file, as a line."""

    def __init__(self, lines: TextIO | None = None) -> None:
        self.entries: list[Entry] = []
        self._lines = lines
        self._under_way = 0

    def begin(self, method: str, target: str, user_agent: str) -> Entry:
        """Note a request that has just arrived."""
        self._under_way += 1
        entry = Entry(time.monotonic(), time.time(), method, target, user_agent, self._under_way)
        self.entries.append(entry)
        return entry

    def end(self, entry: Entry) -> None:
        """Note that a request is over, whatever came of it."""
        self._under_way -= 1
        entry.ended, entry.ended_at = time.monotonic(), time.time()
        if self._lines is not None:
            self._lines.write(json.dumps(asdict(entry)) + "\n")

    def reset(self) -> None:
        """Forget all entries; requests under way still count towards the concurrency of later ones."""
        self.entries = []
