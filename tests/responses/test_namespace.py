"""Answers of one site are not those of another, in either backend, nor are claims to them."""

import asyncio
import math

from scrapy_durable.responses.namespace import NamespaceStore
from tests.responses.conftest import RedisBackend

HERE, THERE = "https://api.cars.co.za/fw/public", "http://127.0.0.1:8000/fw/public"
KEY = "pJyZp5uopZ0=/2017"


def seen_by(store, *origins):
    return [NamespaceStore(store, origin) for origin in origins]


def test_each_origin_finds_its_own_answers_under_the_key_that_it_gave(backend, play):
    async def scenario(store):
        here, there = seen_by(store, HERE, THERE)
        await here.put(KEY, 200, f"{HERE}/v2/specs/x", b"here")
        assert await there.get(KEY, math.inf) is None
        assert await there.get_many([KEY], math.inf) == {}
        await there.put(KEY, 404, f"{THERE}/v2/specs/x", b"there")
        for origin, body in ((here, b"here"), (there, b"there")):
            stored = await origin.get(KEY, math.inf)
            assert (stored.key, stored.body) == (KEY, body)
            assert await origin.get_many([KEY, "other"], math.inf) == {KEY: stored}

    play(scenario)


def test_an_answer_of_an_earlier_release_belongs_to_no_origin(backend, play):
    async def scenario(store):
        await store.put(KEY, 200, f"{HERE}/v2/specs/x", b"old")
        here, nowhere = seen_by(store, HERE, "")
        assert await here.get(KEY, math.inf) is None
        assert (await nowhere.get(KEY, math.inf)).body == b"old"

    play(scenario)


def test_who_fetches_for_one_origin_holds_up_nobody_of_another(shared_redis):
    async def scenario():
        async with RedisBackend(shared_redis.socket).store() as store:
            here, there = seen_by(store, HERE, THERE)
            assert await here.claim("origin-test", 10.0, 60.0)
            assert not await here.claim("origin-test", 10.0, 60.0)
            assert await there.claim("origin-test", 10.0, 60.0)
            await here.disclaim("origin-test")
            assert await here.claim("origin-test", 10.0, 60.0)
            assert not await there.claim("origin-test", 10.0, 60.0)
            await here.disclaim("origin-test")
            await there.disclaim("origin-test")

    asyncio.run(scenario())


def test_what_belongs_to_a_crawl_is_listed_and_pruned_whoever_looks(backend, play):
    async def scenario(store):
        here, there = seen_by(store, HERE, THERE)
        await here.put("page/crawl/1", 200, HERE, b"page", crawl_id="crawl")
        await here.put(KEY, 200, HERE, b"spec")
        assert [(crawl.crawl_id, crawl.keys) for crawl in await there.crawls()] == [
            ("crawl", ["page/crawl/1"])
        ]
        assert [stored.body async for stored in there.iterate("crawl")] == [b"page"]
        assert (await there.prune(0, 0.0, 0.0)).removed == 2
        assert await here.get(KEY, math.inf) is None

    play(scenario)
