"""How fast each site may be asked, as this worker knows it: caps, intervals, what was learned, pauses."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from scrapy_durable import engine
from scrapy_durable.frontier.build import slot_limits
from scrapy_durable.frontier.contract import Pause
from scrapy_durable.participants import Participant
from scrapy_durable.start import SLOT as START_SLOT
from scrapy_durable.throttle.pacing import build_pacing

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import Inbox, Outbox
    from scrapy_durable.leases import Leases
    from scrapy_durable.throttle.policy import Answer
    from scrapy_durable.timing import Timing


class Sites(Participant):
    """The pace itself is the frontier's, for all workers; here is what this worker tells it, and has heard of it.

    A site is named by its slot, as in Scrapy's downloader.
    """

    def __init__(self, crawler: Crawler, outbox: Outbox, leases: Leases, timing: Timing) -> None:
        """Raises `ConfigurationError` when a setting is refused."""
        self._crawler = crawler
        self._outbox = outbox
        self._leases = leases
        self._timing = timing
        self._pacing = build_pacing(crawler.settings)
        self._usual_limit, self._limits = slot_limits(crawler.settings)
        self.was_asked = False
        """True once a request has been answered or has failed."""

    def slot(self, request: Request) -> str:
        """The site of a request."""
        return engine.site_of(self._crawler, request)

    # What middlewares and extensions say and ask

    def pause(self, request: Request, seconds: float, reason: str) -> None:
        """Lease nothing more of the request's site, to any worker, for `seconds`; `reason` is for people."""
        slot, pauses = self.slot(request), self._outbox.pauses
        if slot not in pauses or pauses[slot].seconds < seconds:
            pauses[slot] = Pause(seconds, reason)
        self._leases.prefetched.release(slot)
        self._timing.wake()

    def note_answer(self, request: Request, answer: Answer) -> None:
        """Have the site's pace follow from this answer, for all workers, with the next exchange."""
        if self._pacing is not None:
            self._pacing.note(self.slot(request), answer, time.monotonic())

    def slow_to(self, request: Request, seconds: float) -> bool:
        """Have the request's site asked at most once in so many seconds, up to `AUTOTHROTTLE_MAX_DELAY`.

        False when AutoThrottle is off.
        """
        if self._pacing is not None:
            self._pacing.at_least(self.slot(request), seconds)
        return self._pacing is not None

    def interval(self, request: Request) -> float:
        """Seconds between two requests to the request's site, of all workers, as last heard; 0: none."""
        return self.interval_of(self.slot(request))

    # What the scheduler says and asks

    def interval_of(self, slot: str) -> float:
        """The same, of a slot."""
        learned = self._pacing.interval(slot) if self._pacing is not None else None
        return max(self._limits.get(slot, self._usual_limit).interval, learned or 0.0)

    def enqueued(self, slot: str) -> None:
        """A request for the site is queued; its pace begins with the start delay unless others know better."""
        if self._pacing is not None:
            self._pacing.enter(slot)

    def leased(self, slot: str) -> None:
        """Have the downloader keep the site's interval too: two leases that a busy worker finds at once, though
        they came one after the other, leave it one after the other.
        """
        engine.space_out(self._crawler, slot, self.interval_of(slot))

    def wait_for_the_first(self, slots: Iterable[str]) -> bool:
        """True when no further lease may come before one of `slots` was asked: what waits for its robots.txt loses the
        time that its lease was given.
        """
        return not self.was_asked and any(self.interval_of(slot) for slot in slots if slot != START_SLOT)

    # As a participant

    def say(self, outbox: Outbox) -> None:
        """The changes of pace that follow from the answers."""
        if self._pacing is not None:
            outbox.paces = self._pacing.changes()

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """The paces that hold now."""
        if self._pacing is not None:
            self._pacing.learned(outbox.paces, inbox.paces, time.monotonic())
