"""What every backend of the response store has to do."""

import asyncio
import logging
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_durable.responses.contract import Pruned, StoredResponse
from scrapy_durable.responses.packing import MAX_BODY

URL = "https://h/v2/specs/pJyZp5uopZ0%3D/2017"
KEY = "pJyZp5uopZ0=/2017"


def test_what_was_put_comes_back_as_it_was(backend, play):
    async def scenario(store):
        assert await store.put(KEY, 200, URL, b'{"data": [[]]}')
        assert await store.get(KEY, 1.0) == StoredResponse(
            KEY, 200, URL, backend.clock.now, b'{"data": [[]]}'
        )
        assert await store.get("other", 1.0) is None

    play(scenario)


def test_it_is_there_for_the_next_process(backend, play):
    async def write(store):
        await store.put(KEY, 404, URL, b"")

    async def read(store):
        return await store.get(KEY, math.inf)

    play(write)
    assert play(read).status == 404


def test_an_answer_is_good_until_its_age_is_reached(backend, play):
    async def scenario(store):
        await store.put(KEY, 200, URL, b"x")
        backend.clock.now += 99.9
        assert await store.get(KEY, 100.0)
        backend.clock.now += 0.2
        assert await store.get(KEY, 100.0) is None
        assert await store.get(KEY, math.inf)
        assert await store.get(KEY, 0.0) is None

    play(scenario)


def test_a_later_answer_takes_the_place_of_the_earlier_one(backend, play):
    async def scenario(store):
        await store.put(KEY, 404, URL, b"old")
        backend.clock.now += 10
        await store.put(KEY, 200, URL + "?x", b"new")
        assert await store.get(KEY, 5.0) == StoredResponse(KEY, 200, URL + "?x", backend.clock.now, b"new")

    play(scenario)


def test_many_keys_are_looked_up_at_once_and_the_missing_left_out(play):
    async def scenario(store):
        for number in range(0, 300, 2):
            await store.put(f"k{number}", 200, URL, str(number).encode())
        found = await store.get_many([f"k{number}" for number in range(300)], 10.0)
        assert {key: stored.body for key, stored in found.items()} == {
            f"k{number}": str(number).encode() for number in range(0, 300, 2)
        }
        assert await store.get_many([], 10.0) == {}
        assert list(await store.get_many(["k0", "k0"], 10.0)) == ["k0"]

    play(scenario)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: b"",
        lambda value: b"garbage",
        lambda value: value[:-1],
        lambda value: value[: len(value) // 2],
        lambda value: value[:-3] + bytes([value[-3] ^ 1]) + value[-2:],
        lambda value: value + b"more",
    ],
)
def test_a_damaged_answer_is_a_miss_logged_once_and_its_neighbours_are_found(backend, play, caplog, change):
    async def scenario(store):
        await store.put("bad", 200, URL, b"body" * 100)
        await store.put("good", 200, URL, b"body" * 100)
        backend.spoil("bad", change)
        for _ in range(3):
            assert list(await store.get_many(["bad", "good"], 10.0)) == ["good"]
            assert await store.claim("bad", 0.001, 10.0)  # nothing stands in the way of fetching it again
            await store.disclaim("bad")
        assert await store.put("bad", 200, URL, b"again")
        assert (await store.get("bad", 10.0)).body == b"again"

    with caplog.at_level(logging.WARNING):
        play(scenario)
    warned = [record for record in caplog.records if "damaged" in record.message]
    assert len(warned) == 1
    assert "'bad'" in warned[0].message


def test_a_forged_length_takes_up_no_memory(backend, play):
    forged = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"

    async def scenario(store):
        await store.put(KEY, 200, URL, b"body")
        frame = b"\x28\xb5\x2f\xfd"
        backend.spoil(KEY, lambda value: value[: value.index(frame)] + forged)
        assert await store.get(KEY, 10.0) is None

    play(scenario)


