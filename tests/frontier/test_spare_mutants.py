"""The state machine finds each safeguard of the spares that is taken away: none is lost with its worker, leased twice,
or beyond the cap (docs/decisions/0042-how-a-cap-is-shared.md).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scrapy_durable.exceptions import FrontierError
from scrapy_durable.frontier import redis as redis_module
from scrapy_durable.frontier.contract import Held, Outbox, Pause
from tests.frontier.test_state_machine import FrontierMachine, RedisStore, SqliteStore, Store, mutate
from tests.redis_server import RedisServer

MUTANTS = {
    "one that was sent is not in flight": (
        "count_in_flight(slot, holder_of(lease), 1)",
        "count_in_flight(slot, holder_of(lease), 0)",
    ),
    "one that was sent is in flight for who says so": (
        "count_in_flight(slot, holder_of(lease), 1)",
        "count_in_flight(slot, worker, 1)",
    ),
    "one that is said to be sent twice counts twice": ("if state ~= SPARE then return end", ""),
    "one that expires leaves a place that it never had": (
        "redis.call('HDEL', LEASES, key)\n    if is_downloaded == 0 then",
        "redis.call('HDEL', LEASES, key)\n    if is_downloaded ~= 1 then",
    ),
    "one that is ended leaves a place that it never had": (
        "callback = unpack_lease(lease)\n        if is_downloaded == 0 then",
        "callback = unpack_lease(lease)\n        if is_downloaded ~= 1 then",
    ),
    "one that is not in flight is downloaded": (
        "if is_downloaded ~= 0 then return end",
        "if is_downloaded == 1 then return end",
    ),
    "one that expires is an attempt": ("if is_downloaded == SPARE then attempt = attempt - 1 end", ""),
    "one never expires": (
        "local _, _, _, _, ends = unpack_lease(all[i + 1])\n            if ends <= now then",
        "local _, _, _, state, ends = unpack_lease(all[i + 1])\n            if ends <= now and state ~= SPARE then",
    ),
    "one can be leased again": (
        "redis.call('ZREMRANGEBYLEX', READY, '[' .. members[1]",
        "redis.call('ZREMRANGEBYLEX', READY, (is_spare and '(' or '[') .. members[1]",
    ),
    "the end of a queue is given": ("local LONG = 4", "local LONG = 1"),
    "of a slot with an interval": ("if cap == 0 or interval > 0 or (", "if cap == 0 or ("),
    "of a slot that is paused": ("or (held_until(slot) or 0) > now then", "then"),
    "for who has no place": ("if held == 0 or (", "if ("),
    "for who has more than its share": ("(#others > 0 and held > ", "(#others > 9 and held > "),
    "that are in flight at once": ("if not is_spare then count_in_flight", "if true then count_in_flight"),
}


def tell_of_spares(make_store: Callable[[], Store]) -> None:
    """Spares that are sent, answered, released, refused, and left behind by their worker: a story that chance comes
    upon too seldom.
    """
    machine = FrontierMachine(make_store)
    first, second = machine.worker(0), machine.worker(1)

    def say(worker: str, outbox: Outbox, want: int = 0) -> None:
        machine.exchange_and_compare(worker, outbox, want, 0)
        machine.every_count_is_that_of_the_model()

    def ask(slot: str, *, queued: int = 16, want: int = 0, number: int = 0) -> None:
        machine.spares_are_asked_for(lost=1, number=number, queued=queued, slot=slot, spares=3, want=want)
        machine.every_count_is_that_of_the_model()

    def spares() -> list[Held]:
        return machine.model.spares(first)

    try:
        ask("b", queued=4)  # it has no place
        ask("b", queued=4, want=2)  # too few are queued
        ask("b")
        machine.spares_take_places(answered=False, end="acks", lost=1, most=1, number=0, said_by=1, want=0)
        machine.a_stale_spare_was_sent(number=0)
        say(second, Outbox(), 3)
        ask("b")  # another asks
        say(first, Outbox(downloaded=spares()[:1]), 3)
        say(first, Outbox(releases=spares()[:1]), 3)
        machine.time_passes(1)
        say(first, Outbox(pauses={"b": Pause(10.0)}))
        ask("b")  # paused
        machine.time_passes(3)
        say(first, Outbox(renewals=machine.model.places(first, "b")))
        machine.time_passes(3)  # which ends the spares alone
        say(second, Outbox(), 3)
        machine.time_passes(6)
        say(second, Outbox(), 3)
        say(first, Outbox(acks=machine.model.places(second, "b")), 3)
        machine.a_pace_was_learned(10.0)
        ask("a", want=1)
        machine.time_passes(1)
        ask("a")  # a place is not what it waits for
    finally:
        machine.teardown()


def test_spares_are_what_the_model_says(tmp_path: Path, redis7: RedisServer) -> None:
    tell_of_spares(lambda: SqliteStore(tmp_path / "frontier.sqlite"))
    tell_of_spares(lambda: RedisStore(redis7))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_without_a_safeguard_of_the_spares_the_machine_fails(
    mutant: str, redis7: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = MUTANTS[mutant]
    monkeypatch.setattr(redis_module, "EXCHANGE", mutate(redis_module.EXCHANGE, old, new))
    with pytest.raises((AssertionError, KeyError, FrontierError)):
        tell_of_spares(lambda: RedisStore(redis7))
