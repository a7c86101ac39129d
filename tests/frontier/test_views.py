"""What there is to see of a frontier: who holds what since when, why sites wait, why requests were given up."""

from __future__ import annotations

import pytest

from scrapy_durable.exceptions import FrontierDamaged
from scrapy_durable.frontier.contract import (
    LONGEST_REASON,
    Counts,
    DeadLettered,
    Frontier,
    Held,
    HeldLease,
    Outbox,
    PaceChange,
    Pause,
    Retry,
    SlotLimit,
    SlotUse,
    SlotWait,
)
from scrapy_durable.frontier.reasons import LEASE_EXPIRED, LONGEST, MOST_KINDS, OTHER, kind_of
from tests.frontier.backends import BEGIN, LEASE, MAX_ATTEMPTS, Backend, RedisBackend
from tests.frontier.test_contract import begun, counts, entries, held

# Leases.


async def test_a_lease_is_shown_with_who_has_it_and_since_when(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, 2, slot="sité"), 0)
    (first,) = (await frontier.exchange(Outbox(), 1)).leases
    backend.advance(20)
    await frontier.exchange(Outbox(renewals=held(first), downloaded=held(first)), 1)
    one, two = await frontier.leases()
    assert one == HeldLease(
        key=1,
        token=first.token,
        slot="sité",
        callback="parse",
        worker="w1",
        attempt=1,
        failures=0,
        since=BEGIN,
        deadline=BEGIN + 20 + LEASE,
        downloaded=True,
        payload=b"payload of 1",
    )
    assert (two.key, two.since, two.deadline, two.downloaded) == (2, BEGIN + 20, BEGIN + 20 + LEASE, False)


async def test_leases_come_the_oldest_first_and_no_more_than_asked_for(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(*range(300)), 0)
    for _ in range(3):
        await frontier.exchange(Outbox(), 100)
        backend.advance(1)
    first = (await frontier.leases(1))[0]
    await frontier.exchange(Outbox(releases=[Held(first.key, first.token)]), 0)
    await frontier.exchange(Outbox(), 1)
    assert [lease.key for lease in await frontier.leases(150)] == list(range(1, 151))
    assert [lease.key for lease in await frontier.leases()][-2:] == [299, 0], "the youngest lease is the last"
    assert await frontier.leases(0) == []


async def test_attempts_and_failures_of_a_lease_are_shown(backend: Backend) -> None:
    frontier = await begun(backend)
    (lease,) = (await frontier.exchange(entries(1), 1)).leases
    await frontier.exchange(Outbox(retries=[Retry(lease.held, 0, "status 503")]), 1)
    (shown,) = await frontier.leases()
    assert (shown.attempt, shown.failures) == (2, 1)


async def test_leases_are_seen_without_joining_and_there_are_none_without_a_crawl(lasting: Backend) -> None:
    beside = lasting.open("command")
    assert await beside.leases() == []
    frontier = await begun(lasting)
    await frontier.exchange(entries(1), 1)
    assert [(lease.key, lease.worker) for lease in await beside.leases()] == [(1, "w1")]
    await frontier.forget()
    assert await beside.leases() == []


# Why requests were tried again or given up.


async def gave_up(frontier: Frontier) -> dict[str, int]:
    return (await frontier.status()).dead_lettered


async def test_retries_and_dead_letters_are_counted_by_the_kind_of_their_reason(backend: Backend) -> None:
    frontier = await begun(backend)
    one, two, three, four, five = (await frontier.exchange(entries(*range(5)), 5)).leases
    outbox = Outbox(
        retries=[
            Retry(one.held, 5, "status 503"),
            Retry(two.held, 0, "status 503"),
            Retry(three.held, 0, ""),
        ],
        dead_lettered=[
            DeadLettered(four.held, "status 404; body begins b'x'"),
            DeadLettered(five.held, "status 404; body begins b'y'"),
        ],
    )
    await frontier.exchange(outbox, 0)
    stale = Outbox(retries=outbox.retries, dead_lettered=outbox.dead_lettered)
    await frontier.exchange(stale, 0)
    status = await frontier.status()
    assert status.retried == {"status 503": 2, OTHER: 1}
    assert status.dead_lettered == {"status 404": 2}


