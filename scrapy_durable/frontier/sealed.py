"""A frontier whose server is not trusted: what it holds is signed with a key that only the workers know.

Whoever can write to the server can still delete, repeat and hold back; they can no longer have a worker make a request,
or believe a verdict, that no worker with the key has made. A payload is signed together with the queue, the crawl and
the element's key, so that it counts nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from scrapy_durable.exceptions import CodecError, FrontierDamaged
from scrapy_durable.frontier.codec import refused
from scrapy_durable.frontier.contract import (
    CrawlState,
    DeadLetter,
    Entry,
    Frontier,
    HeldLease,
    Inbox,
    Key,
    LogStatus,
    Outbox,
    Pause,
    Status,
    WorkerStatus,
)
from scrapy_durable.frontier.views import Element, Listing
from scrapy_durable.signatures import SIGNATURE, Signer

_MARK = b"\x01"
"""What a signed payload begins with; a document never does."""


class Seal(Signer):
    """Signs what is queued, under a key of its own for each queue."""

    def __init__(self, key: str, queue: str) -> None:
        super().__init__(key, f"queue\0{queue}")

    def seal(self, document: bytes, *place: str) -> bytes:
        """The document behind its signature, which counts in that place only."""
        return _MARK + self.sign(document, *place) + document

    def open(self, sealed: bytes, *place: str) -> bytes:
        """The document. Raises `CodecError` unless it was sealed with this key, for this place."""
        signature, document = sealed[1 : 1 + SIGNATURE], sealed[1 + SIGNATURE :]
        if not sealed.startswith(_MARK):
            raise CodecError("not signed, though DURABLE_QUEUE_KEY is set")
        if not self.is_signed(document, signature, *place):
            raise CodecError("not signed with DURABLE_QUEUE_KEY for this place in the queue")
        return document


class _Passed:
    """What goes to another frontier as it is."""

    _frontier: Frontier

    async def time(self) -> float:
        """As the frontier within."""
        return await self._frontier.time()

    async def workers(self) -> list[WorkerStatus]:
        """As the frontier within."""
        return await self._frontier.workers()

    async def retry_dead(self, keys: Collection[Key] | None = None) -> int:
        """As the frontier within."""
        return await self._frontier.retry_dead(keys)

    async def drop_dead(self) -> int:
        """As the frontier within."""
        return await self._frontier.drop_dead()

    async def pause(self, slot: str, pause: Pause) -> None:
        """As the frontier within."""
        await self._frontier.pause(slot, pause)

    async def resume(self, slot: str, reason: str) -> bool:
        """As the frontier within."""
        return await self._frontier.resume(slot, reason)

    async def join_log(self, log: str) -> list[int]:
        """As the frontier within."""
        return await self._frontier.join_log(log)

    async def claim_items(self, keys: Sequence[str]) -> list[bool]:
        """As the frontier within."""
        return await self._frontier.claim_items(keys)

    async def close_log(self) -> None:
        """As the frontier within."""
        await self._frontier.close_log()

    async def logs(self) -> list[LogStatus]:
        """As the frontier within."""
        return await self._frontier.logs()

    async def abandon_log(self, name: str) -> int | None:
        """As the frontier within."""
        return await self._frontier.abandon_log(name)

    async def elect_finisher(self) -> Status | None:
        """As the frontier within."""
        return await self._frontier.elect_finisher()

    async def forget(self, *, unless_unfinished: bool = False) -> bool:
        """As the frontier within."""
        return await self._frontier.forget(unless_unfinished=unless_unfinished)

    async def close(self) -> None:
        """As the frontier within."""
        await self._frontier.close()


class SealedFrontier(_Passed):
    """Signs what goes into another frontier, and hands on what is signed; the rest cannot be read back by `codec`."""

    def __init__(self, frontier: Frontier, seal: Seal) -> None:
        self._frontier = frontier
        self._seal = seal
        self._crawl_id = ""
        self._repeated: tuple[Outbox, Outbox] | None = None

    async def begin(self, crawl_id: str, identity: str = "") -> CrawlState:
        """Join a crawl of the same key, or begin one; a worker with another key is refused."""
        state = await self._frontier.begin(
            crawl_id, f"{identity} signed with the key {self._seal.mark}".strip()
        )
        self._crawl_id = state.crawl_id
        return state

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        """As the frontier within; the same outbox stays the same outbox."""
        if self._repeated is None or self._repeated[0] is not outbox:
            entries = [
                replace(entry, payload=self._seal.seal(entry.payload, self._crawl_id, str(entry.key)))
                for entry in outbox.entries
            ]
            self._repeated = outbox, replace(outbox, entries=entries)
        inbox = await self._frontier.exchange(self._repeated[1], want)
        self._repeated = None
        leases = [
            replace(lease, payload=self._opened(lease.payload, self._crawl_id, lease.key))
            for lease in inbox.leases
        ]
        return replace(inbox, leases=leases)

    async def status(self, leases: int = 0) -> Status:
        """As the frontier within."""
        status = await self._frontier.status(leases)
        return replace(status, leases=self._opened_leases(status.leases, status.crawl_id or ""))

    async def find(self, key: Key) -> Element | None:
        """As the frontier within."""
        found = await self._frontier.find(key)
        if found is None or found.state == "done":
            return found
        crawl_id = self._crawl_id or (await self._frontier.status()).crawl_id or ""
        return replace(found, payload=self._opened(found.payload, crawl_id, key))

    async def listing(self, state: str, limit: int, slot: str = "", callback: str = "") -> Listing:
        """As the frontier within."""
        crawl_id = self._crawl_id or (await self._frontier.status()).crawl_id or ""
        found = await self._frontier.listing(state, limit, slot, callback)
        opened = [
            replace(one, payload=self._opened(one.payload, crawl_id, one.key)) for one in found.elements
        ]
        return replace(found, elements=opened)

    async def push(self, entries: list[Entry]) -> list[Key]:
        """As the frontier within, signed for the crawl that is there."""
        crawl_id = self._crawl_id or (await self._frontier.status()).crawl_id or ""
        return await self._frontier.push(
            [
                replace(entry, payload=self._seal.seal(entry.payload, crawl_id, str(entry.key)))
                for entry in entries
            ]
        )

    async def leases(self, limit: int = 1000) -> list[HeldLease]:
        """As the frontier within."""
        crawl_id = self._crawl_id or (await self.status()).crawl_id or ""
        return self._opened_leases(await self._frontier.leases(limit), crawl_id)

    async def dead_letters(self, limit: int = 1000, skip: int = 0) -> list[DeadLetter]:
        """As the frontier within."""
        crawl_id = self._crawl_id or (await self.status()).crawl_id or ""
        return [
            replace(letter, payload=self._opened(letter.payload, crawl_id, letter.key))
            for letter in await self._frontier.dead_letters(limit, skip)
        ]

    async def publish_verdict(self, verdict: bytes) -> bool:
        """Leave the verdict, signed."""
        return await self._frontier.publish_verdict(self._seal.seal(verdict, self._crawl_id, "verdict"))

    async def verdict(self) -> bytes | None:
        """What a worker with the key has published. Raises `FrontierDamaged` for what nobody of them has."""
        sealed = await self._frontier.verdict()
        try:
            return None if sealed is None else self._seal.open(sealed, self._crawl_id, "verdict")
        except CodecError as error:
            raise FrontierDamaged(f"the verdict that somebody published is {error}") from error

    async def leave_part(self, name: str, part: bytes) -> None:
        """Leave it, signed."""
        await self._frontier.leave_part(name, self._seal.seal(part, self._crawl_id, "part", name))

    async def part(self, name: str) -> bytes | None:
        """What a worker with the key has left. Raises `FrontierDamaged` for what nobody of them has."""
        sealed = await self._frontier.part(name)
        try:
            return None if sealed is None else self._seal.open(sealed, self._crawl_id, "part", name)
        except CodecError as error:
            raise FrontierDamaged(f"the part {name} that somebody has left is {error}") from error

    def _opened_leases(self, leases: list[HeldLease], crawl_id: str) -> list[HeldLease]:
        return [replace(lease, payload=self._opened(lease.payload, crawl_id, lease.key)) for lease in leases]

    def _opened(self, payload: bytes, crawl_id: str, key: int) -> bytes:
        try:
            return self._seal.open(payload, crawl_id, str(key))
        except CodecError as error:
            return refused(str(error))
