"""Requests that the frontier has already, told as Scrapy's users expect it: by a stat and a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch.dispatcher import getAllReceivers
from scrapy import signals

from scrapy_durable.participants import Participant

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import Inbox, Key, Outbox


class Duplicates(Participant):
    """Counts the requests of this process that the frontier has refused, or that stand twice in one outbox, and sends
    Scrapy's `request_dropped` for each.

    The answer comes after the engine has let go of a request, which is kept until then where anybody listens to the
    signal.
    One that waits in the frontier since an earlier exchange is not refused, so a duplicate of it is not counted.

    Stat: `dupefilter/filtered`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._queued: list[tuple[Key, Request | None]] = []
        self._sent: list[tuple[Key, Request | None]] = []

    def queued(self, key: Key, request: Request) -> None:
        """The request has gone into the outbox under this key."""
        listened = any(getAllReceivers(self._crawler.signals.sender, signals.request_dropped))
        self._queued.append((key, request if listened else None))

    def say(self, outbox: Outbox) -> None:
        """All that was queued so far is in this outbox."""
        self._sent, self._queued = self._queued, []

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """Count the duplicates among them."""
        known = set(inbox.refused)
        for key, request in self._sent:
            if key in known:
                self._drop(request)
            known.add(key)
        self._sent = []

    def _drop(self, request: Request | None) -> None:
        self._crawler.stats.inc_value("dupefilter/filtered")
        if request is not None:
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=request, spider=self._crawler.spider
            )
