"""What the frontier is told of a request that is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.contract import Entry

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_durable.keys import Keys
    from scrapy_durable.serializing import Serializer
    from scrapy_durable.throttle.sites import Sites


class Entries:
    """Makes entries of requests."""

    def __init__(self, keys: Keys, sites: Sites, serializer: Serializer, *, declared: bool) -> None:
        """`declared`: the spider declares what it queues."""
        self._keys = keys
        self._sites = sites
        self._serializer = serializer
        self._declared = declared

    def made_of(self, request: Request) -> Entry:
        """The entry of a request. Raises `CodecError` for one that cannot be queued."""
        key = self._keys.of(request)
        slot = self._sites.slot(request)
        entry = Entry(
            key=key,
            slot=slot,
            callback=getattr(request.callback, "__name__", "parse"),
            payload=self._serializer.payload(request, key),
            priority=request.priority,
            delay=self._delay(request),
        )
        self._sites.enqueued(slot)
        return entry

    def _delay(self, request: Request) -> float:
        """Seconds, of `meta["delay"]`; to a spider that declares nothing, a value of this name may mean something
        else.
        """
        delay = request.meta.get("delay", 0)
        if isinstance(delay, int | float) and not isinstance(delay, bool) and 0 <= delay < 1e9:
            return float(delay)
        if self._declared:
            raise CodecError(f"meta['delay'] must be seconds from now, not {delay!r}")
        return 0.0