async def test_a_last_try_and_a_last_expiry_count_as_dead_letters(backend: Backend) -> None:
    frontier = await begun(backend)
    outbox = entries(1)
    for _ in range(MAX_ATTEMPTS):
        (lease,) = (await frontier.exchange(outbox, 1)).leases
        outbox = Outbox(retries=[Retry(lease.held, 0, "status 503")])
    await frontier.exchange(outbox, 0)
    await frontier.exchange(entries(2), 0)
    for _ in range(MAX_ATTEMPTS):
        await frontier.exchange(Outbox(), 1)
        backend.advance(LEASE)
    await frontier.exchange(Outbox(), 1)
    status = await frontier.status()
    assert status.retried == {"status 503": MAX_ATTEMPTS - 1}
    assert status.dead_lettered == {"status 503": 1, LEASE_EXPIRED: 1}
    letters = await frontier.dead_letters()
    assert [kind_of(letter.reason) for letter in letters] == ["status 503", LEASE_EXPIRED]


async def test_replaying_and_dropping_dead_letters_leaves_what_was_counted(backend: Backend) -> None:
    frontier = await begun(backend)
    for action in (frontier.retry_dead, frontier.drop_dead):
        (lease,) = (await frontier.exchange(entries(1), 1)).leases
        await frontier.exchange(Outbox(dead_lettered=[DeadLettered(lease.held, "status 404")]), 0)
        assert await action() == 1
        assert (await counts(frontier)).dead == 0
    assert await gave_up(frontier) == {"status 404": 2}
    await frontier.forget()
    await frontier.begin("next")
    assert await gave_up(frontier) == {}


