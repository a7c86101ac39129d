"""What an operator does beside the workers of a crawl on a Redis server: an exchange by nobody."""

from __future__ import annotations

from typing import Any

from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.frontier.contract import Entry, Inbox, Key, Outbox, Pause
from scrapy_durable.frontier.redis_layout import STATE_VERSION
from scrapy_durable.frontier.redis_logs import RedisLogs
from scrapy_durable.frontier.redis_messages import (
    pack_outbox,
    read_element,
    read_inbox,
    read_listing,
    reading,
)
from scrapy_durable.frontier.redis_scripts import Script, load_script
from scrapy_durable.frontier.redis_server import other_release
from scrapy_durable.frontier.views import WINDOW, Element, Listing

EXCHANGE = load_script("exchange")
RESUME = load_script("resume")
FIND = load_script("find")
LIST = load_script("list")


class RedisBeside(RedisLogs):
    """What `RedisFrontier` does without having joined; see the contract."""

    async def find(self, key: Key) -> Element | None:
        """The request of that key."""
        arguments: list[str | int | bytes] = [self._offset(), key.to_bytes(8, signed=True), str(key)]
        reply = await self._keys.run(FIND, self._keys.fixed, arguments)
        with reading("a request"):
            return read_element(key, reply)

    async def listing(self, state: str, limit: int, slot: str = "", callback: str = "") -> Listing:
        """The first requests in that state."""
        arguments: list[str | int | bytes] = [self._offset(), state, WINDOW, limit, slot, callback]
        reply = await self._keys.run(LIST, self._keys.fixed, arguments)
        with reading("a list of requests"):
            return read_listing(reply)

    async def push(self, entries: list[Entry]) -> list[Key]:
        """Add requests beside the workers."""
        return (await self._beside(Outbox(entries=entries))).refused

    async def pause(self, slot: str, pause: Pause) -> None:
        """Lease nothing of a slot."""
        await self._beside(Outbox(pauses={slot: pause}))

    async def resume(self, slot: str, reason: str) -> bool:
        """End such a pause."""
        return bool(await self._keys.run(RESUME, self._keys.fixed, [self._offset(), slot, reason]))

    async def _beside(self, outbox: Outbox) -> Inbox:
        """An exchange by nobody, on whatever crawl is there."""
        found, version = await self._keys.command("HMGET", self._keys.fixed[0], "id", "version")
        if found is None:
            raise FrontierLost("there is no crawl")
        if version != STATE_VERSION.encode():
            raise other_release(self._keys.place, (version or b"0").decode(errors="replace"))
        reply = await self._apply(EXCHANGE, outbox, 0, 0, found.decode(), "")
        with reading("an exchange"):
            return read_inbox(reply, outbox)

    async def _apply(
        self, script: Script, outbox: Outbox, want: int, number: int, crawl_id: str, worker: str
    ) -> Any:
        """The answer to an exchange of that worker; empty: of nobody."""
        head: list[str | int | bytes] = [
            crawl_id,
            worker,
            self._nonce,
            number,
            self._lease,
            self._max_attempts,
            self._offset(),
            want,
        ]
        return await self._keys.run(script, self._keys.fixed, [*head, *pack_outbox(outbox), self._log or ""])
