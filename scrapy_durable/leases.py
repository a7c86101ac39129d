"""The leases that a worker has in hand, from the frontier's answer to their acknowledgement.

A lease's way, and when each step is said to the frontier:

1. *waiting*: it came with an answer of the frontier, and the engine has not asked for it yet;
2. *assigned*: a request object carries it;
3. *downloaded*: no longer in flight, so that its slot may be asked for the next one. One that never was in
   flight, since the response store had its answer or another worker fetches it, is said to be *unsent*, at once,
   while its time can still go to another;
4. *finished*: the request is neither in the downloader nor in the scraper any more. What it yielded is in the
   outbox or beyond by then, because Scrapy enqueues children and runs items through the pipelines first;
5. *acknowledged*: every store is durable past the number that it had reached at step 4. Entries travel before
   acks in one transaction, so children are in the frontier before their parent leaves it.

A request that failed is told so by `retry` or `dead_letter` before it finishes; then that is said in step 4 instead
of 5.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from scrapy_durable.frontier.contract import DeadLettered, Held, Lease, Outbox, Retry
from scrapy_durable.participants import Participant

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_durable.frontier.contract import Inbox
    from scrapy_durable.stores import DurableStore

logger = logging.getLogger(__name__)

_SPARES = 5
"""Spares for each place: more would be asked for long after another worker has set a pause, fewer would run out."""


@dataclass(eq=False, slots=True)
class Task:
    """A lease that the engine has in hand, and what became of it."""

    lease: Lease
    downloaded: bool = False
    waits: bool = False
    """It counts as downloaded, unsent, and still takes up a place in Scrapy's downloader: another's may answer it."""
    seen: bool = False
    """Its response or failure has come past the last middleware, so that nothing was dropped on the way."""
    outcome: Retry | DeadLettered | Held | None = None
    """What to say instead of an acknowledgement; a `Held` releases the lease unused."""
    marks: list[tuple[DurableStore, int]] = field(default_factory=list)
    passed_on: int = 0
    """Items that this worker had passed on when it finished."""
    is_logged: bool = False
    """This worker's item log has items of it."""
    errback: Callable[..., Any] | None = None
    """What the request has lost for as long as the engine has it in hand, since it is put off and has not failed."""

    @property
    def held(self) -> Held:
        """The lease's name in what is said of it."""
        return self.lease.held

    @property
    def durable(self) -> bool:
        """True when every store has what this request yielded."""
        return all(store.durable >= mark for store, mark in self.marks)

    def retry(self, delay: float, reason: str) -> None:
        """When it finishes, queue it again after `delay` seconds instead of acknowledging it."""
        self.outcome = Retry(self.held, delay, reason)

    def dead_letter(self, reason: str) -> bool:
        """When it finishes, make it a dead letter; False when something else was said of it before."""
        if self.outcome is not None:
            return False
        self.outcome = DeadLettered(self.held, reason)
        return True

    def release(self) -> None:
        """When it finishes, queue it again at once, as if it had not been leased."""
        self.outcome = self.held

    def silence(self, request: Request) -> None:
        """Have Scrapy not tell the request's errback that it ends here: it will be leased again."""
        if request.errback is not None:
            self.errback, request.errback = request.errback, None


