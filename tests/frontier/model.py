"""What a frontier has to do, as plain sums on dictionaries: the model that the state machine holds the
backends to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scrapy_durable.frontier.contract import (
    Counts,
    Entry,
    Held,
    HeldLease,
    Inbox,
    Lease,
    Outbox,
    Pace,
    Status,
)
from scrapy_durable.frontier.reasons import LEASE_EXPIRED
from tests.frontier.backends import LEASE, MAX_ATTEMPTS

UNCERTAINTY = 9.0
"""Seconds by which a server's clock may run ahead of the model's; every time in a test is a multiple of ten.
"""
ASKS_AGAIN = 2.0
"""Seconds for which places are kept for a worker that was given less than it asked for."""


LONG = 4
"""Of so many that are queued in a slot, one is given as a spare; nobody is alone here."""


@dataclass
class Element:
    """One element, in exactly one state: "waiting" (queued or delayed), "leased", "dead" or "done"."""

    slot: str
    callback: str
    payload: bytes
    priority: int
    arrival: int
    born: float
    state: str = "waiting"
    not_before: float | None = None
    attempts: int = 0
    failures: int = 0
    token: int = 0
    deadline: float = 0.0
    worker: str = ""
    downloaded: bool = False
    is_spare: bool = False
    since: float = 0.0

    @property
    def is_in_flight(self) -> bool:
        """Whether it takes one of its slot's places."""
        return self.state == "leased" and not self.downloaded and not self.is_spare