def test_a_body_beyond_the_limit_is_not_kept(play):
    async def scenario(store):
        assert not await store.put(KEY, 200, URL, bytes(MAX_BODY + 1))
        assert await store.get(KEY, 10.0) is None

    play(scenario)


def test_bodies_are_stored_compressed(play):
    async def scenario(store):
        before = await store.size()
        for number in range(20):
            await store.put(f"k{number}", 200, URL, b'{"label": "Power", "value": "110 kW"}' * 1000)
        assert await store.size() - before < 20 * 4096

    play(scenario)


def test_what_one_crawl_put_is_read_again_in_the_order_of_its_keys(backend, play):
    async def scenario(store):
        for number in reversed(range(450)):
            await store.put(f"page/one/{number:03}", 200, URL, str(number).encode(), crawl_id="one")
            await store.put(f"else/{number}", 200, URL, b"")
        await store.put("page/two", 404, URL, b"", crawl_id="two")
        assert [int(stored.body) async for stored in store.iterate("one")] == list(range(450))
        [only] = [stored async for stored in store.iterate("two")]
        assert only == StoredResponse("page/two", 404, URL, backend.clock.now, b"")
        assert [stored async for stored in store.iterate("none")] == []

    play(scenario)


def test_what_belongs_to_a_crawl_is_never_served_to_another(play):
    async def scenario(store):
        await store.put("page/one", 200, URL, b"", crawl_id="one")
        await store.put("shared", 200, URL, b"")
        assert await store.get("page/one", math.inf) is None
        assert list(await store.get_many(["page/one", "shared"], math.inf)) == ["shared"]

    play(scenario)


def test_the_time_of_fetching_is_kept_as_it_was_told(play):
    async def scenario(store):
        await store.put("page", 200, URL, b"", crawl_id="one", fetched_at=1_700_000_000.123456)
        await store.put("shared", 200, URL, b"", fetched_at=1_700_000_000.654321)
        [page] = [stored async for stored in store.iterate("one")]
        assert page.fetched_at == 1_700_000_000.123456
        assert (await store.get("shared", math.inf)).fetched_at == 1_700_000_000.654321

    play(scenario)


def test_a_crawl_that_goes_on_may_be_read(play):
    async def scenario(store):
        for number in range(120):
            await store.put(f"{number:03}", 200, URL, b"", crawl_id="one")
        seen = []
        async for stored in store.iterate("one"):
            seen.append(stored.key)
            await store.put(f"new/{len(seen):03}", 200, URL, b"", crawl_id="one")
        assert set(seen) >= {f"{number:03}" for number in range(120)}
        assert seen == sorted(set(seen))

    play(scenario)


def test_the_crawls_are_listed_with_their_keys_and_what_they_take_up(play):
    async def scenario(store):
        assert await store.crawls() == []
        for number in range(3):
            await store.put(f"page/b/{number}", 200, URL, noise(number), crawl_id="b")
        await store.put("page/a/0", 200, URL, noise(0), crawl_id="a")
        await store.put("shared", 200, URL, noise(0))
        first, second = await store.crawls()
        assert (first.crawl_id, first.keys) == ("a", ["page/a/0"])
        assert (second.crawl_id, second.keys) == ("b", ["page/b/0", "page/b/1", "page/b/2"])
        assert 0 < first.bytes < second.bytes < await store.size()

    play(scenario)


