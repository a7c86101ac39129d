"""What the Redis backend does beyond the contract: several workers, a network that fails, a server that is
full or wrong.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from scrapy_durable.exceptions import (
    ConfigurationError,
    ForeignCrawl,
    FrontierError,
    FrontierLost,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier import redis_beside
from scrapy_durable.frontier.contract import Counts, DeadLettered, Held, Outbox, Pace, PaceChange, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_layout import FIXED_KEYS
from scrapy_durable.frontier.redis_scripts import Call, Script
from scrapy_durable.frontier.redis_server import RedisKeys
from tests.frontier.backends import LEASE, RedisBackend, plain_client
from tests.frontier.test_contract import begun, counts, entries, entry, held, keys
from tests.own_clock import OwnClock, lag
from tests.redis_server import RedisServer
from tests.tcp_proxy import TcpProxy
from tests.timeout import answered


def frontier_at(client: object, worker: str = "w1", prefix: str = "test") -> RedisFrontier:
    return RedisFrontier(
        RedisKeys(client, prefix=prefix),  # type: ignore[arg-type]
        worker=worker,
        lease_seconds=LEASE,
        limits={},
        default_limit=SlotLimit(0),
    )


async def test_the_clock_is_that_of_the_server(on_redis: RedisBackend) -> None:
    frontier = frontier_at(plain_client(on_redis.server.port))
    await frontier.begin("crawl")
    with on_redis.server.client() as client:
        before = client.time()
        await frontier.exchange(Outbox(), 0)
        after = client.time()
    (worker,) = (await frontier.status()).workers
    assert before <= divmod(round(worker.last_seen * 1e6), 1_000_000) <= after
    await frontier.close()


# Several workers.


async def test_a_second_worker_joins_the_crawl_of_the_first(on_redis: RedisBackend) -> None:
    first, second = on_redis.open("w1"), on_redis.open("w2")
    assert not (await first.begin("one")).resumed
    state = await second.begin("two")
    assert (state.crawl_id, state.resumed) == ("one", True)
    await first.exchange(entries(1, 2, 3), 0)
    assert keys(await first.exchange(Outbox(), 1)) + keys(await second.exchange(Outbox(), 5)) == [1, 2, 3]
    status = await second.status()
    assert [(worker.worker, worker.leased) for worker in status.workers] == [("w1", 1), ("w2", 2)]


async def test_who_began_a_crawl_is_told_so_again_when_it_asks_again(on_redis: RedisBackend) -> None:
    frontier = on_redis.open()
    assert not (await frontier.begin("one")).resumed
    assert not (await frontier.begin("two")).resumed


async def test_the_interval_of_a_slot_is_that_of_all_workers_together(on_redis: RedisBackend) -> None:
    frontiers = [on_redis.open(f"w{number}", limits={"a": SlotLimit(0, 10.0)}) for number in range(3)]
    for frontier in frontiers:
        await frontier.begin("crawl")
    await frontiers[0].exchange(entries(*range(9)), 0)
    for expected in range(3):
        given = [keys(await frontier.exchange(Outbox(), 5)) for frontier in (*frontiers, *frontiers)]
        assert sorted(given) == [[], [], [], [], [], [expected]]
        on_redis.advance(10.1)


async def test_of_two_workers_that_learned_at_once_one_is_heard_and_both_obey(on_redis: RedisBackend) -> None:
    first, second = on_redis.open("w1"), on_redis.open("w2")
    for frontier in (first, second):
        await frontier.begin("crawl")
    await first.exchange(entries(*range(9)), 0)
    said = [
        await first.exchange(Outbox(paces={"a": PaceChange(0, 10.0)}), 0),
        await second.exchange(Outbox(paces={"a": PaceChange(0, 30.0)}), 0),
    ]
    assert [inbox.paces for inbox in said] == [{"a": Pace(1, 10.0)}] * 2
    assert keys(await second.exchange(Outbox(), 5)) == [0]
    assert keys(await first.exchange(Outbox(), 5)) == []
    on_redis.advance(10.1)
    assert keys(await first.exchange(Outbox(), 5)) == [1]


async def test_the_cap_of_a_slot_is_that_of_all_workers_together(on_redis: RedisBackend) -> None:
    frontiers = [on_redis.open(f"w{number}", cap=4) for number in range(4)]
    for frontier in frontiers:
        await frontier.begin("crawl")
    await frontiers[0].exchange(entries(*range(100)), 0)
    inboxes = await asyncio.gather(*(frontier.exchange(Outbox(), 3) for frontier in frontiers))
    assert sum(len(inbox.leases) for inbox in inboxes) == 4


async def test_what_a_dead_worker_held_is_taken_over_after_its_lease(on_redis: RedisBackend) -> None:
    first, second = on_redis.open("w1"), on_redis.open("w2")
    await first.begin("crawl")
    await second.begin("crawl")
    old = (await first.exchange(entries(1, 2), 5)).leases
    on_redis.advance(LEASE - 1)
    assert keys(await second.exchange(Outbox(), 5)) == []
    on_redis.advance(1.1)
    assert keys(await second.exchange(Outbox(), 5)) == [1, 2]
    inbox = await first.exchange(Outbox(acks=held(*old)), 5)
    assert inbox.stale == held(*old)
    assert inbox.unfinished == 2


async def test_one_of_two_workers_gets_the_claim_and_the_other_after_it_fell_silent(
    on_redis: RedisBackend,
) -> None:
    first, second = on_redis.open("w1"), on_redis.open("w2")
    await first.begin("crawl")
    await second.begin("crawl")
    assert await first.elect_finisher()
    assert not await second.elect_finisher()
    on_redis.advance(LEASE - 1)
    await first.exchange(Outbox(), 0)
    on_redis.advance(2)
    assert not await second.elect_finisher()
    on_redis.advance(LEASE)
    assert await second.elect_finisher()
    assert not await first.elect_finisher()


async def test_the_verdict_reaches_the_worker_that_waits_also_after_the_crawl_is_forgotten(
    on_redis: RedisBackend,
) -> None:
    first, second = on_redis.open("w1"), on_redis.open("w2")
    await first.begin("crawl")
    await second.begin("crawl")
    assert await first.elect_finisher()
    await first.publish_verdict(b"complete")
    await first.forget()
    with pytest.raises(FrontierLost):
        await second.elect_finisher()
    assert await second.verdict() == b"complete"


async def test_two_crawls_with_different_prefixes_do_not_meet(on_redis: RedisBackend) -> None:
    one, other = on_redis.open(prefix="one"), on_redis.open(prefix="other")
    await one.begin("one")
    await other.begin("other")
    await one.exchange(entries(1), 0)
    assert keys(await other.exchange(Outbox(), 5)) == []
    await other.forget()
    assert keys(await one.exchange(Outbox(), 5)) == [1]


async def test_a_worker_of_another_crawl_is_refused_while_the_first_is_at_work_and_changes_no_limits(
    on_redis: RedisBackend,
) -> None:
    first, second = on_redis.open("w1", cap=1), on_redis.open("w2", cap=9)
    await first.begin("one", "https://a make=Audi")
    await first.exchange(entries(1, 2), 0)
    with pytest.raises(ForeignCrawl):
        await second.begin("two", "https://a")
    with pytest.raises(FrontierLost):
        await second.exchange(Outbox(), 5)
    assert keys(await first.exchange(Outbox(), 5)) == [1]
    assert [worker.worker for worker in (await first.status()).workers] == ["w1"]


async def test_a_crawl_of_an_earlier_release_is_refused_to_whom_says_what_it_is_of(
    on_redis: RedisBackend,
) -> None:
    await begun(on_redis)
    with on_redis.server.client() as client:
        client.hdel("{test}:crawl", "identity")
    with pytest.raises(ForeignCrawl, match="did not say of what"):
        await on_redis.open("w2").begin("two", "https://a")


async def test_what_a_neighbour_wrote_in_place_of_a_report_is_left_out(on_redis: RedisBackend) -> None:
    frontier = await begun(on_redis)
    for written, read in ((b"[" * 100_000, {}), (b"\xff", {}), (b"[1]", {}), (b'{"a":1.5,"b":2}', {"b": 2})):
        with on_redis.server.client() as client:
            client.hset("{test}:reports", "w1", written)
        (worker,) = (await frontier.status()).workers
        assert worker.report == read


# Keys.


async def test_every_key_is_under_the_hash_tag_and_forgetting_leaves_the_verdict_alone(
    on_redis: RedisBackend,
) -> None:
    frontier = await begun(on_redis)
    leases = (await frontier.exchange(entries(*range(300), -1, -(2**63)), 200)).leases
    await frontier.exchange(
        Outbox(
            acks=held(*leases[:100]), dead_lettered=[DeadLettered(one, "404") for one in held(*leases[100:])]
        ),
        0,
    )
    with on_redis.server.client() as client:
        names = {key.decode() for key in client.scan_iter(count=1000)}
        assert all(name.startswith("{test}:") for name in names)
        assert names - {"{test}:seen:0"} <= {f"{{test}}:{n}" for n in FIXED_KEYS}
        assert client.object("encoding", "{test}:seen:0") == b"intset"
        await frontier.drop_dead()
        inbox = await frontier.exchange(Outbox(), 200)
        await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
        assert await frontier.elect_finisher()
        await frontier.publish_verdict(b"v")
        await frontier.forget()
        assert [key.decode() for key in client.scan_iter(count=1000)] == ["{test}:verdict:crawl"]
        assert 3500 < client.ttl("{test}:verdict:crawl") <= 3600


async def test_a_finished_crawl_leaves_nothing_but_what_it_has_seen(on_redis: RedisBackend) -> None:
    """No key grows with the crawl but the seen set: what passes through the others leaves them."""
    frontier = await begun(on_redis)
    outbox = Outbox(entries=[entry(key, "ab"[key % 2], delay=key % 3) for key in range(100)])
    for _ in range(20):
        inbox = await frontier.exchange(outbox, 30)
        on_redis.advance(2)
        outbox = Outbox(acks=held(*inbox.leases))
    with on_redis.server.client() as client:
        lengths = {
            name: client.zcard(f"{{test}}:{name}")
            for name in ("ready", "delayed", "rotation", "held", "deaths")
        }
        lengths |= {
            name: client.hlen(f"{{test}}:{name}")
            for name in ("elements", "attempts", "leases", "in_flight", "dead", "ages", "paused")
        }
        lengths["overdue"] = client.scard("{test}:overdue")
    assert lengths == dict.fromkeys(lengths, 0)
    assert (await counts(frontier)).done == 100


@pytest.mark.parametrize("number", [1, 2, -1], ids=["marked", "a part removed", "all but the end"])
async def test_a_crawl_that_was_half_forgotten_is_removed_by_the_next_to_begin(
    on_redis: RedisBackend, number: int
) -> None:
    class DiesOnTheWay(RedisKeys):
        async def run_all(self, script: Script, calls: Sequence[Call]) -> list[Any]:
            await super().run_all(script, calls[:number])
            raise ConnectionError

    frontier = await begun(on_redis)
    inbox = await frontier.exchange(entries(1), 1)
    await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
    dying = RedisFrontier(
        DiesOnTheWay(plain_client(on_redis.server.port), prefix="test"),
        worker="w2",
        limits={},
        default_limit=SlotLimit(0),
    )
    with pytest.raises(ConnectionError):
        await dying.forget()
    await dying.close()
    with pytest.raises(FrontierLost):
        await frontier.exchange(Outbox(), 1)
    assert (await frontier.status()).crawl_id is None
    state = await frontier.begin("next")
    assert (state.crawl_id, state.resumed) == ("next", False)
    assert keys(await frontier.exchange(entries(1), 1)) == [1]


# Other releases.


@pytest.mark.parametrize(
    ("version", "release"),
    [
        (None, "an older release (version 0 "),
        ("99", "a newer release"),
        ("1\n", "another release (version ? "),
        ("", "another release"),
    ],
)
async def test_a_crawl_of_another_release_is_refused_in_one_line_and_left_as_it_is(
    on_redis: RedisBackend, version: str | None, release: str
) -> None:
    frontier = await begun(on_redis)
    (lease, _) = (await frontier.exchange(entries(1, 2), 2)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(held(lease)[0], "404")]), 0)
    with on_redis.server.client() as client:
        if version is None:
            client.hdel("{test}:crawl", "version")
        else:
            client.hset("{test}:crawl", "version", version)
        before = {key: client.dump(key) for key in client.scan_iter()}
        late = on_redis.open("late")
        for call in (
            late.begin("new"),
            late.status(),
            late.workers(),
            late.dead_letters(),
            late.retry_dead(),
            late.drop_dead(),
            late.logs(),
            late.abandon_log("log"),
        ):
            with pytest.raises(OtherRelease) as caught:
                await call
            assert release in str(caught.value)
            assert "\n" not in str(caught.value)
        assert {key: client.dump(key) for key in client.scan_iter()} == before
        client.delete("{test}:ages")
        client.set("{test}:ages", "of another type in that release")
        with pytest.raises(OtherRelease):
            await late.begin("new")
        client.delete("{test}:ages")
    await late.forget()
    assert not (await late.begin("new")).resumed


# The network.


async def test_an_exchange_whose_answer_was_lost_happens_once(on_redis: RedisBackend) -> None:
    """Also when the answer was cut in its middle, and when the worker has to ask three times."""
    async with TcpProxy(on_redis.server.port) as proxy:
        frontier = on_redis.open(port=proxy.port)
        await frontier.begin("crawl")
        for after, times in ((0, 1), (1, 1), (40, 1), (0, 3)):
            first = await frontier.exchange(entries(after * 10 + times, after * 10 + times + 5), 1)
            lease = first.leases[0]
            before = await counts(frontier)
            outbox = Outbox(acks=held(lease), entries=[entry(1000 + after + times)])
            for _ in range(times):
                proxy.drop_next_answer(after)
                with pytest.raises(FrontierUnavailable):
                    await frontier.exchange(outbox, 1)
            inbox = await frontier.exchange(outbox, 1)
            assert (inbox.stale, inbox.refused, len(inbox.leases)) == ([], [], 1)
            assert inbox.leases[0].attempt == 1
            total = await counts(frontier)
            assert (total.done, total.leased, total.seen) == (before.done + 1, before.leased, before.seen + 1)
            await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)


async def test_a_pace_whose_answer_was_lost_is_taken_once(on_redis: RedisBackend) -> None:
    async with TcpProxy(on_redis.server.port) as proxy:
        frontier, other = on_redis.open("w1", port=proxy.port), on_redis.open("w2")
        for one in (frontier, other):
            await one.begin("crawl")
        await other.exchange(Outbox(), 0)  # now the server has the script
        outbox = Outbox(paces={"a": PaceChange(0, 10.0)})
        proxy.drop_next_answer(0)
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(outbox, 0)
        await other.exchange(Outbox(paces={"a": PaceChange(1, 20.0)}), 0)
        assert (await frontier.exchange(outbox, 0)).paces == {"a": Pace(2, 20.0)}


async def test_the_same_outbox_object_used_again_after_an_answer_is_a_new_exchange(
    on_redis: RedisBackend,
) -> None:
    frontier = await begun(on_redis)
    await frontier.exchange(entries(1, 2), 0)
    outbox = Outbox()
    assert keys(await frontier.exchange(outbox, 1)) == [1]
    assert keys(await frontier.exchange(outbox, 1)) == [2]


async def test_leases_that_ended_meanwhile_are_not_in_a_repeated_answer(on_redis: RedisBackend) -> None:
    async with TcpProxy(on_redis.server.port) as proxy:
        frontier, other = on_redis.open(port=proxy.port), on_redis.open("w2")
        await frontier.begin("crawl")
        await other.begin("crawl")
        outbox = entries(1, 2)
        proxy.drop_next_answer()
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(outbox, 2)
        on_redis.advance(LEASE + 1)
        assert keys(await other.exchange(Outbox(), 1)) == [1]
        assert keys(await frontier.exchange(outbox, 2)) == []


async def test_another_worker_of_the_same_name_does_not_get_the_answers_of_the_first(
    on_redis: RedisBackend,
) -> None:
    first = await begun(on_redis)
    await first.exchange(entries(1, 2), 1)
    second = on_redis.open()
    await second.begin("crawl")
    assert keys(await second.exchange(Outbox(), 1)) == [2]


async def test_a_connection_that_is_cut_is_made_again(on_redis: RedisBackend) -> None:
    async with TcpProxy(on_redis.server.port) as proxy:
        frontier = on_redis.open(port=proxy.port)
        await frontier.begin("crawl")
        proxy.cut()
        await asyncio.sleep(0.05)
        outbox = entries(1)
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(outbox, 1)
        assert keys(await frontier.exchange(outbox, 1)) == [1]


@pytest.mark.parametrize("frozen", ["paused", "black hole", "stopped"])
async def test_a_frozen_server_is_unavailable_within_the_time_out_and_holds_up_nothing_else(
    frozen: str,
) -> None:
    with RedisServer() as server:
        async with TcpProxy(server.port) as proxy:
            frontier = frontier_at(plain_client(proxy.port, socket_timeout=0.5))
            await answered(lambda: frontier.begin("crawl"))
            outbox = entries(1)
            if frozen == "paused":
                with server.client() as client:
                    client.client_pause(5000)
            elif frozen == "stopped":
                os.kill(server.pid, signal.SIGSTOP)
            proxy.black_hole = frozen == "black hole"
            with closing(OwnClock()) as clock:
                ticks = asyncio.create_task(longest_lag(clock, 1.0))
                started = clock()
                with pytest.raises(FrontierUnavailable, match=r"127\.0\.0\.1|localhost"):
                    await frontier.exchange(outbox, 1)
                assert clock() - started < 0.9
                assert await ticks < 0.2
            proxy.heal()
            os.kill(server.pid, signal.SIGCONT)
            inbox = await answered(lambda: frontier.exchange(outbox, 1))
            assert keys(inbox) == [1]
            assert (await answered(lambda: counts(frontier))).seen == 1
            await frontier.close()


async def longest_lag(clock: OwnClock, seconds: float) -> float:
    """The longest time by which the event loop was late, over so many seconds."""
    longest, end = 0.0, clock() + seconds
    while clock() < end:
        longest = max(longest, await lag(clock))
    return longest


async def test_no_server_at_all_is_unavailable_and_the_message_holds_no_password() -> None:
    frontier = frontier_at(plain_client(1, password="canary"))
    with pytest.raises(FrontierUnavailable) as caught:
        await frontier.begin("crawl")
    assert "canary" not in str(caught.value)
    await frontier.close()


# The server.


async def test_a_server_killed_and_started_again_goes_on_where_it_was() -> None:
    """With the append-only file, and `appendfsync always`, nothing that was answered is lost."""
    with RedisServer(appendonly=True, options={"appendfsync": "always"}) as server:
        frontier = frontier_at(plain_client(server.port))
        await frontier.begin("crawl")
        inbox = await frontier.exchange(entries(1, 2, 3), 1)
        server.kill()
        outbox = Outbox(acks=held(*inbox.leases))
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(outbox, 5)
        server.start()
        inbox = await frontier.exchange(outbox, 5)
        assert keys(inbox) == [2, 3]
        assert await counts(frontier) == Counts(queued=0, delayed=0, leased=2, dead=0, done=1)
        await frontier.close()


async def test_scripts_that_were_flushed_are_sent_again(on_redis: RedisBackend) -> None:
    frontier = await begun(on_redis)
    with on_redis.server.client() as client:
        client.script_flush()
    assert keys(await frontier.exchange(entries(1), 1)) == [1]


async def test_data_that_was_lost_is_noticed(on_redis: RedisBackend) -> None:
    frontier = await begun(on_redis)
    inbox = await frontier.exchange(entries(1, 2), 1)
    with on_redis.server.client() as client:
        client.flushall()
    for call in (
        frontier.exchange(Outbox(acks=held(*inbox.leases)), 1),
        frontier.elect_finisher(),
        frontier.publish_verdict(b"v"),
    ):
        with pytest.raises(FrontierLost, match="gone"):
            await call
    with on_redis.server.client() as client:
        assert client.dbsize() == 0
    assert not (await frontier.begin("next")).resumed


async def test_another_crawl_in_the_place_of_ours_is_noticed(on_redis: RedisBackend) -> None:
    frontier, other = on_redis.open("w1"), on_redis.open("w2")
    await frontier.begin("one")
    with on_redis.server.client() as client:
        client.flushall()
    await other.begin("two")
    await other.exchange(entries(1), 0)
    with pytest.raises(FrontierLost):
        await frontier.exchange(Outbox(), 5)
    assert await counts(other) == Counts(queued=1, delayed=0, leased=0, dead=0, done=0)


async def test_when_the_memory_is_full_acks_pass_and_entries_wait(on_redis: RedisBackend) -> None:
    frontier, other = on_redis.open("w1"), on_redis.open("w2")
    await frontier.begin("crawl")
    await other.begin("crawl")
    leases = (await frontier.exchange(entries(1, 2, 3, 4), 3)).leases
    with on_redis.server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(FrontierUnavailable, match=r"memory of .* is full"):
                await other.exchange(entries(5), 1)
            inbox = await frontier.exchange(Outbox(acks=held(leases[0])), 1)
            assert keys(inbox) == [4]
            parent = Outbox(acks=held(leases[1]), downloaded=held(leases[1]), entries=[entry(6)])
            with pytest.raises(FrontierUnavailable, match="no request was added"):
                await frontier.exchange(parent, 1)
            assert await counts(frontier) == Counts(queued=0, delayed=0, leased=3, dead=0, done=1)
        finally:
            client.config_set("maxmemory", 0)
    inbox = await frontier.exchange(parent, 1)
    assert (keys(inbox), inbox.stale) == ([6], [])
    assert await counts(frontier) == Counts(queued=0, delayed=0, leased=3, dead=0, done=2)


async def test_an_answer_that_was_lost_is_given_again_also_when_the_memory_is_full(
    on_redis: RedisBackend,
) -> None:
    async with TcpProxy(on_redis.server.port) as proxy:
        frontier = on_redis.open(port=proxy.port)
        await frontier.begin("crawl")
        lease = (await frontier.exchange(entries(1, 2), 1)).leases[0]
        outbox = Outbox(acks=held(lease))
        proxy.drop_next_answer()
        with pytest.raises(FrontierUnavailable):
            await frontier.exchange(outbox, 1)
        with on_redis.server.client() as client:
            client.config_set("maxmemory", 1)
            try:
                inbox = await frontier.exchange(outbox, 1)
            finally:
                client.config_set("maxmemory", 0)
        assert (keys(inbox), inbox.stale) == ([2], [])


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_server_that_evicts_keys_is_refused_by_the_name_of_its_policy(
    on_redis: RedisBackend, policy: str
) -> None:
    frontier = on_redis.open()
    with on_redis.server.client() as client:
        client.config_set("maxmemory-policy", policy)
        try:
            with pytest.raises(ConfigurationError, match=policy):
                await frontier.begin("crawl")
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    assert not (await frontier.begin("crawl")).resumed


async def test_a_server_without_append_only_file_is_warned_of(
    on_redis: RedisBackend, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await begun(on_redis)
    assert "append-only file" in caplog.text


async def test_a_server_with_append_only_file_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer(appendonly=True) as server, caplog.at_level(logging.WARNING):
        frontier = frontier_at(plain_client(server.port))
        await frontier.begin("crawl")
        await frontier.close()
    assert caplog.text == ""


async def test_a_user_who_may_not_see_the_configuration_is_warned_and_goes_on(
    on_redis: RedisBackend, caplog: pytest.LogCaptureFixture
) -> None:
    with on_redis.server.client() as client:
        client.acl_setuser(
            "crawler", enabled=True, passwords=["+canary"], keys=["*"], commands=["+@all", "-config"]
        )
        try:
            frontier = frontier_at(plain_client(on_redis.server.port, username="crawler", password="canary"))
            with caplog.at_level(logging.WARNING):
                await frontier.begin("crawl")
            assert "does not show its configuration" in caplog.text
            await frontier.close()
            refused = frontier_at(plain_client(on_redis.server.port, username="crawler", password="wrong"))
            with pytest.raises(ConfigurationError, match="refuses the user or password"):
                await refused.begin("crawl")
            await refused.close()
        finally:
            client.acl_deluser("crawler")


async def test_a_read_only_replica_is_unavailable(on_redis: RedisBackend) -> None:
    frontier = await begun(on_redis)
    with on_redis.server.client() as client:
        client.replicaof("127.0.0.1", 1)
        try:
            with pytest.raises(FrontierUnavailable):
                await frontier.exchange(Outbox(), 1)
        finally:
            client.replicaof("no", "one")


async def test_wrong_arguments_are_refused_before_anything_is_changed(
    on_redis: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = redis_beside.pack_outbox

    def garbled(outbox: Outbox) -> list[bytes]:
        messages = pack(outbox)
        return [*messages[:3], messages[3][:-1], *messages[4:]]

    monkeypatch.setattr(redis_beside, "pack_outbox", garbled)
    frontier = RedisFrontier(
        RedisKeys(plain_client(on_redis.server.port), prefix="test"),
        worker="w1",
        limits={},
        default_limit=SlotLimit(0),
    )
    await frontier.begin("crawl")
    with pytest.raises(FrontierError, match="too short"):
        await frontier.exchange(Outbox(entries=[entry(1)], acks=[Held(1, 1)]), 1)
    assert (await counts(frontier)).seen == 0
    await frontier.close()
