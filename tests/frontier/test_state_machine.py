"""Any sequence of exchanges, faults and restarts leaves each element in exactly one state, as the model has
it.

The machine runs against the real backends and moves their clocks. That it can fail is shown with mutants:
each breaks one rule of the contract, and the machine has to find it.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scrapy_durable.exceptions import FrontierError, FrontierUnavailable, LogAbandoned
from scrapy_durable.frontier import redis as redis_module
from scrapy_durable.frontier import sqlite_change
from scrapy_durable.frontier.contract import (
    DeadLettered,
    Entry,
    Held,
    Inbox,
    Outbox,
    PaceChange,
    Pause,
    Retry,
    SlotLimit,
)
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_scripts import Script
from scrapy_durable.frontier.sqlite import SqliteFrontier
from tests.frontier.backends import LEASE, MAX_ATTEMPTS, KeysAtHandedTime, plain_client
from tests.frontier.model import Model
from tests.redis_server import RedisServer

CAP = 2

Pick = tuple[int, str, float]
"""How many leases ago, what to say about it, and a delay in seconds."""


class KilledError(Exception):
    """Raised where the worker's process is killed."""


class FaultySqlite(SqliteFrontier):
    """Fails before the transaction that `fail_at` counts down to is committed."""

    fail_at: int | None = None
    failure: type[Exception] = KilledError

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[Any]:
        with super()._transaction(write=write) as db:
            yield db
            if write and self.fail_at is not None:
                self.fail_at -= 1
                if self.fail_at < 0:
                    self.fail_at = None
                    raise self.failure


class FaultyKeys(KeysAtHandedTime):
    """Fails after the command that `fail_at` counts down to was done."""

    fail_at: int | None = None
    failure: type[Exception] = KilledError

    async def command(self, *words: Any) -> Any:
        reply = await super().command(*words)
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at < 0:
                self.fail_at = None
                raise self.failure
        return reply


class FaultyRedis(RedisFrontier):
    """On keys that fail as told."""

    _keys: FaultyKeys

    @property
    def fail_at(self) -> int | None:
        return self._keys.fail_at

    @fail_at.setter
    def fail_at(self, number: int | None) -> None:
        self._keys.fail_at = number

    @property
    def failure(self) -> type[Exception]:
        return self._keys.failure

    @failure.setter
    def failure(self, failure: type[Exception]) -> None:
        self._keys.failure = failure


class Store:
    """Opens faulty frontiers on one store, at the machine's time."""

    workers: tuple[str, ...]
    has_spares: bool
    restart_frees_leases: bool
    done_when_failing_at: int
    """From which `fail_at` on an exchange has happened, when it is one step."""

    def __init__(self) -> None:
        self.now = 0.0

    def open(self, worker: str) -> Any:
        raise NotImplementedError

    def clean(self) -> None:
        raise NotImplementedError


class SqliteStore(Store):
    workers = ("w1",)
    has_spares = False
    restart_frees_leases = True
    done_when_failing_at = 1

    def __init__(self, path: Path, kind: type[FaultySqlite] = FaultySqlite) -> None:
        super().__init__()
        self.path, self.kind = path, kind

    def open(self, worker: str) -> FaultySqlite:
        return self.kind(
            self.path,
            worker=worker,
            lease_seconds=LEASE,
            max_attempts=MAX_ATTEMPTS,
            limits={},
            default_limit=SlotLimit(CAP),
            clock=lambda: 1_800_000_000 + self.now,
        )

    def clean(self) -> None:
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink()


class RedisStore(Store):
    workers = ("w1", "w2")
    has_spares = True
    restart_frees_leases = False
    done_when_failing_at = 0

    def __init__(self, server: RedisServer, kind: type[FaultyRedis] = FaultyRedis) -> None:
        super().__init__()
        self.server, self.kind = server, kind

    def open(self, worker: str) -> FaultyRedis:
        return self.kind(
            FaultyKeys(plain_client(self.server.port, socket_timeout=20), prefix="machine"),
            worker=worker,
            lease_seconds=LEASE,
            max_attempts=MAX_ATTEMPTS,
            limits={"c": SlotLimit(CAP)},
            default_limit=SlotLimit(CAP),
        )

    def clean(self) -> None:
        with self.server.client() as client:
            client.flushall()


def slot_of(key: int) -> str:
    return "abc"[key % 3]