@dataclass
class Model:
    """A frontier with a cap for each slot, for any number of workers, at one time."""

    cap: int
    has_spares: bool = False
    now: float = 0.0
    looked_at: float = 0.0
    """When delays were ended last: with the last exchange."""
    elements: dict[int, Element] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Slot to the end of the interval after its last lease, and the token of that."""
    paces: dict[str, Pace] = field(default_factory=dict)
    last_token: int = 0
    arrivals: int = 0
    stale_messages: int = 0
    retried: Counter[str] = field(default_factory=Counter)
    """By reason, of which each is a kind of its own."""
    dead_lettered: Counter[str] = field(default_factory=Counter)
    finisher: str | None = None
    last_seen: dict[str, float] = field(default_factory=dict)
    reports: dict[str, dict[str, int]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    """Item log to the worker that joined it last."""
    joined: dict[str, str] = field(default_factory=dict)
    """Worker to the item log that its process has joined."""
    accepted: dict[str, list[int]] = field(default_factory=dict)
    """Item log to the tokens that it has not confirmed, in the order of acceptance."""
    asking: dict[str, float] = field(default_factory=dict)
    """Workers that were given less than they asked for, and when."""
    abandoned: set[str] = field(default_factory=set)

    def exchange(self, worker: str, outbox: Outbox) -> tuple[list[int], list[Held], list[int]]:
        """Everything but the lease; returns what must be refused, stale and dead-lettered."""
        self.last_seen[worker] = self.looked_at = self.now
        self.reclaim(self.now)
        refused = [entry.key for entry in outbox.entries if not self._add(entry)]
        stale: list[Held] = []
        dead_lettered: list[int] = []
        for held in outbox.sent:
            if element := self._find(held, stale):
                element.is_spare = False
        for held in outbox.downloaded:
            if (element := self._find(held, stale)) and not element.is_spare:
                element.downloaded = True
        for held in outbox.unsent:
            if (element := self._find(held, stale)) and element.is_in_flight:
                element.downloaded = True
                if self.gaps.get(element.slot, (0.0, 0))[1] == held.token:
                    del self.gaps[element.slot]
        for held in outbox.acks:
            if element := self._find(held, stale):
                element.state = "done"
        log = self.joined.get(worker, "")
        has_log = self.owners.get(log) == worker and log not in self.abandoned
        for held in outbox.logged:
            if not has_log:
                stale.append(held)
            elif element := self._find(held, stale):
                element.state = "done"
                self.accepted[log].append(held.token)
        for token in outbox.confirmed:
            if has_log and token in self.accepted[log]:
                self.accepted[log].remove(token)
        for retry in outbox.retries:
            if element := self._find(retry.held, stale):
                element.failures += 1
                if element.attempts >= MAX_ATTEMPTS:
                    element.state = "dead"
                    self.dead_lettered[retry.reason] += 1
                    dead_lettered.append(retry.held.key)
                else:
                    element.state = "waiting"
                    self.retried[retry.reason] += 1
                    element.not_before = self.now + retry.delay if retry.delay else None
        for message in outbox.dead_lettered:
            if element := self._find(message.held, stale):
                element.state = "dead"
                self.dead_lettered[message.reason] += 1
        for held in outbox.releases:
            if element := self._find(held, stale):
                element.state, element.not_before = "waiting", None
                element.attempts -= 1
        for held in outbox.renewals:
            if element := self._find(held, stale):
                element.deadline = self.now + LEASE
        for slot, pause in outbox.pauses.items():
            self.pauses[slot] = max(self.pauses.get(slot, 0.0), self.now + pause.seconds)
        for slot, change in outbox.paces.items():
            if self.pace(slot).version == change.version:
                self.paces[slot] = Pace(change.version + 1, change.interval)
        if outbox.report:
            self.reports[worker] = outbox.report
        self.stale_messages += len(stale)
        if self.unfinished:
            self.finisher = None
        return refused, stale, dead_lettered

    def join_log(self, worker: str, log: str) -> list[int] | None:
        """What is remembered for it; None when it was abandoned."""
        self.last_seen[worker] = self.now
        if log in self.abandoned:
            return None
        self.joined[worker], self.owners[log] = log, worker
        return self.accepted.setdefault(log, [])

    def abandon_log(self, log: str) -> int | None:
        if log not in self.owners:
            return None
        self.abandoned.add(log)
        dropped, self.accepted[log] = len(self.accepted[log]), []
        return dropped

    def pace(self, slot: str) -> Pace:
        return self.paces.get(slot, Pace(0, 0.0))

    def _held_until(self, slot: str) -> float:
        return max(self.pauses.get(slot, 0.0), self.gaps.get(slot, (0.0, 0))[0])

    def reclaim(self, until: float) -> None:
        """End the leases whose deadline is not after `until`."""
        for element in self.elements.values():
            if element.state == "leased" and element.deadline <= until:
                element.attempts -= element.is_spare
                element.state = "dead" if element.attempts >= MAX_ATTEMPTS else "waiting"
                self.dead_lettered[LEASE_EXPIRED] += element.state == "dead"
                element.not_before = None

    def _add(self, entry: Entry) -> bool:
        not_before = self.now + entry.delay if entry.delay else None
        known = self.elements.get(entry.key)
        if known is None:
            self.arrivals += 1
            self.elements[entry.key] = Element(
                slot=entry.slot,
                callback=entry.callback,
                payload=entry.payload,
                priority=entry.priority,
                arrival=self.arrivals,
                born=self.now,
                not_before=not_before,
            )
        elif known.state == "waiting":
            known.not_before = not_before
            known.priority = max(known.priority, entry.priority)
        else:
            return False
        return True

    def _find(self, held: Held, stale: list[Held]) -> Element | None:
        element = self.elements.get(held.key)
        if element is None or element.state != "leased" or element.token != held.token:
            stale.append(held)
            return None
        return element

    def leased(
        self, worker: str, leases: list[Lease], want: int, spares: Mapping[str, int] | None = None
    ) -> None:
        """Take these leases as leased, after having looked that they may be, and that they are the right
        ones: first those that go in flight, then so many spares of each slot as are wanted.
        """
        in_flight = [lease for lease in leases if not lease.is_spare]
        assert leases[: len(in_flight)] == in_flight, "spares come last"
        assert len(in_flight) <= max(0, want)
        for lease in in_flight:
            assert self._room(lease.slot, worker) > 0, "within the cap, and this worker's share of it"
            self._lease(worker, lease)
            self.gaps[lease.slot] = (self.now + self.pace(lease.slot).interval, lease.token)
        left = [slot for slot in self._slots() if self._ready(slot) and self._room(slot, worker) > 0]
        assert len(in_flight) == want or not left, "nothing was held back that could be leased"
        given = leases[len(in_flight) :]
        for slot, number in (spares or {}).items():
            most = self._most_spares(slot, worker, number)
            of_slot, given = given[:most], given[most:]
            assert [lease.slot for lease in of_slot] == [slot] * most, "as many spares as may be"
            for lease in of_slot:
                self._lease(worker, lease)
        assert not given, "no spares that may not be"
        if len(in_flight) < want:
            self.asking[worker] = self.now
        else:
            self.asking.pop(worker, None)
        assert all(self._in_flight(slot) <= self.cap for slot in self._slots()), "never more than the cap"

    def _lease(self, worker: str, lease: Lease) -> None:
        element = self.elements[lease.key]
        assert lease.key in self._ready(element.slot)[:1], "the best of its slot, of those that are due"
        assert lease.token > self.last_token, "a higher token than any before"
        assert lease.attempt == element.attempts + 1 <= MAX_ATTEMPTS
        assert lease.failures == element.failures
        assert (lease.slot, lease.payload) == (element.slot, element.payload)
        self.last_token = element.token = lease.token
        element.attempts += 1
        element.state, element.worker, element.downloaded = "leased", worker, False
        element.is_spare = lease.is_spare
        element.deadline, element.not_before, element.since = self.now + LEASE, None, self.now

    def _most_spares(self, slot: str, worker: str, number: int) -> int:
        """How many spares of a slot a worker is given: for places that it has and may keep, of a long queue alone."""
        held = sum(one.is_in_flight and one.worker == worker for one in self._elements_of(slot))
        sharing = len(self._others_asking(worker)) + 1
        keeps_its_places = sharing == 1 or held <= -(-self.cap // sharing)
        if not self.has_spares or not held or not keeps_its_places or self.pace(slot).interval:
            return 0
        return min(number, len(self._ready(slot)) // LONG)

    def spares(self, worker: str) -> list[Held]:
        """Those that a worker has, oldest first."""
        return self._held_by(worker, lambda element: element.is_spare)

    def places(self, worker: str, slot: str) -> list[Held]:
        """The leases that a worker has in flight in a slot, oldest first."""
        return self._held_by(worker, lambda element: element.is_in_flight and element.slot == slot)

    def _held_by(self, worker: str, kind: Callable[[Element], bool]) -> list[Held]:
        found = [
            Held(key, element.token)
            for key, element in self.elements.items()
            if element.state == "leased" and element.worker == worker and kind(element)
        ]
        return sorted(found, key=lambda held: held.token)

    def _elements_of(self, slot: str) -> list[Element]:
        return [element for element in self.elements.values() if element.slot == slot]

    def _others_asking(self, worker: str) -> list[str]:
        return [one for one, at in self.asking.items() if one != worker and at >= self.now - ASKS_AGAIN]

    def _slots(self) -> set[str]:
        return {element.slot for element in self.elements.values()}

    def _ready(self, slot: str) -> list[int]:
        """The keys of a slot that may be leased, best first."""
        if self._held_until(slot) > self.now:
            return []
        return self._queued(slot)

    def _queued(self, slot: str, at: float | None = None) -> list[int]:
        """Those that were due at a time, which is now unless it is said."""
        at = self.now if at is None else at
        due = [
            (-element.priority, element.arrival, key)
            for key, element in self.elements.items()
            if element.slot == slot and element.state == "waiting" and (element.not_before or 0.0) <= at
        ]
        return [key for _, _, key in sorted(due)]

    def _check_waits(self, status: Status) -> None:
        """Compare why the slots that have something due, and had with the last exchange, may not be leased."""
        due = {slot for slot in self._slots() if self._queued(slot, self.looked_at)}
        held = {slot for slot in due if self._held_until(slot) > self.now}
        assert status.waits.keys() == held | {slot for slot in due if not self._free(slot)}
        for slot, wait in status.waits.items():
            assert (wait.cap, wait.interval) == (self.cap, self.pace(slot).interval)
            assert wait.in_flight == self._in_flight(slot)
            if slot not in held:
                assert (wait.why, wait.until) == ("cap", None)
                continue
            assert wait.until is not None
            assert abs(wait.until - status.now - (self._held_until(slot) - self.now)) < UNCERTAINTY
            paused, spaced = self.pauses.get(slot, 0.0), self.gaps.get(slot, (0.0, 0))[0]
            if paused != spaced:
                assert wait.why == ("pause" if paused > spaced else "interval")

    def check_leases(self, leases: list[HeldLease]) -> None:
        """Compare every lease."""
        held = [(one.token, key, one) for key, one in self.elements.items() if one.state == "leased"]
        assert [(lease.token, lease.key) for lease in leases] == sorted(pair[:2] for pair in held)
        for lease, (_, _, one) in zip(leases, sorted(held, key=lambda pair: pair[:2]), strict=True):
            assert (lease.slot, lease.callback, lease.payload) == (one.slot, one.callback, one.payload)
            assert (lease.worker, lease.attempt, lease.failures) == (one.worker, one.attempts, one.failures)
            assert lease.downloaded == one.downloaded
            assert abs(lease.deadline - lease.since - (one.deadline - one.since)) < UNCERTAINTY

    def _in_flight(self, slot: str) -> int:
        return sum(element.is_in_flight for element in self._elements_of(slot))

    def _room(self, slot: str, worker: str) -> int:
        """How many more of the slot this worker may be leased: others that ask have an equal share of the cap."""
        held = Counter(element.worker for element in self._elements_of(slot) if element.is_in_flight)
        free = self.cap - held.total()
        others = self._others_asking(worker)
        fair = max(1, self.cap // (len(others) + 1))
        kept = sum(max(0, fair - held[other]) for other in others)
        return min(free, max(0, fair - held[worker], free - kept))

    def _free(self, slot: str) -> bool:
        return self._in_flight(slot) < self.cap

    @property
    def unfinished(self) -> int:
        return sum(element.state in ("waiting", "leased") for element in self.elements.values())

    def claim(self, worker: str) -> bool:
        """Whether this worker gets the claim to the end."""
        self.last_seen[worker] = self.now
        if self.unfinished:
            self.finisher = None
            return False
        if self.finisher not in (None, worker) and self.last_seen[self.finisher or ""] + LEASE > self.now:
            return False
        self.finisher = worker
        return True

    def retry_dead(self) -> int:
        dead = [element for element in self.elements.values() if element.state == "dead"]
        for element in dead:
            element.state, element.not_before = "waiting", None
            element.attempts = element.failures = 0
        if dead:
            self.finisher = None
        return len(dead)

    def drop_dead(self) -> int:
        dead = [key for key, element in self.elements.items() if element.state == "dead"]
        for key in dead:
            del self.elements[key]
        return len(dead)

    def dead(self) -> list[int]:
        return sorted(key for key, element in self.elements.items() if element.state == "dead")

    def check_inbox(self, inbox: Inbox) -> None:
        """Compare what an exchange says of the whole."""
        assert inbox.unfinished == self.unfinished
        times = [
            element.not_before - self.now
            for element in self.elements.values()
            if element.state == "waiting" and element.not_before is not None and element.not_before > self.now
        ]
        times += [
            self._held_until(slot) - self.now
            for slot in self._slots()
            if self._held_until(slot) > self.now and self._queued(slot)
        ]
        if times:
            assert inbox.next_due is not None
            assert abs(inbox.next_due - min(times)) < UNCERTAINTY
        else:
            assert inbox.next_due is None

    def check_status(self, status: Status) -> None:
        """Compare every count."""
        total: Counter[str] = Counter()
        slots: dict[str, Counter[str]] = {}
        callbacks: dict[str, Counter[str]] = {}
        past_due = 0
        for element in self.elements.values():
            state = element.state
            if state == "waiting":
                state = "delayed" if (element.not_before or 0.0) > self.now else "queued"
                past_due += state == "queued" and element.not_before is not None
            for counter in (
                total,
                slots.setdefault(element.slot, Counter()),
                callbacks.setdefault(element.callback, Counter()),
            ):
                counter[state] += 1
        assert status.total == _counts(total)
        assert status.total.seen == len(self.elements)
        assert status.slots == {slot: _counts(counter) for slot, counter in slots.items()}
        assert status.callbacks == {name: _counts(counter) for name, counter in callbacks.items()}
        assert status.past_due == past_due
        assert status.stale_messages == self.stale_messages
        holding = Counter(element.worker for element in self.elements.values() if element.state == "leased")
        assert {worker.worker: worker.leased for worker in status.workers if worker.leased} == holding
        assert {worker.worker: worker.report for worker in status.workers if worker.report} == self.reports
        assert status.retried == +self.retried
        assert status.dead_lettered == +self.dead_lettered
        self._check_waits(status)
        waiting = [element.born for element in self.elements.values() if element.state == "waiting"]
        if waiting:
            assert status.oldest is not None
            assert abs(status.oldest - (self.now - min(waiting))) < UNCERTAINTY
        else:
            assert status.oldest is None


def _counts(counter: Counter[str]) -> Counts:
    return Counts(
        queued=counter["queued"],
        delayed=counter["delayed"],
        leased=counter["leased"],
        dead=counter["dead"],
        done=counter["done"],
    )