async def test_reasons_of_too_many_kinds_are_counted_together(backend: Backend) -> None:
    frontier = await begun(backend)
    number = MOST_KINDS + 50
    leases = (await frontier.exchange(entries(*range(number)), number)).leases
    named = [chr(ord("a") + i // 26 % 26) + chr(ord("a") + i % 26) + "x" * (i // 676) for i in range(number)]
    for some in (slice(0, 150), slice(150, number)):
        outbox = Outbox(
            dead_lettered=[
                DeadLettered(lease.held, f"fault {name}")
                for lease, name in zip(leases[some], named[some], strict=True)
            ]
        )
        await frontier.exchange(outbox, 0)
    (lease,) = (await frontier.exchange(entries(number), 1)).leases
    await frontier.exchange(Outbox(retries=[Retry(lease.held, 1, "yet another")]), 0)
    found = await gave_up(frontier)
    assert len(found) == MOST_KINDS + 1
    assert found[OTHER] == 50
    assert sum(found.values()) == number
    assert (await frontier.status()).retried == {OTHER: 1}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("status 503", "status 503"),
        ("status 503, 3 tries", "status 503"),
        ("status 503, 3 tries; body begins b'<html>: 17'", "status 503"),
        ("status 404; body begins b'no'", "status 404"),
        (
            "status 200, but no answer of the known shape: data[3].year: missing, 3 tries",
            "status 200, but no answer of the known shape: data[N].year: missing",
        ),
        (
            "status 200, but the body is too_large (1048576 bytes at most)",
            "status 200, but the body is too_large (N bytes at most)",
        ),
        ("status 301, a redirect to 'https://b', which is not followed",
         "status 301, a redirect to …, which is not followed"),
        ("TimeoutError: Getting https://a/b?c=1 took longer than 9.5 s.",
         "TimeoutError: Getting … took longer than N s."),
        ("KeyError: 'price'", "KeyError: …"),
        ("a pipeline failed: ValueError: could not convert string to float: '12a'",
         "a pipeline failed: ValueError: could not convert string to float: …"),
        ("OSError: no block deadbeef0123 at 0x7f3c", "OSError: no block N at N"),
        ("it can't be read, and won't be", "it can't be read, and won't be"),
        ("a\nb\x1b[31m\ud800", "a b [N"),
        ("", OTHER),
        ("x" * 5000, "x" * LONGEST),
    ],
)  # fmt: skip
def test_the_kind_of_a_reason_is_what_is_the_same_each_time(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind
    assert kind_of(LEASE_EXPIRED.replace("N", "5")) == LEASE_EXPIRED


def test_the_kind_of_a_long_reason_takes_no_time() -> None:
    """Of whatever a site has put into it."""
    for text in ("'", "b'", "a:", "http://", "0", "a0", " ", "; body begins", ", 1 tries"):
        assert len(kind_of(text * 20_000)) <= LONGEST


# Why sites wait.


async def waits(frontier: Frontier) -> dict[str, SlotWait]:
    return (await frontier.status()).waits


async def test_a_paused_site_is_shown_with_its_end_and_reason_while_something_is_due(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    await frontier.exchange(Outbox(pauses={"a": Pause(20, "the site asks to wait")}), 0)
    assert await waits(frontier) == {}, "nothing is held back"
    await frontier.exchange(entries(1), 1)
    paused = SlotWait("pause", BEGIN + 20, "the site asks to wait", 0, 0.0, 0)
    assert await waits(frontier) == {"a": paused}
    await frontier.exchange(Outbox(pauses={"a": Pause(20, "as long"), "b": Pause(1)}), 0)
    await frontier.exchange(Outbox(pauses={"a": Pause(5, "shorter")}), 0)
    assert await waits(frontier) == {"a": paused}
    await frontier.exchange(Outbox(pauses={"a": Pause(30, "longer\ud800")}), 0)
    assert await waits(frontier) == {"a": SlotWait("pause", BEGIN + 30, "longer?", 0, 0.0, 0)}
    backend.advance(30)
    assert await waits(frontier) == {}


async def test_the_reason_of_a_pause_is_cut(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1), 0)
    await frontier.exchange(Outbox(pauses={"a": Pause(20, "é" * 1000)}), 0)
    assert (await waits(frontier))["a"].reason == "é" * LONGEST_REASON


async def test_a_site_at_its_cap_is_shown_with_what_is_in_flight(backend: Backend) -> None:
    frontier = await begun(backend, cap=2, limits={"b": SlotLimit(1)})
    leases = (await frontier.exchange(entries(1, 2), 9)).leases
    assert await waits(frontier) == {}, "nothing is held back"
    await frontier.exchange(entries(3), 9)
    await frontier.exchange(entries(4, 5, slot="b"), 9)
    await frontier.exchange(entries(6, slot="c"), 0)
    assert await waits(frontier) == {
        "a": SlotWait("cap", None, "", 2, 0.0, 2),
        "b": SlotWait("cap", None, "", 1, 0.0, 1),
    }
    await frontier.exchange(Outbox(downloaded=held(leases[0])), 0)
    assert (await waits(frontier)).keys() == {"b"}


async def test_a_site_in_its_interval_is_shown_with_the_one_in_force(backend: Backend) -> None:
    frontier = await begun(backend, cap=4, limits={"a": SlotLimit(3, 10.0), "b": SlotLimit(0, 10.0)})
    await frontier.exchange(Outbox(paces={"b": PaceChange(0, 25.0), "a": PaceChange(0, 5.0)}), 0)
    await frontier.exchange(entries(1, 2), 9)
    await frontier.exchange(entries(3, 4, slot="b"), 9)
    assert await waits(frontier) == {
        "a": SlotWait("interval", BEGIN + 10, "", 3, 10.0, 1),
        "b": SlotWait("interval", BEGIN + 25, "", 0, 25.0, 1),
    }
    await frontier.exchange(Outbox(pauses={"a": Pause(15, "why")}), 0)
    assert (await waits(frontier))["a"] == SlotWait("pause", BEGIN + 15, "why", 3, 10.0, 1)
    await frontier.exchange(Outbox(pauses={"b": Pause(15, "why")}), 0)
    assert (await waits(frontier))["b"].why == "interval", "that is over later"


async def test_the_limits_that_are_shown_are_those_of_the_crawl(lasting: Backend) -> None:
    """And not those of whoever looks."""
    frontier = await begun(lasting, cap=1)
    await frontier.exchange(entries(1, 2), 9)
    assert await waits(lasting.open("command", cap=16)) == {"a": SlotWait("cap", None, "", 1, 0.0, 1)}


# What a look costs.


async def test_what_was_delayed_is_counted_where_it_is_however_it_gets_there(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(1, 2, delay=10), 0)
    assert await counts(frontier) == Counts(queued=0, delayed=2, leased=0, dead=0, done=0)
    await frontier.exchange(entries(1, 1), 0)
    await frontier.exchange(entries(1, delay=5), 0)
    assert await counts(frontier) == Counts(queued=0, delayed=2, leased=0, dead=0, done=0)
    backend.advance(5)
    assert await counts(frontier) == Counts(queued=1, delayed=1, leased=0, dead=0, done=0), (
        "nobody has looked yet"
    )
    await frontier.exchange(Outbox(), 0)
    assert await counts(frontier) == Counts(queued=1, delayed=1, leased=0, dead=0, done=0)
    (lease,) = (await frontier.exchange(Outbox(), 9)).leases
    await frontier.exchange(Outbox(retries=[Retry(lease.held, 20, "status 503")]), 0)
    assert await counts(frontier) == Counts(queued=0, delayed=2, leased=0, dead=0, done=0)
    backend.advance(20)
    inbox = await frontier.exchange(Outbox(), 9)
    await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
    assert await counts(frontier) == Counts(queued=0, delayed=0, leased=0, dead=0, done=2)


async def test_a_look_does_not_walk_along_what_is_delayed_or_dead(on_redis: RedisBackend) -> None:
    """The counts are right without the keys that hold them."""
    frontier = await begun(on_redis)
    await frontier.exchange(entries(*range(1000), delay=50), 0)
    leases = (await frontier.exchange(entries(*range(1000, 2000)), 1000)).leases
    await frontier.exchange(
        Outbox(dead_lettered=[DeadLettered(lease.held, "status 404") for lease in leases]), 0
    )
    with on_redis.server.client() as client:
        for key in ("delayed", "dead", "deaths", "elements"):
            client.rename(f"{{test}}:{key}", f"{{test}}:{key}-away")
        status = await frontier.status()
        for key in ("delayed", "dead", "deaths", "elements"):
            client.rename(f"{{test}}:{key}-away", f"{{test}}:{key}")
    assert (status.total.delayed, status.total.dead, status.total.queued) == (1000, 1000, 0)
    assert status == await frontier.status()


@pytest.mark.parametrize("value", [b"\xff", b"-", b"1.5"])
async def test_counts_by_reason_that_are_none_of_ours_are_said_or_shown_as_text(
    on_redis: RedisBackend, value: bytes
) -> None:
    frontier = await begun(on_redis)
    with on_redis.server.client() as client:
        client.hset("{test}:reasons", b"retry:\xff\x1b", 3)
        client.hset("{test}:reasons", b"of another kind", 3)
        assert (await frontier.status()).retried == {"\ufffd\x1b": 3}
        client.hset("{test}:reasons", "retry:a", value)
    with pytest.raises(FrontierDamaged, match="cannot be read"):
        await frontier.status()


# The status, as a whole.


async def test_the_status_has_the_oldest_leases_and_the_logs_of_the_same_moment(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.join_log("w1")
    await frontier.exchange(entries(1, 2, 3), 3)
    status = await frontier.status(2)
    assert status.leases == await frontier.leases(2)
    assert [lease.key for lease in status.leases] == [1, 2]
    assert status.logs == await frontier.logs()
    assert [log.name for log in status.logs] == ["w1"]
    assert (await frontier.status()).leases == []


async def test_the_status_says_how_much_each_site_is_asked_and_may_be(backend: Backend) -> None:
    limits = {"b": SlotLimit(5, 2.0)}
    frontier = await begun(backend, cap=3, limits=limits)
    await frontier.exchange(entries(1, 2, slot="a"), 2)
    inbox = await frontier.exchange(entries(3, slot="b"), 1)
    await frontier.exchange(Outbox(paces={"a": PaceChange(0, 0.25)}), 0)
    assert (await frontier.status()).in_flight == {"a": SlotUse(2, 3, 0.25), "b": SlotUse(1, 5, 2.0)}
    await frontier.exchange(Outbox(downloaded=held(*inbox.leases)), 0)
    assert set((await frontier.status()).in_flight) == {"a"}, "what is answered is not in flight"


async def test_of_many_that_nobody_has_fetched_a_thousand_are_counted_as_queued(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.exchange(entries(*range(1200), delay=5), 0)
    backend.advance(10)
    status = await frontier.status()
    assert (status.total.queued, status.total.delayed, status.past_due) == (1000, 200, 1200)
    await frontier.exchange(Outbox(), 0)
    assert (await counts(frontier)) == Counts(queued=1200, delayed=0, leased=0, dead=0, done=0)
