"""The frontier on a Redis or Valkey server, for any number of workers: one Lua script per operation, in
`lua/`.

A script runs alone and as a whole, so every operation is one step for all workers. The server's clock is
the only one. What the keys are is written in `lua/keys.lua`.

The *seen set* holds the keys of what is done as 64-bit integers, in sets that are split as they fill
(`lua/seen.lua`): up to `set-max-intset-entries` integers (512) a set is a sorted array of 8 bytes each, so that a
URL costs some 9 bytes, however many there are. In a hundred million URLs, two with the same 64-bit fingerprint are
to be expected 0.0003 times.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from scrapy_durable.exceptions import ForeignCrawl, FrontierDamaged, FrontierLost, FrontierUnavailable
from scrapy_durable.frontier.contract import (
    Counts,
    CrawlState,
    DeadLetter,
    HeldLease,
    Inbox,
    Key,
    Outbox,
    Status,
    WorkerStatus,
)
from scrapy_durable.frontier.parts import MOST_BYTES, checked_part
from scrapy_durable.frontier.redis_beside import EXCHANGE, RedisBeside
from scrapy_durable.frontier.redis_logs import CLOSE_LOG, FIRSTS_BUCKETS, JOIN_LOG, LOGS
from scrapy_durable.frontier.redis_messages import (
    microseconds,
    read_dead_letters,
    read_held_leases,
    read_inbox,
    read_status,
    read_workers,
    reading,
)
from scrapy_durable.frontier.redis_scripts import Call, Script, load_script
from scrapy_durable.frontier.redis_server import MemoryFull, RedisKeys, other_release

BATCH = 1000
"""Dead letters, or keys to remove, that one call of a script deals with: a few milliseconds for the server.
"""
MOST_REMOVALS = 100
"""Calls of such a script in one round trip."""
VERDICT_KEPT = 3600
"""Seconds for which a verdict is kept, from when it is published and again from `forget`."""

BEGIN = load_script("begin")
EXCHANGE_WHEN_FULL = load_script("exchange", flags="allow-oom")
STATUS = load_script("status")
WORKERS = load_script("workers")
LEASES = load_script("leases")
DEAD_LETTERS = load_script("dead_letters")
RETRY_DEAD = load_script("retry_dead")
DROP_DEAD = load_script("drop_dead")
ELECT_FINISHER = load_script("elect_finisher")
PUBLISH_VERDICT = load_script("publish_verdict")
LEAVE_PART = load_script("leave_part")
PART = load_script("part")
FORGET = load_script("forget")
OF_A_CRAWL = (
    BEGIN,
    EXCHANGE,
    WORKERS,
    JOIN_LOG,
    STATUS,
    DEAD_LETTERS,
    ELECT_FINISHER,
    PUBLISH_VERDICT,
    CLOSE_LOG,
    LOGS,
    FORGET,
)
"""What every crawl calls: the server is given them at its beginning, all at once."""


class RedisFrontier(RedisBeside):
    """A frontier under these keys.

    `lease_seconds` is how long a lease holds without renewal,
    `max_attempts` how often an element is leased before it is dead-lettered. The limits of the worker that
    began last are those of all.

    `clock_offset` (seconds) moves the server's clock; only tests set it.
    """

    async def time(self) -> float:
        """The server's clock, as the contract has it. One round trip, which also spares the next `begin` its look at
        the server; raises what that would raise.
        """
        reply = await self._keys.inspect(OF_A_CRAWL)
        if isinstance(reply, Exception):
            raise reply
        self._is_inspected = True
        with reading("the time"):
            seconds, fraction = reply
            return int(seconds) + int(fraction) / 1e6 + self.clock_offset

    async def begin(self, crawl_id: str, identity: str = "") -> CrawlState:
        """Look whether the server is fit, and join the crawl on it or begin one; see the contract.

        Raises `OtherRelease`, and `ConfigurationError` when the server is too old, may evict keys, refuses the user or
        password, or has something else under the keys.
        """
        if not self._is_inspected:
            await self._keys.inspect(OF_A_CRAWL)
        self._is_inspected = False
        limits: list[str | int] = [self._default_limit.cap, microseconds(self._default_limit.interval)]
        for slot, limit in self._limits.items():
            limits += [slot, limit.cap, microseconds(limit.interval)]
        arguments = [crawl_id, self._nonce, self._worker, self._offset(), identity, *limits]
        state, found, *rest = await self._keys.run(BEGIN, self._keys.fixed, arguments)
        with reading("the crawl"):
            while state == b"forgetting":
                await self._remove(found.decode())
                state, found, *rest = await self._keys.run(BEGIN, self._keys.fixed, arguments)
            if state == b"release":
                raise other_release(self._keys.place, found.decode(errors="replace"))
            if state == b"foreign":
                raise ForeignCrawl(self._keys.place, rest[0].decode(errors="replace"), identity)
            self._crawl_id = found.decode()
            resumed, now, ahead = rest
            return CrawlState(self._crawl_id, resumed=bool(resumed), now=now / 1e6, ahead=ahead / 1e6)

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        """One round trip; see the contract.

        When the server's memory is full, an outbox without entries passes all the same. Of one with entries
        only the landings and renewals pass, and `FrontierUnavailable` is raised: its acks have to wait for
        its entries, which may be the children of what is acked, and the caller repeats the whole later.
        """
        number = self._number_of(outbox)
        try:
            reply = await self._exchange(EXCHANGE, outbox, want, number)
        except MemoryFull as error:
            if outbox.entries:
                relief = Outbox(
                    sent=outbox.sent,
                    downloaded=outbox.downloaded,
                    unsent=outbox.unsent,
                    renewals=outbox.renewals,
                )
                await self._exchange(EXCHANGE_WHEN_FULL, relief, 0, 0)
                raise FrontierUnavailable(f"{error}; no request was added") from error
            reply = await self._exchange(EXCHANGE_WHEN_FULL, outbox, want, number)
        self._unanswered = None
        with reading("an exchange"):
            return read_inbox(reply, outbox)

    def _number_of(self, outbox: Outbox) -> int:
        """The number of this exchange: that of the last one if it was not answered and had the same outbox."""
        if self._unanswered is None or self._unanswered[0] is not outbox:
            self._number += 1
            self._unanswered = (outbox, self._number)
        return self._unanswered[1]

    async def _exchange(self, script: Script, outbox: Outbox, want: int, number: int) -> Any:
        if self._crawl_id is None:
            raise FrontierLost("no crawl has been joined")
        return await self._apply(script, outbox, want, number, self._crawl_id, self._worker)

    async def status(self, leases: int = 0) -> Status:
        """Everything there is to see, from one script."""
        return _status_of(await self._keys.run(STATUS, self._keys.fixed, [self._offset(), leases]))

    async def workers(self) -> list[WorkerStatus]:
        """Of all workers of the crawl, in one short script."""
        reply = await self._keys.run(WORKERS, self._keys.fixed, [])
        with reading("the workers of the crawl"):
            return read_workers(reply)

    async def leases(self, limit: int = 1000) -> list[HeldLease]:
        """What is leased, the oldest first."""
        reply = await self._keys.run(LEASES, self._keys.fixed, [limit])
        with reading("a lease"):
            return read_held_leases(reply)

    async def dead_letters(self, limit: int = 1000, skip: int = 0) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        reply = await self._keys.run(DEAD_LETTERS, self._keys.fixed, [limit, skip])
        with reading("a dead letter"):
            return read_dead_letters(reply)

    async def retry_dead(self, keys: Collection[Key] | None = None) -> int:
        """Queue every dead letter again, or those of these keys, with attempts and failures back at zero; returns how
        many.
        """
        if keys is None:
            return await _in_batches(self._keys, RETRY_DEAD, self._offset())
        packed = [key.to_bytes(8, signed=True) for key in keys]
        total = 0
        for first in range(0, len(packed), BATCH):
            arguments: list[int | bytes] = [BATCH, self._offset(), *packed[first : first + BATCH]]
            total += await self._keys.run(RETRY_DEAD, self._keys.fixed, arguments)
        return total

    async def drop_dead(self) -> int:
        """Remove every dead letter and forget that it was ever pushed; returns how many."""
        return await _in_batches(self._keys, DROP_DEAD, self._offset())

    async def elect_finisher(self) -> Status | None:
        """What there is, when this worker may finish it, for one round trip; see the contract."""
        keys = [*self._keys.fixed, self._keys.verdict(self._joined())]
        arguments = (self._joined(), self._worker, self._lease, self._offset())
        elected, found = await self._keys.run_in_turn(
            [(ELECT_FINISHER, keys, arguments), (STATUS, self._keys.fixed, (self._offset(), 0))]
        )
        if not elected:
            return None
        status = _status_of(found)
        if status.crawl_id != self._joined():
            raise FrontierLost("another worker has ended the crawl meanwhile")
        return status

    async def publish_verdict(self, verdict: bytes) -> bool:
        """Leave the verdict for the workers that wait; it is kept for an hour, and for an hour after
        `forget`.
        """
        arguments = (self._joined(), self._worker, verdict, VERDICT_KEPT)
        keys = [*self._keys.fixed, self._keys.verdict(self._joined())]
        return bool(await self._keys.run(PUBLISH_VERDICT, keys, arguments))

    async def verdict(self) -> bytes | None:
        """What was published for the crawl that this worker has joined, or None."""
        verdict: bytes | None = await self._keys.command("GET", self._keys.verdict(self._joined()))
        return verdict

    async def leave_part(self, name: str, part: bytes) -> None:
        """Leave it for whichever worker asks."""
        await self._keys.run(LEAVE_PART, self._keys.fixed, (self._joined(), name, checked_part(part)))

    async def part(self, name: str) -> bytes | None:
        """What was left. Raises `FrontierDamaged` for more than that can be."""
        part: bytes | int | None = await self._keys.run(
            PART, self._keys.fixed, (self._joined(), name, MOST_BYTES)
        )
        if isinstance(part, int):
            raise FrontierDamaged(
                f"the part {name} that somebody has left has {part} bytes, more than one can have"
            )
        return part

    async def forget(self, *, unless_unfinished: bool = False) -> bool:
        """Remove the crawl with all it has seen, in short calls: one round trip, and one more for each fifteen million
        requests.

        Its workers are told with the first call, and the others do nothing when that one has refused. If this process
        dies meanwhile, the next `begin` does the rest.
        """
        if self._crawl_id is not None and await self._forget(self._crawl_id, unless_unfinished):
            return True
        named, forgetting = await self._keys.command("HMGET", self._keys.fixed[0], "id", "forgetting")
        found = forgetting if named is None else named
        return found is None or await self._forget(found.decode(), unless_unfinished)

    async def _forget(self, crawl_id: str, unless_unfinished: bool) -> bool:
        """False when it stays, or is not there."""
        mark: Call = (
            [*self._keys.fixed, self._keys.verdict(crawl_id)],
            [crawl_id, "mark", VERDICT_KEPT, int(unless_unfinished)],
        )
        marked, *_ = await self._remove(crawl_id, mark)
        return bool(marked)

    async def _remove(self, crawl_id: str, *before: Call) -> list[Any]:
        """Remove the keys of a crawl that is marked as going, by these calls at the latest; returns the answers."""
        firsts = [self._keys.firsts(number) for number in range(FIRSTS_BUCKETS)]
        removals: list[Call] = [
            ([*self._keys.fixed, *firsts[first : first + BATCH]], [crawl_id, "remove", BATCH])
            for first in range(0, len(firsts), BATCH)
        ]
        end: Call = (self._keys.fixed, [crawl_id, "end"])
        answers = await self._keys.run_all(FORGET, [*before, *removals, end])
        left = answers[-1]
        while left:
            calls = min(-(-left // BATCH), MOST_REMOVALS)
            removals = [(self._keys.fixed, [crawl_id, "remove", BATCH])] * calls
            *_, left = await self._keys.run_all(FORGET, [*removals, end])
        return answers

    async def check(self) -> None:
        """See whether the server is fit, and join nothing."""
        await self._keys.check()


def _status_of(reply: Any) -> Status:
    if not reply:
        return Status(None, Counts(0, 0, 0, 0, 0), 0, None, {}, {}, [], 0)
    with reading("the state of the crawl"):
        return read_status(reply)


async def _in_batches(keys: RedisKeys, script: Script, offset: int) -> int:
    """Call a script on the dead letters until it does less than it was asked for; returns how many it did."""
    total = 0
    while True:
        number: int = await keys.run(script, keys.fixed, [BATCH, offset])
        total += number
        if number < BATCH:
            return total
