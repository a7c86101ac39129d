"""What an operator may do to a crawl beside its workers: a part of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scrapy_durable.frontier.contract import Entry, Key, Pause
    from scrapy_durable.frontier.views import Element, Listing


class Operable(Protocol):
    """A frontier that somebody works on who is no worker of the crawl, and is not listed as one."""

    async def find(self, key: Key) -> Element | None:
        """The request of that key; None when it was never pushed, or was dropped, or there is no crawl."""

    async def listing(self, state: str, limit: int, slot: str = "", callback: str = "") -> Listing:
        """Up to `limit` requests that are `queued`, `delayed`, `leased` or `dead`, of that slot and callback ("": of
        all). Queued ones by slot and in the order of their leasing, of one slot alone where it is named; without those
        whose time has come unseen. Delayed by time, leased and dead the oldest first. Works without `begin`.
        """

    async def push(self, entries: list[Entry]) -> list[Key]:
        """Add requests beside the workers, as their `Outbox.entries`; returns those that were refused. Works without
        `begin`; raises `FrontierLost` when there is no crawl, as do `pause` and `resume`.
        """

    async def pause(self, slot: str, pause: Pause) -> None:
        """Lease nothing of a slot to any worker, as by `Outbox.pauses`. What workers hold already is asked all the
        same. Works without `begin`.
        """

    async def resume(self, slot: str, reason: str) -> bool:
        """End the pause of a slot at once, if that is its reason; False when it is not, or there is none. Works without
        `begin`.
        """