def test_pruning_makes_the_store_fit(backend, play):
    async def scenario(store):
        for number in range(600):
            await store.put(f"k{number}", 200, URL, noise(number))
            if number % 300 == 299:
                await asyncio.sleep(0.01)  # the server's clock counts milliseconds
        full = await store.size()
        pruned = await store.prune(full // 2, math.inf, math.inf)
        assert await store.size() == pruned.bytes <= full // 2
        found = await store.get_many([f"k{number}" for number in range(600)], math.inf)
        assert len(found) == 600 - pruned.removed
        assert len([key for key in found if int(key[1:]) < 300]) < 10, "the oldest go first"

    play(scenario)


async def put_crawls(backend, store):
    """Three crawls of 60 pages, the last begun first; and 60 specs, as old as the first of them."""
    for number in range(60):
        await store.put(f"spec/{number}", 200, URL, noise(number))
    for crawl_id in "cab":
        backend.clock.now += 1000
        for number in range(60):
            await store.put(f"page/{crawl_id}/{number}", 200, URL, noise(number), crawl_id=crawl_id)
        await asyncio.sleep(0.01)  # the server's clock counts milliseconds


async def kept(store):
    """Which crawls are still whole, and how many specs are there."""
    crawls = [crawl.crawl_id for crawl in await store.crawls() if len(crawl.keys) == 60]
    return "".join(crawls), len(await store.get_many([f"spec/{number}" for number in range(60)], math.inf))


def test_when_bytes_are_short_whole_crawls_go_first_the_oldest_first(backend, play):
    async def scenario(store):
        await put_crawls(backend, store)
        pruned = Pruned(0, await store.size())
        assert await store.prune(pruned.bytes, math.inf, math.inf) == pruned
        for left in ("ab", "b", ""):
            pruned = await store.prune(pruned.bytes - 1, math.inf, math.inf)
            assert (pruned.removed, await kept(store)) == (60, (left, 60))

    play(scenario)


def test_shared_answers_go_when_no_crawl_is_left_to_go(backend, play):
    async def scenario(store):
        await put_crawls(backend, store)
        pruned = await store.prune(0, math.inf, math.inf)
        assert pruned.removed == 240
        assert await kept(store) == ("", 0)

    play(scenario)


def test_no_crawl_is_kept_for_no_time(backend, play):
    async def scenario(store):
        await put_crawls(backend, store)
        assert (await store.prune(10**12, math.inf, 0.0)).removed == 180
        assert await kept(store) == ("", 60)

    play(scenario)


def noise(number):
    return bytes((number * step * step) % 251 for step in range(1, 1500))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), body=st.binary())
def test_any_key_and_any_body(play, key, body):
    async def scenario(store):
        assert await store.put(key, 200, URL, body)
        assert (await store.get(key, 10.0)).body == body

    play(scenario)


def test_an_answer_that_nobody_fetches_may_be_claimed_and_again_after_a_failure(play):
    async def scenario(store):
        assert await store.claim(KEY, 10.0, 60.0)
        await store.disclaim(KEY)
        assert await store.claim(KEY, 10.0, 60.0)

    play(scenario)


def test_an_answer_that_is_too_old_may_be_claimed(backend, play):
    """It is still there, for the crawls that have used it."""

    async def scenario(store):
        await store.put(KEY, 200, URL, b"old")
        backend.clock.now += 100
        assert await store.get(KEY, 60.0) is None
        assert await store.claim(KEY, 10.0, 60.0)
        await store.put(KEY, 200, URL, b"new")
        assert (await store.get(KEY, 60.0)).body == b"new"

    play(scenario)


def test_an_answer_of_a_crawl_is_rewritten_and_all_else_of_it_stays(backend, play):
    async def scenario(store):
        await store.put("page/1", 200, URL, b"old one", crawl_id="a")
        await store.put("page/2", 200, URL, b"other", crawl_id="a")
        fetched_at = backend.clock.now
        backend.clock.now += 10
        assert await store.rewrite("a", "page/1", b"new")
        assert await store.rewrite("a", "absent", b"new")
        assert await store.rewrite("b", "page/1", b"new")
        assert [stored async for stored in store.iterate("a")] == [
            StoredResponse("page/1", 200, URL, fetched_at, b"new"),
            StoredResponse("page/2", 200, URL, fetched_at, b"other"),
        ]
        assert [crawl.crawl_id for crawl in await store.crawls()] == ["a"]

    play(scenario)