ENTRIES = st.lists(
    st.builds(
        lambda key, priority, delay: Entry(
            key, slot_of(key), f"parse_{key % 2}", b"payload %d" % key, priority, delay
        ),
        key=st.integers(-6, 8),
        priority=st.integers(-1, 1),
        delay=st.sampled_from([0.0, 0.0, 0.0, 10.0, 50.0]),
    ),
    max_size=6,
)
ACTIONS = st.sampled_from(
    [
        "downloaded",
        "unsent",
        "acks",
        "acks",
        "logged",
        "logged",
        "confirmed",
        "retries",
        "dead_lettered",
        "releases",
        "renewals",
    ]
)
MANY = range(12, 60)
"""Keys of which so many can be queued that some are given as spares."""
PICKS = st.lists(st.tuples(st.integers(0, 9), ACTIONS, st.sampled_from([0.0, 20.0])), max_size=5)
PACES = st.dictionaries(
    st.just("a"), st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from([0.0, 10.0, 20.0])), max_size=1
)
"""Slot to how many versions the worker is behind, and the interval that it wants. One slot only: much that is
of interest does not happen where requests are rare.
"""
PAUSES = st.dictionaries(
    st.sampled_from("abc"),
    st.builds(Pause, st.sampled_from([10.0, 40.0]), st.sampled_from(["", "why"])),
    max_size=1,
)


