"""How fast a crawl is, from what several looks at it have counted; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from scrapy_durable.crawl_numbers import ANSWERS, BYTES, FAILED, ITEMS, LATENCY_MS
from scrapy_durable.frontier.contract import Status

WINDOW = 60.0
"""Seconds that rates are of, at most."""
RECENT = 3.0
"""Seconds of the recent ones, at least: as long as somebody may wait until a site that has become slow is seen."""
_DONE = "done"
_Look = tuple[float, dict[str, int]]
"""When it was, in seconds since the epoch, and what had been counted by then."""
_COUNTED = (ANSWERS, LATENCY_MS, FAILED, BYTES, ITEMS)


@dataclass(frozen=True, slots=True)
class Rates:
    """Of all workers together, each a second."""

    over: float
    """Seconds between the first look and the last that they are made of."""
    answers: float
    failed: float
    """Downloads that brought nothing, or a status from 400 on."""
    items: float
    done: float
    """Requests acknowledged."""
    bytes: float
    latency: float | None
    """Seconds that an answer took, on average; None when there was none."""


class Window:
    """Takes looks as they come, and tells the rates of the last minute.

    A worker that was not there at the look before has begun since; one that is gone has counted what it had.
    """

    def __init__(self) -> None:
        self._crawl: str | None = None
        self._last: Mapping[str, Mapping[str, int]] = {}
        self._done = 0
        self._sums: dict[str, int] = {}
        self._looks: deque[_Look] = deque()

    def add(self, status: Status) -> None:
        """A look that came after the others. Those at another crawl are forgotten, and all when none is there."""
        if status.crawl_id is None:
            self._crawl, self._last = None, {}
            self._looks.clear()
            return
        reports = {worker.worker: worker.report for worker in status.workers}
        if status.crawl_id != self._crawl or not self._looks:
            self._crawl = status.crawl_id
            self._looks.clear()
            self._sums = dict.fromkeys((*_COUNTED, _DONE), 0)
        else:
            for worker, report in reports.items():
                before = self._last.get(worker, {})
                for name in _COUNTED:
                    self._sums[name] += max(0, report.get(name, 0) - before.get(name, 0))
            self._sums[_DONE] += max(0, status.total.done - self._done)
        self._last, self._done = reports, status.total.done
        self._looks.append((status.now, dict(self._sums)))
        while len(self._looks) > 2 and self._looks[1][0] <= status.now - WINDOW:
            self._looks.popleft()

    @property
    def rates(self) -> Rates | None:
        """None before two looks at different times."""
        return _between(self._looks[0], self._looks[-1]) if self._looks else None

    @property
    def recent(self) -> Rates | None:
        """Those of the last seconds alone; None while there are no others."""
        return _between(self._middle, self._looks[-1]) if self._middle is not None else None

    @property
    def before(self) -> Rates | None:
        """Those of the last minute without the recent ones, likewise."""
        return _between(self._looks[0], self._middle) if self._middle is not None else None

    @property
    def _middle(self) -> _Look | None:
        """The look that the recent rates begin with."""
        if not self._looks:
            return None
        until = self._looks[-1][0] - RECENT
        return next((look for look in reversed(self._looks) if look[0] <= until), None)


def _between(first: _Look, last: _Look) -> Rates | None:
    seconds = last[0] - first[0]
    if seconds <= 0:
        return None
    grown = {name: last[1][name] - first[1][name] for name in last[1]}
    answers = grown[ANSWERS]
    return Rates(
        over=seconds,
        answers=answers / seconds,
        failed=grown[FAILED] / seconds,
        items=grown[ITEMS] / seconds,
        done=grown[_DONE] / seconds,
        bytes=grown[BYTES] / seconds,
        latency=grown[LATENCY_MS] / answers / 1000 if answers else None,
    )
