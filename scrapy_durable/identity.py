"""Which crawl this process is part of, under which name it works, and what time it is there."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy_durable import engine

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_CRAWL_ID = re.compile(r"2[0-9]{3}[01][0-9][0-3][0-9]T[0-2][0-9][0-5][0-9][0-6][0-9]Z-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class CrawlIdentity:
    """The crawl and the worker, as they appear in names of files and in the frontier."""

    crawl_id: str
    worker: str
    resumable: bool
    """True when the crawl outlives this process: its frontier is in a file or in Redis."""


class CrawlClock:
    """Seconds since the epoch, as all workers of a crawl have them: by the frontier's clock, whatever this machine's
    says. It never goes back.

    Between two exchanges it is counted on. What the frontier tells has been under way for a moment, so the latest
    time is the one that is nearest; what comes late is an earlier one, and changes nothing.
    """

    def __init__(self, now: float | None = None, *, elapsed: Callable[[], float] = time.monotonic) -> None:
        """`now` is this machine's time unless it is given; `elapsed` seconds since whenever."""
        self._elapsed = elapsed
        self._zero = (time.time() if now is None else now) - elapsed()

    def begin(self, now: float) -> None:
        """The crawl has been joined, at that time."""
        self._zero = now - self._elapsed()

    def hear(self, now: float) -> None:
        """The frontier has told the time."""
        self._zero = max(self._zero, now - self._elapsed())

    def __call__(self) -> float:
        """The time now."""
        return self._zero + self._elapsed()


def new_crawl_id(now: float) -> str:
    """A fresh identifier that sorts by time: `20261120T101500Z-3f9a1c`; `now` is by the frontier's clock."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{secrets.token_hex(3)}"


def is_crawl_id(text: str) -> bool:
    """Whether it is one of `new_crawl_id`: it becomes part of names of files, and others may have written it."""
    if not _CRAWL_ID.fullmatch(text):
        return False
    try:
        begin_time(text)
    except ValueError:
        return False
    return True


def begin_time(crawl_id: str) -> str:
    """When the crawl began, by the frontier's clock: `2026-11-20T10:15:00Z`."""
    began = time.strptime(crawl_id.partition("-")[0], "%Y%m%dT%H%M%SZ")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", began)


def new_worker_name() -> str:
    """A name that no other process has: host, process id, and six random hex digits."""
    return f"{_host()}-{os.getpid()}-{secrets.token_hex(3)}"


def new_log_name() -> str:
    """A name that no other worker's item log has: host, and six random hex digits."""
    return f"{_host()}-{secrets.token_hex(3)}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:32] or "host"


def crawl_identity(crawler: Crawler) -> CrawlIdentity:
    """The identity that the scheduler has joined; one of its own under a scheduler that knows of none.

    Callable once the scheduler is open, so from `open_spider` of a pipeline on.
    """
    identity = getattr(engine.scheduler_of(crawler), "identity", None)
    if isinstance(identity, CrawlIdentity):
        return identity
    return CrawlIdentity(new_crawl_id(crawl_clock(crawler)()), new_worker_name(), resumable=False)


_clocks: WeakKeyDictionary[Crawler, CrawlClock] = WeakKeyDictionary()


def crawl_clock(crawler: Crawler) -> CrawlClock:
    """The one clock of the crawl, which the scheduler keeps; before it has joined one, and under a scheduler that
    knows of no frontier, it is this machine's.
    """
    if crawler not in _clocks:
        _clocks[crawler] = CrawlClock()
    return _clocks[crawler]
