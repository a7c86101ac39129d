"""The vocabulary of the frontier: a delayed, unique, priority queue with leases.

Every element pushed is, at any moment, in exactly one of five states:

    queued ──lease──► leased ──ack──► done
      ▲ │                  │ │
      │ └─(not due yet)    │ └──dead-letter, or attempts used up──► dead ──retry-dead──► queued
      └────retry, release, lease expired────┘

*Queued* includes the elements that are *delayed* (their time has not come); counts list the two apart. A
crawl lives in the frontier from `begin` until `forget`; its identity is `CrawlState.crawl_id`. Times and
durations are seconds. What there is to see of it is in `views`, and found here too.

A worker that keeps its items in a log of its own says of an acknowledgement that it is *logged*, and the frontier
remembers the token until the log has *confirmed* that it holds the acceptance (docs/decisions/0037-every-item-once.md):

    logged ──accepted──► remembered under the log ──confirmed──► forgotten

The frontier's clock is that of its server or, for a file, of the machine, with one difference: within a crawl it never
goes back. One that is set back counts on from where it was, until it has caught up (`counted_on`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from scrapy_durable.frontier.logs import Logs
from scrapy_durable.frontier.operable import Operable
from scrapy_durable.frontier.parts import Parts
from scrapy_durable.frontier.views import (
    Counts,
    DeadLetter,
    HeldLease,
    LogStatus,
    SlotUse,
    SlotWait,
    Status,
    WorkerStatus,
)

__all__ = [
    "LONGEST_REASON",
    "Counts",
    "CrawlState",
    "DeadLetter",
    "DeadLettered",
    "Entry",
    "Frontier",
    "Held",
    "HeldLease",
    "Inbox",
    "Key",
    "Lease",
    "LogStatus",
    "Outbox",
    "Pace",
    "PaceChange",
    "Pause",
    "Retry",
    "SlotLimit",
    "SlotUse",
    "SlotWait",
    "Status",
    "WorkerStatus",
    "counted_on",
]

LONGEST_REASON = 200
"""Characters, of a pause."""
Key = int
"""A signed 64-bit fingerprint; the identity of an element."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A request to add. Queued already: it takes the new time and the better priority. Leased, done or dead:
    refused.
    """

    key: Key
    slot: str
    """The site that the request goes to; caps and pauses are per slot."""
    callback: str
    """Name of the spider method that will handle the answer; counts are grouped by it."""
    payload: bytes
    """The encoded request; the frontier never looks inside."""
    priority: int = 0
    """Higher goes first; equal ones in the order of arrival. From -2**31 to 2**31 - 1."""
    delay: float = 0.0
    """Seconds from now before which the element is not leased."""


@dataclass(frozen=True, slots=True)
class Lease:
    """An element leased to one worker, for a time."""

    key: Key
    token: int
    """Fencing token: grows with each lease in a crawl; a stale one changes nothing."""
    attempt: int
    """How often the element was leased, this time included; 1 at the first."""
    slot: str
    payload: bytes
    failures: int = 0
    """How many of the leases before this one ended in a `Retry`; one that expired or was released is no failure."""
    is_spare: bool = False
    """Not in flight: it may be sent when another of its slot is answered that is, and `Outbox.sent` then says so."""

    @property
    def held(self) -> Held:
        """Its name in messages to the frontier."""
        return Held(self.key, self.token)


@dataclass(frozen=True, slots=True)
class Held:
    """Names a lease in a message to the frontier."""

    key: Key
    token: int


@dataclass(frozen=True, slots=True)
class Retry:
    """The request failed for now: count a failure and queue it again after `delay` seconds, or dead-letter it if its
    attempts are used up.
    """

    held: Held
    delay: float
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The request failed for good: it becomes a dead letter."""

    held: Held
    reason: str


@dataclass(frozen=True, slots=True)
class SlotLimit:
    """How much one site may be asked at once, by all workers together."""

    cap: int
    """Leases of the slot that may be in flight at once; 0 means no limit."""
    interval: float = 0.0
    """Seconds between two leases of the slot, at least; the slot's `Pace` may make it longer. `Outbox.unsent`
    says which leases do not count.
    """


