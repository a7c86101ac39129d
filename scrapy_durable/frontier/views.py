"""What there is to see of a frontier: counts, dead letters, workers, item logs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that was given up, kept with what is needed to judge it and to try again."""

    key: int
    slot: str
    callback: str
    attempts: int
    """How often it was leased."""
    reason: str
    died_at: float
    """Seconds since the epoch, by the frontier's clock."""
    payload: bytes
    failures: int = 0
    """How many of these leases ended in a `Retry`; the last one too, if its attempts were used up by then."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as anybody may see it: which request, who has it, since when."""

    key: int
    token: int
    slot: str
    callback: str
    worker: str
    attempt: int
    """How often the request was leased, this time included."""
    failures: int
    since: float
    """When it was leased; a renewal does not change it. This and `deadline`: seconds since the epoch by the frontier's
    clock.
    """
    deadline: float
    downloaded: bool
    """True when it is no longer in flight: answered, failed, or not sent."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class Element:
    """What is known of one request, whatever its state. Times are seconds since the epoch by the frontier's clock."""

    key: int
    state: str
    """`queued`, `delayed`, `leased`, `dead` or `done`; of one that is done nothing else is kept."""
    slot: str = ""
    callback: str = ""
    priority: int = 0
    pushed_at: float = 0.0
    attempts: int = 0
    """How often it was leased, a lease that it has now included."""
    failures: int = 0
    due: float | None = None
    """When a delayed one may be leased."""
    worker: str = ""
    """Of one that is leased; `since` and `deadline` likewise."""
    since: float = 0.0
    deadline: float = 0.0
    died_at: float = 0.0
    """Of one that is dead; `reason` likewise."""
    reason: str = ""
    payload: bytes = b""


WINDOW = 2000
"""Most requests that one listing looks through, whatever is queued."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The first requests in one state."""

    elements: list[Element]
    matched: int
    """How many of those that were looked through are of the slot and callback; at least as many as are listed."""
    looked: int
    """How many were looked through: `WINDOW` at most."""
    total: int | None
    """How many there are to look through; None where only a walk along all of them would tell."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many elements are in which state."""

    queued: int
    """Due now or in the past and not leased; the delayed are not among them."""
    delayed: int
    """Their time has not come. Of those whose time has come and that no exchange has seen since, a thousand count as
    queued, and what is beyond as delayed still; `Status.past_due` has them all.
    """
    leased: int
    dead: int
    done: int

    @property
    def seen(self) -> int:
        """All elements ever pushed; the sum of the five states."""
        return self.queued + self.delayed + self.leased + self.dead + self.done


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What one worker holds, what it has reported, and when it was last heard of. One that has reported something is
    listed as long as the crawl lives, gone or not.
    """

    worker: str
    leased: int
    last_seen: float
    """Seconds since the epoch, by the frontier's clock."""
    report: dict[str, int] = field(default_factory=dict)
    """What its last `Outbox.report` said that was not empty."""


@dataclass(frozen=True, slots=True)
class SlotWait:
    """Why nothing of a slot is leased now, though something of it is due."""

    why: str
    """`pause`, `interval` (between two leases) or `cap`; the time that ends last, where several hold it back."""
    until: float | None
    """When that is over: seconds since the epoch by the frontier's clock; None for a cap, which ends with a lease."""
    reason: str
    """Of a pause, as who set it has said it."""
    cap: int
    """0: no limit."""
    interval: float
    """Seconds between two leases, as limit and pace have it now."""
    in_flight: int


@dataclass(frozen=True, slots=True)
class SlotUse:
    """How much a slot is asked, and may be."""

    in_flight: int
    cap: int
    """0: no limit."""
    interval: float
    """Seconds between two leases, as limit and pace have it now."""


@dataclass(frozen=True, slots=True)
class Status:
    """Everything there is to see, from one consistent read."""

    crawl_id: str | None
    """None: no crawl has begun, or the last one was forgotten."""
    total: Counts
    past_due: int
    """Queued elements whose time was set and has come but that nobody has fetched yet."""
    oldest: float | None
    """Age in seconds of the element that has been waiting longest (queued or delayed); None when none waits.
    """
    slots: dict[str, Counts]
    callbacks: dict[str, Counts]
    workers: list[WorkerStatus]
    stale_messages: int
    """Messages refused because of a stale token, since the crawl began."""
    identity: str = ""
    """What the crawl is of, as `begin` was told."""
    retried: dict[str, int] = field(default_factory=dict)
    """How often requests were queued again by a `Retry` since the crawl began, by the kind of its reason
    (`reasons.kind_of`).
    """
    dead_lettered: dict[str, int] = field(default_factory=dict)
    """How often requests became dead letters since the crawl began, likewise. Replaying or dropping them does not lower
    it.
    """
    waits: dict[str, SlotWait] = field(default_factory=dict)
    """The slots that have something due, and had with the last exchange, and may not be leased now; at most a thousand
    that are held back by a time, and a thousand by their cap.
    """
    now: float = 0.0
    """Seconds since the epoch by the frontier's clock, at this look; 0 when there is no crawl."""
    in_flight: dict[str, SlotUse] = field(default_factory=dict)
    """The slots with a request in flight, at most a thousand."""
    leases: list[HeldLease] = field(default_factory=list)
    """The oldest ones, as many as were asked for."""
    logs: list[LogStatus] = field(default_factory=list)
    """As `Frontier.logs`."""


@dataclass(frozen=True, slots=True)
class LogStatus:
    """An item log that has joined the crawl."""

    name: str
    worker: str
    """The one that joined it last."""
    unconfirmed: int
    """How many tokens are remembered for it: accepted by the frontier, and not confirmed by the log."""
    closed: bool
    """True when it has nothing unconfirmed and its feeds are stored, or when it was abandoned."""
    abandoned: bool
    last_seen: float
    """When its worker was last heard of: seconds since the epoch by the frontier's clock; 0 when that is not known."""