class Prefetched:
    """Leases that came with an answer of the frontier, and that the engine has not asked for yet."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._leases: deque[Lease] = deque()
        self._spares: dict[str, deque[Lease]] = {}
        """By slot."""
        self._places: Counter[str] = Counter()
        """Of each slot, those that have become free and that the frontier has not been told of yet."""

    def __len__(self) -> int:
        """How many, without spares."""
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        """In the order in which they are given to the engine."""
        return iter(self._leases)

    def add(self, leases: Iterable[Lease]) -> None:
        """Take in what came from the frontier."""
        for lease in leases:
            if lease.is_spare:
                self._spares.setdefault(lease.slot, deque()).append(lease)
            else:
                self._leases.append(lease)

    @property
    def spares(self) -> list[Lease]:
        """Those that wait for a place of their slot."""
        return list(chain.from_iterable(self._spares.values()))

    def pop(self) -> Lease | None:
        """The next one for the engine, which has to be assigned or dead-lettered."""
        return self._leases.popleft() if self._leases else self._next_spare()

    def _next_spare(self) -> Lease | None:
        """One that has a place, which the outbox says from now on."""
        for slot, number in self._places.items():
            if number and (spares := self._spares.get(slot)):
                self._places[slot] -= 1
                lease = spares.popleft()
                self._outbox.sent.append(lease.held)
                return lease
        return None

    def wanted_spares(self, places: Counter[str], most: int) -> dict[str, int]:
        """How many more are worth having, by slot: some for each place, `most` of all slots together.

        `places`: how many of each slot the engine has in flight.
        """
        places = places + Counter(lease.slot for lease in self._leases)
        total = places.total()
        wanted = {
            slot: min(_SPARES * number, most * number // total) - len(self._spares.get(slot, ()))
            for slot, number in places.items()
        }
        return {slot: number for slot, number in wanted.items() if number > 0}

    @property
    def going_out(self) -> int:
        """How many spares have a place, and go out as soon as the engine asks."""
        return sum(min(number, len(self._spares.get(slot, ()))) for slot, number in self._places.items())

    @property
    def empty_places(self) -> int:
        """How many places are free that no spare takes, and that the frontier has not been told of yet."""
        return self._places.total() - self.going_out

    def note_free(self, slot: str) -> None:
        """A place of that slot is free, which the outbox says."""
        self._places[slot] += 1

    def give_places_back(self, places: Counter[str]) -> Counter[str]:
        """The outbox is sent now: spares take the places that are free, and the frontier has those that are left, which
        are returned.

        Spares of a slot that has nothing in flight any more are released: no place would ever become free for them.
        `places` are those of the engine.
        """
        while (spare := self._next_spare()) is not None:
            self._leases.append(spare)
        emptied, self._places = self._places, Counter()
        places = places + Counter(lease.slot for lease in self._leases)
        for slot in [slot for slot in self._spares if not places[slot]]:
            self._outbox.releases.extend(lease.held for lease in self._spares.pop(slot))
        return emptied

    def dead_letter(self, lease: Lease, reason: str) -> None:
        """Make one a dead letter that was popped and cannot be read."""
        self._outbox.dead_lettered.append(DeadLettered(lease.held, reason))

    def forget(self, stale: Iterable[Held]) -> None:
        """Others have these now: they are not worth fetching any more."""
        gone = set(stale)
        self._leases = deque(lease for lease in self._leases if lease.held not in gone)
        for slot, spares in self._spares.items():
            self._spares[slot] = deque(lease for lease in spares if lease.held not in gone)

    def release(self, slot: str | None = None) -> None:
        """Release those of one slot, or all."""
        released = [lease.held for lease in self._leases if slot is None or lease.slot == slot]
        self._leases = deque(lease for lease in self._leases if slot is not None and lease.slot != slot)
        self._outbox.unsent.extend(released)
        self._outbox.releases.extend(released)
        for name in [slot] if slot is not None else list(self._spares):
            self._outbox.releases.extend(lease.held for lease in self._spares.pop(name, ()))


class Leases(Participant):
    """Where each lease of this worker is on its way; writes into the outbox what is to be said of it.

    It knows no engine: the scheduler tells it what is in Scrapy's hands.
    """

    def __init__(
        self, outbox: Outbox, capacity: int, seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`capacity`: how many may be waiting or under way at once; `seconds`: how long a lease holds."""
        self.stores: Sequence[DurableStore] = ()
        """Those that have to be durable before a request is acknowledged."""
        self.kept = 0
        """Items that this worker had passed on when the last acknowledged request finished: a kill costs none
        of them.
        """
        self.results_expected = False
        """Somebody notes the result of every request that was not dropped: dead-letter those that were."""
        self.takes_spares: Callable[[], bool] = lambda: False
        """Whether leases are worth having in hand before there is a place for them: from a frontier that is far, while
        anything is asked for.
        """
        self._outbox = outbox
        self._capacity = capacity
        self._seconds = seconds
        self._clock = clock
        self._renew_at = clock() + seconds / 3
        self.prefetched = Prefetched(outbox)
        self._tasks: dict[Request, Task] = {}
        self._finished: deque[Task] = deque()

    def __len__(self) -> int:
        """How many are in hand."""
        return len(self.prefetched) + len(self.prefetched.spares) + len(self._tasks) + len(self._finished)

    @property
    def at_work(self) -> bool:
        """True when one is leased, or waits for a store."""
        return bool(self._tasks or self._finished)

    @property
    def is_drained(self) -> bool:
        """True when the engine would be given nothing, though it has room."""
        return not self.prefetched and len(self._tasks) < self._capacity

    @property
    def prefetch(self) -> int:
        """How many more may come."""
        return max(0, self._capacity - self.under_way)

    @property
    def under_way(self) -> int:
        """How many wait for the engine, or for the site."""
        asked = sum(task.waits or not task.downloaded for task in self._tasks.values())
        return len(self.prefetched) + asked

    @property
    def slots(self) -> Iterator[str]:
        """The slots of those that are leased; some more than once."""
        return (task.lease.slot for task in self._tasks.values())

    def __getitem__(self, request: Request) -> Task:
        """What is known of a request that is leased. Raises KeyError for one that is not leased."""
        return self._tasks[request]

    def get(self, request: Request) -> Task | None:
        """The same, or None."""
        return self._tasks.get(request)

    # On the way to the engine

    def assign(self, request: Request, lease: Lease) -> None:
        """From now on this request carries it."""
        self._tasks[request] = Task(lease)

    # Back from the engine

    def note_downloaded(self, task: Task) -> None:
        """It is no longer in flight, if it was not before."""
        if not task.downloaded:
            task.downloaded = True
            self._outbox.downloaded.append(task.held)
            self.prefetched.note_free(task.lease.slot)

    def note_unsent(self, task: Task) -> bool:
        """It is done with and has not been in flight; False when it was downloaded before."""
        if task.downloaded:
            return False
        task.downloaded = True
        self._outbox.unsent.append(task.held)
        self.prefetched.note_free(task.lease.slot)
        return True

    def check(
        self, downloading: Container[Request], scraping: Container[Request], passed_on: int = 0
    ) -> None:
        """Find those that have left the downloader, and those that have left the scraper too; `passed_on`: how many
        items this worker has passed on.
        """
        for request in [request for request in self._tasks if request not in downloading]:
            task = self._tasks[request]
            if task.outcome is None:
                self.note_unsent(
                    task
                )  # answered by a middleware, or dropped: else it would have left the downloader
            else:
                self.note_downloaded(task)
            task.waits = False
            if request in scraping:
                continue
            del self._tasks[request]
            if task.errback is not None:
                request.errback = task.errback  # one that was kept in memory is leased as it is
            if task.outcome is None and self.results_expected and not task.seen:
                logger.error("Gave up %s, which was dropped on its way back; see the log before", request)
                task.dead_letter("dropped on its way back from the site")
            if task.outcome is None:
                task.marks = [(store, store.received) for store in self.stores]
                task.passed_on = passed_on
                self._finished.append(task)
            elif isinstance(task.outcome, Retry):
                self._outbox.retries.append(task.outcome)
            elif isinstance(task.outcome, Held):
                self._outbox.releases.append(task.outcome)
            else:
                self._outbox.dead_lettered.append(task.outcome)

    def settle(self) -> None:
        """Acknowledge what every store has made durable; in order, since the stores' numbers only grow."""
        while self._finished and self._finished[0].durable:
            task = self._finished.popleft()
            (self._outbox.logged if task.is_logged else self._outbox.acks).append(task.held)
            self.kept = task.passed_on

    # Held, and let go

    def renew_in_time(self) -> None:
        """Hold on to all of them for as long again, once a third of that is over."""
        if self._clock() < self._renew_at:
            return
        self._renew_at = self._clock() + self._seconds / 3
        self._outbox.renewals.extend(task.held for task in chain(self._tasks.values(), self._finished))
        self._outbox.renewals.extend(lease.held for lease in chain(self.prefetched, self.prefetched.spares))

    # As a participant

    def say(self, outbox: Outbox) -> None:
        """What is durable by now, and what has to be renewed."""
        self.settle()
        self.renew_in_time()
        places = Counter(task.lease.slot for task in self._tasks.values() if not task.downloaded)
        emptied = self.prefetched.give_places_back(places)
        if self.takes_spares():
            # The places that are empty come again with the answer, or else their spares do not come either.
            outbox.spares = self.prefetched.wanted_spares(places + emptied, 2 * self._capacity)

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """Others have what was stale."""
        if inbox.stale:
            self.prefetched.forget(inbox.stale)

    def crawl_ended(self) -> None:
        """Nothing that waits is worth fetching."""
        self.prefetched.release()

    @property
    def is_urgent(self) -> bool:
        """True when a third of the time that the leases hold is over."""
        return len(self) > 0 and self._clock() >= self._renew_at

    def release_at_work(self) -> None:
        """Release, unfinished, what was leased; it will be done again."""
        self._outbox.releases.extend(task.held for task in chain(self._tasks.values(), self._finished))
        self._tasks.clear()
        self._finished.clear()