@dataclass(frozen=True, slots=True)
class Pause:
    """A time during which nothing of a slot is leased."""

    seconds: float
    """From now."""
    reason: str = ""
    """Why, for people; the first `LONGEST_REASON` characters are kept."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The interval between leases that all workers together have learned for a slot."""

    version: int
    """Counts the changes; 0 when nothing has been learned yet."""
    interval: float
    """Seconds. The longer of this and `SlotLimit.interval` holds."""


@dataclass(frozen=True, slots=True)
class PaceChange:
    """What a worker has learned: takes the place of the pace of that version, and is ignored when another
    came first.
    """

    version: int
    interval: float


@dataclass(slots=True)
class Outbox:
    """All that a worker has to say in one exchange. Applied as one transaction, in the order of the fields."""

    entries: list[Entry] = field(default_factory=list)
    sent: list[Held] = field(default_factory=list)
    """Spares that are in flight now, each in the place of a lease of its slot that `downloaded` or `unsent` of the same
    outbox names.
    """
    downloaded: list[Held] = field(default_factory=list)
    """No longer in flight: answered or failed, so the slot has a free place; the lease itself goes on."""
    unsent: list[Held] = field(default_factory=list)
    """Never in flight, and not sent under this lease any more. The slot has a free place, and
    if nothing of it was leased since, the interval after this lease ends at once: the lease before it was
    an interval earlier. Otherwise its time is gone, since the next one was sent an interval later. A pause stays.
    """
    acks: list[Held] = field(default_factory=list)
    logged: list[Held] = field(default_factory=list)
    """Acknowledged like `acks`, and their tokens are remembered under this worker's log until `confirmed` names them.
    All of them are stale when this worker has joined no log, when another has joined it since, or when it was
    abandoned. A log that was closed is open again.
    """
    confirmed: list[int] = field(default_factory=list)
    """Tokens whose acceptance this worker's log holds by now: they are forgotten. Others are ignored."""
    retries: list[Retry] = field(default_factory=list)
    dead_lettered: list[DeadLettered] = field(default_factory=list)
    releases: list[Held] = field(default_factory=list)
    """Released: queued again at once, and the attempt is not counted."""
    renewals: list[Held] = field(default_factory=list)
    """Leases to hold for another full lease time."""
    pauses: dict[str, Pause] = field(default_factory=dict)
    """By slot; a pause already set that ends later, or at the same time, stays, with its reason."""
    paces: dict[str, PaceChange] = field(default_factory=dict)
    """Slot to the interval that its latest answers call for."""
    report: dict[str, int] = field(default_factory=dict)
    """The worker's own numbers, all of them and absolute (never increments): they take the place of those that it
    reported before. Empty: those stay. Within the bounds of `frontier.report`.
    """

    spares: dict[str, int] = field(default_factory=dict)
    """How many spares are wanted, by slot. Only a frontier of several workers gives any."""

    @property
    def says_something(self) -> bool:
        """True when it is not empty."""
        return any(getattr(self, each.name) for each in fields(self))

    @property
    def is_waited_for(self) -> bool:
        """True when something of it changes what may be leased, by this worker or another."""
        return bool(self.entries or self.retries or self.releases or self.pauses)

    def take(self) -> Outbox:
        """All of it, as an outbox of its own; this one is empty afterwards."""
        taken = replace(self)
        for each in fields(self):
            setattr(self, each.name, type(getattr(self, each.name))())
        return taken


@dataclass(frozen=True, slots=True)
class Inbox:
    """The frontier's answer to one exchange."""

    leases: list[Lease]
    refused: list[Key]
    """Entries refused: leased, done or dead already. (One that was queued already is not refused.)"""
    stale: list[Held]
    """Messages about leases that this worker does not hold any more; they changed nothing."""
    dead_lettered: list[Key]
    """Retries of this outbox that became dead letters, their attempts being used up."""
    unfinished: int
    """Elements queued, delayed or leased, by anyone, after this exchange. 0: nothing is left to do."""
    next_due: float | None
    """Seconds until something may be leased that was held back by a time (delay, pause or interval);
    None: nothing is.
    """
    now: float
    """Seconds since the epoch by the frontier's clock, at this exchange."""
    ahead: float = 0.0
    """Seconds that this clock is ahead of the server's or machine's, which was set back since the crawl began."""
    paces: dict[str, Pace] = field(default_factory=dict)
    """The paces, after this exchange, of the slots that the outbox named in its `paces`."""


