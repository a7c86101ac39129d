"""What the frontier remembers for the item logs of workers: what it has accepted, and whose a log is."""

from __future__ import annotations

import pytest

from scrapy_durable.exceptions import (
    FrontierDamaged,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
    LogAbandoned,
)
from scrapy_durable.frontier import log_names, redis_logs, sqlite_logs
from scrapy_durable.frontier.contract import Counts, Frontier, Held, LogStatus, Outbox
from tests.frontier.backends import BEGIN, LEASE, Backend, RedisBackend
from tests.frontier.test_contract import begun, counts, entries, entry, held
from tests.tcp_proxy import TcpProxy


async def leased(frontier: Frontier, *keys: int) -> list[Held]:
    """These elements, pushed and leased."""
    return held(*(await frontier.exchange(entries(*keys), len(keys))).leases)


def tokens(*named: Held) -> list[int]:
    return [one.token for one in named]


async def remembered(frontier: Frontier) -> dict[str, int]:
    """How many tokens of each log are unconfirmed."""
    return {log.name: log.unconfirmed for log in await frontier.logs()}


async def open_logs(frontier: Frontier) -> list[str]:
    return [log.name for log in await frontier.logs() if not log.closed]


# Accepted and confirmed.


async def test_what_is_logged_is_acknowledged_and_remembered_until_it_is_confirmed(backend: Backend) -> None:
    frontier = await begun(backend)
    assert await frontier.join_log("log-1") == []
    first, second, third, plain = await leased(frontier, 1, 2, 3, 4)
    inbox = await frontier.exchange(Outbox(logged=[third, first], acks=[plain]), 0)
    assert (inbox.stale, inbox.unfinished) == ([], 1)
    assert await counts(frontier) == Counts(queued=0, delayed=0, leased=1, dead=0, done=3)
    assert (await frontier.exchange(entries(1), 9)).refused == [1]
    await frontier.exchange(Outbox(logged=[second]), 0)
    assert await frontier.join_log("log-1") == tokens(third, first, second), "in the order of acceptance"
    await frontier.exchange(Outbox(confirmed=[third.token, 10**9, plain.token]), 0)
    assert await frontier.join_log("log-1") == tokens(first, second)
    await frontier.exchange(Outbox(confirmed=tokens(first, second, third)), 0)
    assert await remembered(frontier) == {"log-1": 0}