class FrontierMachine(RuleBasedStateMachine):
    """Every rule does something to the frontier and to the model, and compares."""

    def __init__(self, make_store: Callable[[], Store]) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = make_store()
        self.store.clean()
        self.model = Model(cap=CAP, has_spares=self.store.has_spares)
        self.leases: list[Held] = []
        self.frontiers = {worker: self.store.open(worker) for worker in self.store.workers}
        for frontier in self.frontiers.values():
            self.wait(frontier.begin("crawl"))

    @initialize(interval=st.sampled_from([0.0, 10.0]))
    def a_pace_was_learned(self, interval: float) -> None:
        self.exchange_and_compare("w1", Outbox(paces={"a": PaceChange(0, interval)}), 0, 0)

    def wait(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def worker(self, number: int) -> str:
        return self.store.workers[number % len(self.store.workers)]

    def outbox(
        self,
        entries: list[Entry],
        picks: list[Pick],
        pauses: dict[str, Pause],
        paces: dict[str, tuple[int, float]],
    ) -> Outbox:
        """An outbox about some of the last ten leases, of whichever worker and stale or not."""
        outbox = Outbox(entries=entries, pauses=pauses)
        if picks:
            outbox.report = {"picks": len(picks), "now": 2**62 + len(self.leases)}
        for slot, (behind, interval) in paces.items():
            outbox.paces[slot] = PaceChange(max(0, self.model.pace(slot).version - behind), interval)
        for index, action, delay in picks:
            if index >= len(self.leases):
                continue
            held = self.leases[-1 - index]
            if action == "retries":
                outbox.retries.append(Retry(held, delay, "status 503"))
            elif action == "confirmed":
                outbox.confirmed.append(held.token)
            elif action == "dead_lettered":
                outbox.dead_lettered.append(DeadLettered(held, "status 404"))
            else:
                getattr(outbox, action).append(held)
        return outbox

    @rule(
        number=st.integers(0, 1),
        entries=ENTRIES,
        picks=PICKS,
        pauses=PAUSES,
        paces=PACES,
        want=st.integers(0, 6),
        lost=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def exchange(
        self,
        number: int,
        entries: list[Entry],
        picks: list[Pick],
        pauses: dict[str, Pause],
        paces: dict[str, tuple[int, float]],
        want: int,
        lost: int,
    ) -> None:
        """A worker says something and asks for leases; the answer is lost up to twice, and it repeats itself."""
        outbox = self.outbox(entries, picks, pauses, paces)
        self.exchange_and_compare(self.worker(number), outbox, want, lost)

    @rule(number=st.integers(0, 1), entries=ENTRIES, behind=st.integers(0, 1), want=st.integers(1, 6))
    def one_was_not_sent(self, number: int, entries: list[Entry], behind: int, want: int) -> None:
        """Of the slot that has an interval: the last lease, or the one an interval before it."""
        worker = self.worker(number)
        self.exchange_and_compare(worker, Outbox(entries=entries), want, 0)
        self.time_passes(1)
        self.exchange_and_compare(worker, Outbox(), want, 0)
        spaced = [held for held in reversed(self.leases) if slot_of(held.key) == "a"]
        self.exchange_and_compare(worker, Outbox(unsent=spaced[behind : behind + 1]), want, 0)

    @rule(
        number=st.integers(0, 1),
        slot=st.sampled_from("abbc"),
        queued=st.sampled_from([4, 16]),
        want=st.integers(0, 6),
        spares=st.integers(1, 5),
        lost=st.sampled_from([0, 0, 1]),
    )
    def spares_are_asked_for(
        self, number: int, slot: str, queued: int, want: int, spares: int, lost: int
    ) -> None:
        """By a worker that has the requests of a long queue ahead, or of a short one."""
        keys = [key for key in MANY if slot_of(key) == slot][:queued]
        entries = [Entry(key, slot, "parse_0", b"payload %d" % key) for key in keys]
        self.exchange_and_compare(self.worker(number), Outbox(entries=entries), want, 0)
        self.exchange_and_compare(self.worker(number), Outbox(spares={slot: spares}), 0, lost)

    @rule(
        number=st.integers(0, 1),
        said_by=st.integers(0, 1),
        most=st.integers(1, 2),
        end=st.sampled_from(["", "acks", "releases"]),
        answered=st.booleans(),
        want=st.integers(0, 3),
        lost=st.sampled_from([0, 0, 1]),
    )
    def spares_take_places(
        self, number: int, said_by: int, most: int, end: str, answered: bool, want: int, lost: int
    ) -> None:
        """Each that of one in flight, which may be ended with the same exchange, and be answered itself by then."""
        outbox, worker = Outbox(), self.worker(number)
        free: dict[str, list[Held]] = {}
        for spare in self.model.spares(worker):
            slot = slot_of(spare.key)
            places = free.setdefault(slot, self.model.places(worker, slot))
            if places and len(outbox.sent) < most:
                outbox.sent.append(spare)
                outbox.downloaded += [places.pop(0), *[spare] * answered]
                outbox.spares[slot] = 1
        if end:
            getattr(outbox, end).extend(outbox.downloaded)
        self.exchange_and_compare(self.worker(said_by), outbox, want, lost)

    @rule(number=st.integers(0, 1))
    def a_stale_spare_was_sent(self, number: int) -> None:
        """Whose lease has ended, or that was in flight before: it counts for nothing."""
        spares = {held.token for worker in self.store.workers for held in self.model.spares(worker)}
        ended = [held for held in self.leases if held.token not in spares]
        if self.store.has_spares:
            self.exchange_and_compare(self.worker(number), Outbox(sent=ended[-3:]), 0, 0)

    def exchange_and_compare(self, worker: str, outbox: Outbox, want: int, lost: int) -> None:
        inbox = self.wait(self.exchange_until_answered(worker, outbox, want, lost))
        refused, stale, dead_lettered = self.model.exchange(worker, outbox)
        assert inbox.refused == refused
        assert inbox.stale == stale
        assert inbox.dead_lettered == dead_lettered
        assert inbox.paces == {slot: self.model.pace(slot) for slot in outbox.paces}
        self.model.leased(worker, inbox.leases, want, outbox.spares)
        self.model.check_inbox(inbox)
        self.leases += [lease.held for lease in inbox.leases]

    async def exchange_until_answered(self, worker: str, outbox: Outbox, want: int, lost: int) -> Inbox:
        frontier = self.frontiers[worker]
        frontier.failure = FrontierUnavailable
        for _ in range(lost):
            frontier.fail_at = 0
            with pytest.raises(FrontierUnavailable):
                await frontier.exchange(outbox, want)
        inbox: Inbox = await frontier.exchange(outbox, want)
        return inbox

    @rule(number=st.integers(0, 1), entries=ENTRIES, picks=PICKS, fail_at=st.integers(0, 1))
    def killed_in_an_exchange(
        self, number: int, entries: list[Entry], picks: list[Pick], fail_at: int
    ) -> None:
        """A worker is killed somewhere in an exchange: all of it has happened, or nothing."""
        worker = self.worker(number)
        outbox = self.outbox(entries, picks, {}, {})
        frontier = self.frontiers[worker]
        frontier.fail_at, frontier.failure = fail_at, KilledError
        with suppress(KilledError):
            self.wait(frontier.exchange(outbox, 0))
        frontier.fail_at = None
        if fail_at >= self.store.done_when_failing_at:
            self.model.exchange(worker, outbox)
            self.model.leased(worker, [], 0)
        self.restart(worker)

    @rule(number=st.integers(0, 1))
    def restarted(self, number: int) -> None:
        """A worker is killed between two exchanges, and another of its name takes its place."""
        self.restart(self.worker(number))

    def restart(self, worker: str) -> None:
        status = self.wait(self.frontiers[worker].status())
        self.model.check_status(status)
        self.wait(self.frontiers[worker].close())
        self.frontiers[worker] = self.store.open(worker)
        self.move_clocks()
        state = self.wait(self.frontiers[worker].begin("another"))
        assert (state.crawl_id, state.resumed) == ("crawl", True)
        if self.store.restart_frees_leases:
            self.model.reclaim(float("inf"))
        if not self.model.unfinished:
            self.model.finisher = None
        self.model.joined.pop(worker, None)

    @rule(tens=st.sampled_from([1, 3, 6, 6]))
    def time_passes(self, tens: int) -> None:
        self.store.now += 10.0 * tens
        self.model.now += 10.0 * tens
        self.move_clocks()

    def move_clocks(self) -> None:
        for frontier in self.frontiers.values():
            frontier.clock_offset = self.store.now

    @rule()
    def dead_letters_are_tried_again(self) -> None:
        assert self.wait(self.frontiers["w1"].retry_dead()) == self.model.retry_dead()

    @rule()
    def dead_letters_are_dropped(self) -> None:
        assert self.wait(self.frontiers["w1"].drop_dead()) == self.model.drop_dead()

    @rule(number=st.integers(0, 1), log=st.sampled_from(["log-1", "log-1", "log-2"]))
    def a_log_is_joined(self, number: int, log: str) -> None:
        """A worker's own, again, or the one that another has."""
        worker = self.worker(number)
        try:
            tokens = self.wait(self.frontiers[worker].join_log(log))
        except LogAbandoned:
            tokens = None
        assert tokens == self.model.join_log(worker, log)

    @rule(number=st.integers(0, 1), entries=ENTRIES)
    def a_log_is_taken_over(self, number: int, entries: list[Entry]) -> None:
        """Its worker goes on to say what it has done; a worker that is alone has taken the log from itself."""
        self.a_log_is_joined(number, "log-1")
        self.exchange_and_compare(self.worker(number), Outbox(entries=entries), 3, 0)
        self.a_log_is_joined(number + 1, "log-1")
        self.exchange_and_compare(self.worker(number), Outbox(logged=self.leases[-2:]), 0, 0)

    @rule(log=st.sampled_from(["log-2", "nobody's"]))
    def a_log_is_abandoned(self, log: str) -> None:
        assert self.wait(self.frontiers["w1"].abandon_log(log)) == self.model.abandon_log(log)

    @rule(number=st.integers(0, 1))
    def the_end_is_claimed(self, number: int) -> None:
        worker = self.worker(number)
        elected = self.wait(self.frontiers[worker].elect_finisher())
        assert (elected is not None) == self.model.claim(worker)
        if elected is not None:
            self.model.check_status(elected)

    @invariant()
    def what_is_remembered_is_that_of_the_model(self) -> None:
        found = self.wait(self.frontiers["w1"].logs())
        assert {log.name: log.worker for log in found} == self.model.owners
        assert {log.name: log.unconfirmed for log in found} == {
            log: len(tokens) for log, tokens in self.model.accepted.items()
        }
        assert {log.name for log in found if log.abandoned} == self.model.abandoned

    @invariant()
    def every_count_is_that_of_the_model(self) -> None:
        self.model.check_status(self.wait(self.frontiers["w1"].status()))
        self.model.check_leases(self.wait(self.frontiers["w1"].leases()))
        assert (
            sorted(letter.key for letter in self.wait(self.frontiers["w1"].dead_letters()))
            == self.model.dead()
        )

    def teardown(self) -> None:
        """Work on until nothing is left: each element that was pushed ends done or dead."""
        try:
            self.drain()
        finally:
            for frontier in self.frontiers.values():
                self.wait(frontier.close())
            self.loop.close()

    def drain(self) -> None:
        outbox = Outbox()
        for _ in range(200):
            self.time_passes(6)
            inbox = self.wait(self.frontiers["w1"].exchange(outbox, 50))
            self.model.exchange("w1", outbox)
            self.model.leased("w1", inbox.leases, 50)
            outbox = Outbox(acks=[lease.held for lease in inbox.leases])
            if inbox.unfinished == 0:
                break
        self.every_count_is_that_of_the_model()
        assert {element.state for element in self.model.elements.values()} <= {"done", "dead"}


def run_machine(make_store: Callable[[], Store], *, examples: int, mutant: bool = False) -> None:
    """Run the machine; of a mutant it only has to be known whether it is caught, not by how short a story."""
    phases = [Phase.generate] if mutant else [Phase.generate, Phase.shrink]
    run_state_machine_as_test(
        lambda: FrontierMachine(make_store),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            database=None,
            derandomize=mutant,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_sqlite_backend_does_what_the_model_says(tmp_path: Path) -> None:
    run_machine(lambda: SqliteStore(tmp_path / "frontier.sqlite"), examples=60)


def test_the_redis_backend_does_what_the_model_says(redis7: RedisServer) -> None:
    run_machine(lambda: RedisStore(redis7), examples=60)


def test_valkey_does_what_the_model_says(valkey9: RedisServer) -> None:
    run_machine(lambda: RedisStore(valkey9), examples=10)


# Mutants.


async def ack_first(frontier: Any, exchange: Callable[..., Any], outbox: Outbox, want: int) -> Inbox:
    """Two steps where the contract asks for one, and the acks in the first of them."""
    acked: Inbox = await exchange(frontier, Outbox(acks=outbox.acks), 0)
    rest: Inbox = await exchange(frontier, dataclasses.replace(outbox, acks=[]), want)
    return dataclasses.replace(rest, stale=acked.stale + rest.stale)


class AckFirstSqlite(FaultySqlite):
    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        return await ack_first(self, SqliteFrontier.exchange, outbox, want)


class AckFirstRedis(FaultyRedis):
    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        return await ack_first(self, RedisFrontier.exchange, outbox, want)


def mutate(script: Script, old: str, new: str) -> Script:
    assert script.text.count(old) == 1
    text = script.text.replace(old, new)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def assert_caught(make_store: Callable[[], Store]) -> None:
    """The machine fails; or it does so only now and then, as when the order of two slots decides."""
    with pytest.raises((AssertionError, KeyError, Flaky)):
        run_machine(make_store, examples=300, mutant=True)


def test_sqlite_without_fencing_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = sqlite_change.EXCHANGE.find_held
    assert statement.count("AND token = ?") == 1
    unfenced = statement.replace("AND token = ?", "AND ? > 0")
    monkeypatch.setattr(sqlite_change.EXCHANGE, "find_held", unfenced)
    assert_caught(lambda: SqliteStore(tmp_path / "frontier.sqlite"))


def test_redis_without_fencing_is_caught(redis7: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    unfenced = mutate(redis_module.EXCHANGE, "unpack_lease(lease) == message[2]", "unpack_lease(lease) > 0")
    monkeypatch.setattr(redis_module, "EXCHANGE", unfenced)
    assert_caught(lambda: RedisStore(redis7))


def test_sqlite_that_acks_first_is_caught(tmp_path: Path) -> None:
    assert_caught(lambda: SqliteStore(tmp_path / "frontier.sqlite", AckFirstSqlite))


def test_redis_that_acks_first_is_caught(redis7: RedisServer) -> None:
    assert_caught(lambda: RedisStore(redis7, AckFirstRedis))


def test_redis_that_does_twice_what_is_said_twice_is_caught(
    redis7: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetful = mutate(redis_module.EXCHANGE, "last.number == exchange_number", "last.number < 0")
    monkeypatch.setattr(redis_module, "EXCHANGE", forgetful)
    assert_caught(lambda: RedisStore(redis7))


def test_sqlite_that_counts_no_failure_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_change.EXCHANGE, "fail", "SELECT ?")
    assert_caught(lambda: SqliteStore(tmp_path / "frontier.sqlite"))


def test_redis_that_counts_no_failure_is_caught(redis7: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    careless = mutate(
        redis_module.EXCHANGE, "pack_tries(attempt, failures + 1)", "pack_tries(attempt, failures)"
    )
    monkeypatch.setattr(redis_module, "EXCHANGE", careless)
    assert_caught(lambda: RedisStore(redis7))


def test_redis_that_lets_another_process_use_a_log_is_caught(
    redis7: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfenced = mutate(
        redis_module.EXCHANGE, "if owner ~= worker or owner_nonce ~= nonce then", "if false then"
    )
    monkeypatch.setattr(redis_module, "EXCHANGE", unfenced)
    assert_caught(lambda: RedisStore(redis7))


def test_sqlite_that_remembers_what_is_stale_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = sqlite_change.Change.finish

    def careless(change: sqlite_change.Change, acks: list[Held]) -> list[int]:
        finish(change, acks)
        return [held.token for held in acks if held not in change.stale[1:]]

    monkeypatch.setattr(sqlite_change.Change, "finish", careless)
    with pytest.raises((AssertionError, KeyError, Flaky, FrontierError)):
        run_machine(lambda: SqliteStore(tmp_path / "frontier.sqlite"), examples=300, mutant=True)


def test_redis_without_caps_is_caught(redis7: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    uncapped = mutate(redis_module.EXCHANGE, "if cap == 0 then", "if cap > 0 then")
    monkeypatch.setattr(redis_module, "EXCHANGE", uncapped)
    assert_caught(lambda: RedisStore(redis7))


def test_sqlite_that_takes_a_pace_of_any_version_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = sqlite_change.EXCHANGE.change_pace
    assert statement.count("AND pace_version = ?") == 1
    careless = statement.replace("AND pace_version = ?", "AND ? >= 0")
    monkeypatch.setattr(sqlite_change.EXCHANGE, "change_pace", careless)
    assert_caught(lambda: SqliteStore(tmp_path / "frontier.sqlite"))


def test_redis_that_takes_a_pace_of_any_version_is_caught(
    redis7: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = mutate(redis_module.EXCHANGE, "if pace_of(slot) == pace[1] then", "if pace[1] >= 0 then")
    monkeypatch.setattr(redis_module, "EXCHANGE", careless)
    assert_caught(lambda: RedisStore(redis7))


def test_redis_that_obeys_no_pace_is_caught(redis7: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = mutate(redis_module.EXCHANGE, "if some_paced then", "if not some_paced then")
    monkeypatch.setattr(redis_module, "EXCHANGE", hasty)
    assert_caught(lambda: RedisStore(redis7))


def tell_that_one_before_the_last_was_not_sent(make_store: Callable[[], Store]) -> None:
    """Of a slot that has an interval: the time of its next request depends on the last lease alone. A story that chance
    comes upon too seldom.
    """
    machine = FrontierMachine(make_store)
    try:
        machine.a_pace_was_learned(10.0)
        for _ in range(3):
            entries = [Entry(key, "a", "parse_0", b"payload %d" % key, 0, 0.0) for key in (0, 3, 6)]
            machine.one_was_not_sent(behind=1, entries=entries, number=0, want=1)
            machine.every_count_is_that_of_the_model()
    finally:
        machine.teardown()


def test_only_the_last_lease_frees_the_time_of_the_next(tmp_path: Path, redis7: RedisServer) -> None:
    tell_that_one_before_the_last_was_not_sent(lambda: SqliteStore(tmp_path / "frontier.sqlite"))
    tell_that_one_before_the_last_was_not_sent(lambda: RedisStore(redis7))


def test_sqlite_that_frees_the_time_of_any_lease_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = sqlite_change.EXCHANGE.free_time
    assert statement.count("AND last_token = ?") == 1
    careless = statement.replace("AND last_token = ?", "AND ? > 0")
    monkeypatch.setattr(sqlite_change.EXCHANGE, "free_time", careless)
    with pytest.raises(AssertionError):
        tell_that_one_before_the_last_was_not_sent(lambda: SqliteStore(tmp_path / "frontier.sqlite"))


def test_redis_that_frees_the_time_of_any_lease_is_caught(
    redis7: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = mutate(redis_module.EXCHANGE, "if last == message[2] then", "if last > 0 then")
    monkeypatch.setattr(redis_module, "EXCHANGE", careless)
    with pytest.raises(AssertionError):
        tell_that_one_before_the_last_was_not_sent(lambda: RedisStore(redis7))


async def report_first(frontier: Any, exchange: Callable[..., Any], outbox: Outbox, want: int) -> Inbox:
    """The numbers in a step before that of the acks that they count."""
    if outbox.report:
        await exchange(frontier, Outbox(report=outbox.report), 0)
    inbox: Inbox = await exchange(frontier, dataclasses.replace(outbox, report={}), want)
    return inbox


class ReportFirstSqlite(FaultySqlite):
    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        return await report_first(self, SqliteFrontier.exchange, outbox, want)


class ReportFirstRedis(FaultyRedis):
    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        return await report_first(self, RedisFrontier.exchange, outbox, want)


def test_sqlite_that_reports_first_is_caught(tmp_path: Path) -> None:
    assert_caught(lambda: SqliteStore(tmp_path / "frontier.sqlite", ReportFirstSqlite))


def test_redis_that_reports_first_is_caught(redis7: RedisServer) -> None:
    assert_caught(lambda: RedisStore(redis7, ReportFirstRedis))
