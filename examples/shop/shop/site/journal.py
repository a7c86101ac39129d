"""What was asked, and the gate that says how much of it is answered: the site decides when a crawl stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

POLL = 0.02
"""Seconds between two looks whether a client that waits is still there."""


@dataclass
class Entry:
    """One request, without those for robots.txt.

    `host` is its address's number, from 0. `target` is the raw `path?query`. `status` is None until it is answered.
    `gone` says that the client went away before.
    """

    host: int
    method: str
    target: str
    body: str
    agent: str
    status: int | None = None
    gone: bool = False


class ClientGone(Exception):
    """Raised when the client of a request has closed its connection before it was answered."""


class Journal:
    """All requests since the last reset, in order. Requests wait while the gate is closed."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._changed = threading.Condition()
        self._left: int | None = None

    def reset(self) -> None:
        """Forget all requests, and open the gate."""
        with self._changed:
            self.entries = []
        self.let_pass(None)

    def let_pass(self, answers: int | None) -> None:
        """Answer so many more requests, and hold the others back; None opens the gate."""
        with self._changed:
            self._left = answers
            self._changed.notify_all()

    def begin(self, entry: Entry) -> None:
        """Note a request."""
        with self._changed:
            self.entries.append(entry)

    def wait(self, entry: Entry, is_gone: Callable[[], bool]) -> None:
        """Return when the request may be answered. Raises `ClientGone`, whatever the gate says by then."""
        with self._changed:
            while not is_gone():
                if self._left != 0:
                    break
                self._changed.wait(POLL)
            else:
                entry.gone = True
                raise ClientGone
            if self._left is not None:
                self._left -= 1
            entry.status = 0  # it will be answered; which status, is known in a moment

    def counts(self) -> dict[str, int | None]:
        """`answered`, `held` and `gone` requests, and how many answers are `left`: None when the gate is open."""
        with self._changed:
            return {
                "answered": sum(entry.status is not None for entry in self.entries),
                "held": sum(entry.status is None and not entry.gone for entry in self.entries),
                "gone": sum(entry.gone for entry in self.entries),
                "left": self._left,
            }