async def test_what_is_stale_is_not_remembered(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.join_log("log")
    one, two = await leased(frontier, 1, 2)
    await frontier.exchange(Outbox(acks=[one]), 0)
    backend.advance(LEASE)
    stale = [one, two, Held(3, 1), Held(2, 10**6)]
    inbox = await frontier.exchange(Outbox(logged=stale), 0)
    assert inbox.stale == stale
    assert (await frontier.status()).stale_messages == 4
    assert await frontier.join_log("log") == []


async def test_a_lease_that_is_logged_twice_is_remembered_once(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.join_log("log")
    (one,) = await leased(frontier, 1)
    assert (await frontier.exchange(Outbox(logged=[one, one]), 0)).stale == [one]
    assert await frontier.join_log("log") == [one.token]


async def test_without_a_log_nothing_can_be_logged(backend: Backend) -> None:
    frontier = await begun(backend)
    (one,) = await leased(frontier, 1)
    inbox = await frontier.exchange(Outbox(logged=[one], confirmed=[one.token]), 0)
    assert (inbox.stale, inbox.unfinished) == ([one], 1)
    assert (await frontier.exchange(Outbox(acks=[one]), 0)).stale == [], "the lease is where it was"
    with pytest.raises(FrontierError, match="has no item log"):
        await frontier.close_log()


async def test_logged_comes_behind_acks_and_is_something_to_say() -> None:
    names = list(Outbox.__dataclass_fields__)
    assert names[names.index("acks") + 1 :][:2] == ["logged", "confirmed"]
    assert Outbox(logged=[Held(1, 1)]).says_something
    outbox = Outbox(confirmed=[1])
    assert (outbox.take().confirmed, outbox.confirmed) == ([1], [])


async def test_many_are_accepted_and_confirmed_in_one_piece(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.join_log("log")
    all_of_them = await leased(frontier, *range(9000))
    await frontier.exchange(Outbox(logged=all_of_them), 0)
    assert await frontier.join_log("log") == tokens(*all_of_them)
    await frontier.exchange(Outbox(confirmed=tokens(*all_of_them[10:])), 0)
    assert await frontier.join_log("log") == tokens(*all_of_them[:10])


async def test_each_log_has_its_own_tokens(backend: Backend) -> None:
    frontier = await begun(backend)
    one, two, three = await leased(frontier, 1, 2, 3)
    await frontier.join_log("a")
    await frontier.exchange(Outbox(logged=[one]), 0)
    assert await frontier.join_log("b") == []
    await frontier.exchange(Outbox(logged=[two, three], confirmed=[one.token, two.token]), 0)
    assert await remembered(frontier) == {"a": 1, "b": 1}
    assert await frontier.join_log("a") == [one.token]
    assert await frontier.join_log("b") == [three.token]


# Restarts and takeovers.


async def test_who_comes_after_a_kill_is_told_what_was_accepted(lasting: Backend) -> None:
    frontier = await begun(lasting)
    await frontier.join_log("log")
    one, two, three = await leased(frontier, 1, 2, 3)
    await frontier.exchange(Outbox(logged=[two, one]), 0)
    await frontier.close()
    successor = await begun(lasting, worker="w2")
    (log,) = await successor.logs()
    assert (log.worker, log.unconfirmed, log.closed) == ("w1", 2, False)
    assert await successor.join_log("log") == tokens(two, one)
    inbox = await successor.exchange(Outbox(logged=[three], confirmed=[two.token]), 0)
    assert inbox.stale == ([] if lasting.has_workers else [three]), (
        "a lease outlives its worker on a server only"
    )
    (log,) = await successor.logs()
    assert (log.worker, log.unconfirmed) == ("w2", 1 + lasting.has_workers)


async def test_a_successor_that_has_not_joined_the_log_cannot_use_it(lasting: Backend) -> None:
    frontier = await begun(lasting)
    await frontier.join_log("log")
    await frontier.close()
    successor = await begun(lasting)
    leases = await leased(successor, 1)
    assert (await successor.exchange(Outbox(logged=leases), 0)).stale == leases
    with pytest.raises(FrontierError, match="has no item log"):
        await successor.close_log()


@pytest.mark.parametrize("name", ["w2", "w1"])
async def test_who_has_lost_its_log_can_say_nothing_for_it_any_more(
    on_redis: RedisBackend, name: str
) -> None:
    """Also when the successor has the name of the process that was killed, whose exchange is still on its way."""
    first, second = await begun(on_redis, worker="w1"), await begun(on_redis, worker=name)
    await first.join_log("log")
    one, two = await leased(first, 1, 2)
    await first.exchange(Outbox(logged=[one]), 0)
    assert await second.join_log("log") == [one.token]
    late = await first.exchange(Outbox(logged=[two], confirmed=[one.token]), 0)
    assert late.stale == [two]
    assert await remembered(second) == {"log": 1}
    with pytest.raises(FrontierError, match="has no item log"):
        await first.close_log()
    assert (await second.exchange(Outbox(logged=[two], confirmed=[one.token]), 0)).stale == []
    assert await second.join_log("log") == [two.token]


async def test_two_workers_have_a_log_each(on_redis: RedisBackend) -> None:
    first, second = await begun(on_redis, worker="w1"), await begun(on_redis, worker="w2")
    await first.join_log("log-1")
    await second.join_log("log-2")
    one, two = await leased(first, 1, 2)
    await first.exchange(Outbox(logged=[one]), 0)
    await second.exchange(Outbox(logged=[two], confirmed=[one.token]), 0)
    assert await remembered(first) == {"log-1": 1, "log-2": 1}
    await first.exchange(Outbox(confirmed=tokens(one, two)), 0)
    await first.close_log()
    assert await open_logs(second) == ["log-2"]


async def test_what_is_logged_again_because_the_answer_was_lost_is_accepted_once(
    on_redis: RedisBackend,
) -> None:
    """Also when another has joined the log meanwhile: it was told of the token."""
    async with TcpProxy(on_redis.server.port) as proxy:
        frontier, other = on_redis.open("w1", port=proxy.port), await begun(on_redis, worker="w2")
        await frontier.begin("crawl")
        await frontier.join_log("log")
        one, two = await leased(frontier, 1, 2)
        for outbox in (Outbox(logged=[one]), Outbox(logged=[two], confirmed=[one.token])):
            proxy.drop_next_answer()
            with pytest.raises(FrontierUnavailable):
                await frontier.exchange(outbox, 0)
            before = await remembered(other)
            assert (await frontier.exchange(outbox, 0)).stale == []
            assert await remembered(other) == before == {"log": 1}
        proxy.drop_next_answer()
        last = Outbox(confirmed=[two.token])
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(last, 0)
        assert await other.join_log("log") == []
        assert (await frontier.exchange(last, 0)).stale == []


async def test_a_log_can_be_used_when_the_memory_is_full(on_redis: RedisBackend) -> None:
    frontier = await begun(on_redis)
    leases = await leased(frontier, 1)
    with on_redis.server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            await frontier.join_log("log")
            assert (await frontier.exchange(Outbox(logged=leases), 0)).stale == []
            await frontier.exchange(Outbox(confirmed=tokens(*leases)), 0)
            await frontier.close_log()
            assert await frontier.abandon_log("log") == 0
        finally:
            client.config_set("maxmemory", 0)


# Closed, abandoned, forgotten.


async def test_a_log_is_closed_when_all_is_confirmed_and_open_when_it_is_joined_again(
    backend: Backend,
) -> None:
    frontier = await begun(backend)
    await frontier.join_log("log")
    one, two = await leased(frontier, 1, 2)
    await frontier.exchange(Outbox(logged=[one, two], confirmed=[one.token]), 0)
    with pytest.raises(FrontierError, match="the item log log has 1 leases unconfirmed"):
        await frontier.close_log()
    await frontier.exchange(Outbox(confirmed=[two.token]), 0)
    await frontier.close_log()
    await frontier.close_log()
    assert await frontier.logs() == [LogStatus("log", "w1", 0, True, False, BEGIN)]
    await frontier.join_log("log")
    assert await open_logs(frontier) == ["log"]


async def test_what_is_logged_opens_a_log_that_was_closed(backend: Backend) -> None:
    """As after dead letters were queued again."""
    frontier = await begun(backend)
    await frontier.join_log("log")
    await frontier.close_log()
    (one,) = await leased(frontier, 1)
    assert await open_logs(frontier) == []
    assert (await frontier.exchange(Outbox(logged=[one]), 0)).stale == []
    assert await open_logs(frontier) == ["log"]
    await frontier.exchange(Outbox(confirmed=[one.token]), 0)
    await frontier.close_log()


async def test_an_abandoned_log_is_closed_and_empty_and_nobody_joins_it_again(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.join_log("kept")
    (kept,) = await leased(frontier, 9)
    await frontier.exchange(Outbox(logged=[kept]), 0)
    await frontier.join_log("lost")
    one, two, three = await leased(frontier, 1, 2, 3)
    await frontier.exchange(Outbox(logged=[one, two]), 0)
    assert await frontier.abandon_log("nobody's") is None
    assert await frontier.abandon_log("lost") == 2
    assert await frontier.abandon_log("lost") == 0
    late = await frontier.exchange(Outbox(logged=[three], confirmed=[one.token]), 0)
    assert late.stale == [three]
    assert [(log.name, log.unconfirmed, log.closed, log.abandoned) for log in await frontier.logs()] == [
        ("kept", 1, False, False),
        ("lost", 0, True, True),
    ]
    with pytest.raises(LogAbandoned, match="the item log lost was given up"):
        await frontier.close_log()
    with pytest.raises(LogAbandoned):
        await frontier.join_log("lost")
    assert await frontier.join_log("kept") == [kept.token]


async def test_a_log_can_be_seen_and_given_up_without_joining_the_crawl(lasting: Backend) -> None:
    frontier = await begun(lasting)
    await frontier.join_log("log")
    leases = await leased(frontier, 1)
    await frontier.exchange(Outbox(logged=leases), 0)
    beside = lasting.open("command")
    assert await remembered(beside) == {"log": 1}
    assert await beside.abandon_log("log") == 1
    with pytest.raises(LogAbandoned):
        await frontier.join_log("log")


async def test_a_crawl_is_forgotten_with_its_logs(backend: Backend) -> None:
    frontier = await begun(backend)
    await frontier.join_log("log")
    leases = await leased(frontier, 1)
    await frontier.exchange(Outbox(logged=leases), 0)
    await frontier.abandon_log("log")
    await frontier.forget()
    assert await frontier.logs() == []
    for call in (frontier.join_log("log"), frontier.close_log()):
        with pytest.raises(FrontierLost):
            await call
    await frontier.begin("next")
    assert await frontier.logs() == []
    assert await frontier.join_log("log") == []
    (log,) = await frontier.logs()
    assert (log.unconfirmed, log.closed, log.abandoned) == (0, False, False)


async def test_without_a_crawl_there_is_no_log(backend: Backend) -> None:
    frontier = backend.open()
    assert await frontier.logs() == []
    assert await frontier.abandon_log("log") is None
    for call in (frontier.join_log("log"), frontier.close_log()):
        with pytest.raises(FrontierLost):
            await call


async def test_the_worker_of_a_log_is_remembered_however_long_it_is_silent(lasting: Backend) -> None:
    """Who has to decide whether it comes back is told when it was last heard of."""
    frontier = await begun(lasting)
    await frontier.join_log("log")
    await frontier.close()
    lasting.advance(10 * 3600)
    other = await begun(lasting, worker="w2")
    (log,) = await other.logs()
    assert (log.worker, log.last_seen) == ("w1", BEGIN)


# Names.


@pytest.mark.parametrize("name", ["", "a" * 65, "a/b", "a b", "é", "a\n", "log:1"])
async def test_what_is_no_name_of_a_log_is_refused_before_anything_is_said(
    backend: Backend, name: str
) -> None:
    frontier = await begun(backend)
    with pytest.raises(ValueError, match="not the name of an item log"):
        await frontier.join_log(name)
    assert await frontier.abandon_log(name) is None
    assert await frontier.logs() == []


async def test_names_reach_from_end_to_end(backend: Backend) -> None:
    frontier = await begun(backend)
    for name in ("a" * 64, "-", "A.z_0-9"):
        await frontier.join_log(name)
    assert [log.name for log in await frontier.logs()] == ["-", "A.z_0-9", "a" * 64]


async def test_one_log_too_many_is_refused_by_name_and_those_that_are_there_go_on(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (log_names, redis_logs, sqlite_logs):
        monkeypatch.setattr(module, "MOST_LOGS", 3)
    frontier = await begun(backend)
    for name in ("a", "b", "c"):
        await frontier.join_log(name)
    with pytest.raises(FrontierError, match=r"the item log d cannot join: .* has 3 item logs"):
        await frontier.join_log("d")
    await frontier.join_log("b")
    assert await open_logs(frontier) == ["a", "b", "c"]


async def test_the_last_log_there_may_be_has_exact_numbers(on_redis: RedisBackend) -> None:
    """Its tokens have the highest scores."""
    frontier = await begun(on_redis)
    with on_redis.server.client() as client:
        await frontier.join_log("log")
        record = client.hget("{test}:logs", "log")
        client.hset("{test}:logs", "log", log_names.MOST_LOGS.to_bytes(2, "big") + record[2:])
        client.hset("{test}:crawl", "acceptance", 2**43 - 10)
    leases = await leased(frontier, 1, 2, 3, 4)
    await frontier.exchange(Outbox(logged=leases[::-1]), 0)
    assert await frontier.join_log("log") == tokens(*leases[::-1])
    await frontier.exchange(Outbox(confirmed=tokens(leases[1])), 0)
    assert await remembered(frontier) == {"log": 3}


# What others do to the keys.


async def a_crawl_with_logs(backend: RedisBackend) -> tuple[Frontier, list[Held]]:
    frontier = await begun(backend)
    await frontier.join_log("log")
    one, two = await leased(frontier, 1, 2)
    await frontier.exchange(Outbox(logged=[one], entries=[entry(3)]), 0)
    return frontier, [one, two]


@pytest.mark.parametrize("key", ["logs", "accepted"])
async def test_logs_that_somebody_has_deleted_are_said_and_not_taken_for_none(
    on_redis: RedisBackend, key: str
) -> None:
    """Else items would be missing, and the crawl complete."""
    frontier, (one, two) = await a_crawl_with_logs(on_redis)
    with on_redis.server.client() as client:
        client.delete(f"{{test}}:{key}")
    for call in (
        frontier.logs(),
        frontier.join_log("log"),
        frontier.close_log(),
        frontier.abandon_log("log"),
        frontier.exchange(Outbox(logged=[two]), 0),
        frontier.exchange(Outbox(confirmed=[one.token]), 0),
    ):
        with pytest.raises(FrontierDamaged, match="do not agree"):
            await call
    assert len((await frontier.exchange(Outbox(), 9)).leases) == 1, "what has no items goes on"


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"\x1b[31m", b"a" * 65, b""])
async def test_a_name_that_is_none_of_ours_is_said(on_redis: RedisBackend, name: bytes) -> None:
    frontier, _ = await a_crawl_with_logs(on_redis)
    with on_redis.server.client() as client:
        client.hset("{test}:logs", name, client.hget("{test}:logs", "log"))
        with pytest.raises(FrontierDamaged):
            await frontier.logs()
        client.hincrby("{test}:crawl", "logs", 1)
    with pytest.raises(FrontierDamaged, match="an item log in Redis cannot be read"):
        await frontier.logs()


@pytest.mark.parametrize("record", [b"", b"x", b"\xff" * 18, b"\xff" * 30])
async def test_a_record_that_is_none_of_ours_is_said_or_belongs_to_nobody(
    on_redis: RedisBackend, record: bytes
) -> None:
    frontier, (_, two) = await a_crawl_with_logs(on_redis)
    with on_redis.server.client() as client:
        client.hset("{test}:logs", "log", record)
    with pytest.raises(FrontierDamaged):
        await frontier.logs()
    try:
        inbox = await frontier.exchange(Outbox(logged=[two]), 0)
    except FrontierDamaged:
        return
    assert inbox.stale == [two]


async def test_a_token_that_is_none_of_ours_is_said(on_redis: RedisBackend) -> None:
    frontier, _ = await a_crawl_with_logs(on_redis)
    with on_redis.server.client() as client:
        ((_, score),) = client.zrange("{test}:accepted", 0, -1, withscores=True)
        client.delete("{test}:accepted")
        client.zadd("{test}:accepted", {"x": score})
    with pytest.raises(FrontierDamaged, match="an item log in Redis cannot be read"):
        await frontier.join_log("log")