@dataclass(frozen=True, slots=True)
class CrawlState:
    """The crawl that this worker has joined."""

    crawl_id: str
    """Made by whoever began the crawl; the same for all its workers and through every resumption."""
    resumed: bool
    """True when the crawl was there already: begun by another worker, or left unfinished by an earlier run.
    """
    now: float
    """Seconds since the epoch by the frontier's clock, when it was joined."""
    ahead: float = 0.0
    """As `Inbox.ahead`."""


def counted_on(time: float, last: float, ahead: float) -> tuple[float, float]:
    """The crawl's time, and by how much it is ahead of `time`, which the machine tells.

    `last` and `ahead` are those of the time before. (`lua/keys.lua` has the same for Redis.)
    """
    if time >= last:
        return time, 0.0
    ahead = max(last - time, ahead)
    return time + ahead, ahead


class Frontier(Operable, Logs, Parts, Protocol):
    """What a backend has to do. One test suite holds every backend to it.

    Every method may raise `FrontierUnavailable` (try again: all are idempotent) and, after `begin`,
    `FrontierLost`. Those that work without `begin`, and `begin`, raise `OtherRelease` for a crawl that a release with
    another version of the state has begun; on Redis, `forget` removes it.
    """

    async def time(self) -> float:
        """Seconds since the epoch by the server's or machine's clock, of which a new crawl's id is made. Works
        without `begin`.
        """

    async def begin(self, crawl_id: str, identity: str = "") -> CrawlState:
        """Join the crawl that is there, or begin one under `crawl_id`.

        `identity` says in words what the crawl is of; it is kept with the crawl. Raises `ForeignCrawl`, having
        changed nothing, when the crawl that is there has another one, `ConfigurationError` when the server is
        not fit for the job, `ForeignFile` for a file of another kind.
        """

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        """Say everything and ask for up to `want` leases, in one transaction or one round trip.

        Also returns expired leases to the queue (of any worker), dead-letters those whose attempts are used up, and
        counts as this worker's sign of life. After `FrontierUnavailable` the caller repeats the very same
        outbox object: if the first try did take effect, its answer is given again and nothing happens twice.
        """

    async def status(self, leases: int = 0) -> Status:
        """Everything there is to see, in one consistent read, with so many of the oldest leases. Works without `begin`.

        What it costs a server grows with workers, leases, slots and callbacks, not with what is queued or delayed:
        cheap enough to be asked every second.
        """

    async def workers(self) -> list[WorkerStatus]:
        """What `status` says of workers, and of those that are forgotten there; cheap enough to be asked every few
        seconds. Works without `begin`.
        """

    async def leases(self, limit: int = 1000) -> list[HeldLease]:
        """What is leased, the oldest first, in one consistent read. Works without `begin`."""

    async def dead_letters(self, limit: int = 1000, skip: int = 0) -> list[DeadLetter]:
        """The dead letters, oldest first, so many of them after the first `skip`. Works without `begin`."""

    async def retry_dead(self, keys: Collection[Key] | None = None) -> int:
        """Queue every dead letter again, or those with these keys (others are ignored), with attempts and failures at
        zero; returns how many. What `Status.dead_lettered` has counted stays. Works without `begin`.
        """

    async def drop_dead(self) -> int:
        """Remove every dead letter and forget that it was ever pushed; returns how many. Works without
        `begin`.
        """

    async def elect_finisher(self) -> Status | None:
        """What there is, read after that, when this worker may finish the crawl: nothing is unfinished, and no other
        worker has claimed it. Else None.

        The claim is a lease: it lapses after the lease time if the finisher is not heard of, so that another
        one may claim. Asking again while holding it renews it.
        """

    async def publish_verdict(self, verdict: bytes) -> bool:
        """Leave the crawl's verdict for the workers that wait for the finisher; kept beyond `forget` for an
        hour. False, and nothing is left, when this worker may not finish the crawl (any more).
        """

    async def verdict(self) -> bytes | None:
        """What `publish_verdict` left for the crawl that this worker has joined, or None."""

    async def forget(self, *, unless_unfinished: bool = False) -> bool:
        """Remove the crawl with all it has seen, so that the next `begin` starts afresh. Works without
        `begin`.

        With `unless_unfinished`, which a worker says, nothing changes when something is queued, delayed or leased, and
        False is returned: somebody has queued it while the crawl was being finished.
        """

    async def close(self) -> None:
        """Close the connection or file. What this worker still holds stays leased until it expires."""
