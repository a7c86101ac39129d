"""Requests as the frontier has them: serialized, or in the memory of a worker when they cannot be.

Such a request stays the object that it is, and in the frontier a marker stands for it: it waits, is leased, tried again
and acknowledged like any other. The marker outlives the worker: whoever is given it then makes a dead letter of it, so
that the crawl knows what it has lost. While its worker lives, another one that is given it puts it back for a moment.

Where the frontier does not outlive the process either, every request stays the object that it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy_durable.exceptions import CodecError, KeptElsewhere
from scrapy_durable.frontier import codec
from scrapy_durable.frontier.contract import Entry
from scrapy_durable.participants import Participant

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.statscollectors import StatsCollector

    from scrapy_durable.frontier.contract import Inbox, Key, Lease, Outbox

logger = logging.getLogger(__name__)

LOST = "could not be serialized, and was lost with its worker"
"""The reason of a dead letter of which nobody has the request any more."""
_PUT_BACK = 0.5
"""Seconds for which one that another worker has is put back; about what it takes an idle one to ask."""
_LAST = -(2**31)
"""The lowest priority: an entry that is queued already keeps its own, which is no worse."""


class Serializer(Participant):
    """What this worker has written into the frontier, and has in its memory.

    Stat: `frontier/unserializable`.
    """

    def __init__(self, worker: str, stats: StatsCollector, *, resumable: bool) -> None:
        """`resumable`: the frontier outlives the process."""
        self._worker = worker
        self._stats = stats
        self._resumable = resumable
        self._kept: dict[Key, Request] = {}
        self._unsaid: set[Key] = set()
        """Of those kept, the ones that the frontier has not answered for yet."""
        self._leased: WeakSet[Request] = WeakSet()
        self._put_back: list[Lease] = []
        self._returned: list[Lease] = []
        self._delayed: list[Entry] = []

    def begin(self, spider: Spider) -> None:
        """The crawl of this spider has begun."""
        self._spider = spider
        self._is_declared = codec.is_declared(spider)

    def payload(self, request: Request, key: Key) -> bytes:
        """The request for the frontier. Raises `CodecError` for one that cannot be serialized when the spider declares
        what it queues.
        """
        if not self._resumable and not self._is_declared:
            return self._keep(request, key)
        try:
            return codec.encode(request, self._spider)
        except CodecError as error:
            if not self._stats.get_value("frontier/unserializable") and not self._is_declared:
                logger.warning(
                    "%s cannot be serialized (%s): it stays in the memory of this process, and a kill loses it; "
                    "give it a method of the spider as its callback, and values that can be carried. "
                    "More such requests are counted, and not named",
                    request,
                    error,
                )
            self._stats.inc_value("frontier/unserializable")
            if self._is_declared:
                raise
            return self._keep(request, key)

    def read(self, lease: Lease) -> Request:
        """The request of a lease. Raises `KeptElsewhere` for one that this process does not have, and `CodecError`."""
        keeper = codec.keeper(lease.payload)
        if keeper is None or self._is_declared:
            return codec.decode(lease.payload, self._spider, own=not self._resumable)
        request = self._kept.get(lease.key)
        if request is None:
            raise KeptElsewhere(keeper)
        if request in self._leased:  # tried again, or the same object was queued twice
            request = codec.fresh_copy(request)
        self._leased.add(request)
        return request

    def _keep(self, request: Request, key: Key) -> bytes:
        if key not in self._kept:  # else it is there, as in the frontier
            self._kept[key] = request
            self._unsaid.add(key)
        return codec.marker(request, self._worker)

    @property
    def lost_at_the_end(self) -> int:
        """How many requests there would be dead letters of, if the process ended now."""
        return len(self._kept) if self._resumable else 0

    # What becomes of them in an exchange

    def put_back(self, lease: Lease) -> None:
        """Another worker has this one."""
        self._put_back.append(lease)

    def say(self, outbox: Outbox) -> None:
        """What is put back and, once that is known, for how long it waits."""
        outbox.entries += self._delayed
        self._delayed = []
        self._returned += self._put_back
        outbox.releases += [lease.held for lease in self._put_back]
        outbox.unsent += [lease.held for lease in self._put_back]
        self._put_back = []

    @property
    def puts_back(self) -> bool:
        """True when something is put back: no lease may come with the answer, or it would be the same."""
        return bool(self._put_back or self._returned)

    @property
    def is_urgent(self) -> bool:
        """True when something is put back, or is to wait now that it is."""
        return self.puts_back or bool(self._delayed)

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """Forget what is done."""
        if self._unsaid:
            for key in self._unsaid.intersection(inbox.refused):
                self._kept.pop(key, None)
            self._unsaid.difference_update(entry.key for entry in outbox.entries)
        if self._kept:
            for held in (*outbox.acks, *(message.held for message in outbox.dead_lettered)):
                self._kept.pop(held.key, None)
            for key in inbox.dead_lettered:
                self._kept.pop(key, None)
        self._delayed += [
            Entry(lease.key, lease.slot, "", lease.payload, _LAST, _PUT_BACK) for lease in self._returned
        ]
        self._returned = []
