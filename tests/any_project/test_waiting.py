"""A spider that is kept open while there is nothing to do crawls what comes later."""

from __future__ import annotations

import signal

from tests.any_project.conftest import MakeProject
from tests.any_project.shop import Shop
from tests.any_project.variants import Variant
from tests.crawling import wait_until
from tests.redis_server import RedisServer

WAITS = Variant("waits", {"ADDONS": {"scrapy_durable.Addon": 500}}, redis=True)
"""scrapy-redis' `MAX_IDLE_TIME_BEFORE_CLOSE` is 0 by default: for ever."""
PRODUCTS = 120


def test_a_redis_spider_waits_for_what_is_pushed_and_crawls_it(
    project: MakeProject, shop: Shop, redis_server: RedisServer
) -> None:
    pushed = project("pushed", WAITS)
    with redis_server.client() as client:

        def asks_again() -> None:
            """The spider is idle, and has looked for more of it."""
            asked = client.info("commandstats").get("cmdstat_llen", {"calls": 0})["calls"]
            wait_until(
                lambda: client.info("commandstats").get("cmdstat_llen", {"calls": 0})["calls"] >= asked + 3,
                60,
            )

        client.delete("pushed:start_urls")
        run = pushed.start()
        run.wait_until_open()
        asks_again()
        first, *others = shop.categories()
        for categories in ([first], others):
            before = len(pushed.items())
            client.rpush("pushed:start_urls", *categories)
            wait_until(lambda: len(pushed.items()) > before, 60, what="it is crawled")  # noqa: B023
            asks_again()
        wait_until(lambda: len(pushed.items()) >= PRODUCTS, 60)
        assert len(set(pushed.items())) == PRODUCTS
        assert run.running, run.log
        assert "The crawl is complete" not in run.log
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 1, run.log


def test_one_that_need_not_wait_any_more_ends_with_a_verdict(project: MakeProject) -> None:
    """The counterpart: so it is the spider's word that keeps it open."""
    pushed = project("pushed", WAITS)
    run = pushed.start(arguments=["-s", "MAX_IDLE_TIME_BEFORE_CLOSE=2"])
    assert run.wait() == 0, run.log
    assert len(set(pushed.items())) == PRODUCTS
    assert run.log.endswith("\ncomplete\n")


def test_a_start_key_that_the_spider_names_is_read_the_same_way(
    project: MakeProject, shop: Shop, redis_server: RedisServer
) -> None:
    """What scrapy-redis would take by itself would be in the memory of one process alone."""
    pushed = project("pushed", WAITS)
    spider = pushed.path / "shop" / "spiders" / "pushed.py"
    spider.write_text(
        spider.read_text().replace('name = "pushed"', 'name = "pushed"\n    redis_key = "mine"')
    )
    with redis_server.client() as client:
        client.rename("pushed:start_urls", "mine")
        run = pushed.start(arguments=["-s", "MAX_IDLE_TIME_BEFORE_CLOSE=2"])
        assert run.wait() == 0, run.log
        assert not client.exists("mine", "{pushed}:taken")
    assert len(pushed.items()) == len(set(pushed.items())) == PRODUCTS
    assert f"'start_urls/taken': {len(shop.categories())}," in run.log


PUSHES_ITSELF = '''
import asyncio

import redis
import scrapy


class PushedSpider(scrapy.Spider):
    """Pushes each number after the other to its own start key, once that has been found empty."""

    name = "pushed"

    def __init__(self, *args, site, **kwargs):
        super().__init__(*args, **kwargs)
        self.site = site

    def make_request_from_data(self, data):
        return scrapy.Request(f"{self.site}/?number={data.decode()}", cb_kwargs={"number": int(data)})

    async def parse(self, response, number):
        with redis.Redis.from_url(self.settings["REDIS_URL"]) as client:
            def looks():
                return client.info("commandstats")["cmdstat_eval"]["calls"]

            before = looks()
            while looks() == before:
                await asyncio.sleep(0.01)
            if number < 4:
                client.rpush("pushed:start_urls", number + 1)
'''


def test_what_is_pushed_by_the_last_request_of_a_crawl_is_crawled_before_it_ends(
    project: MakeProject, redis_server: RedisServer
) -> None:
    variant = Variant("chain", {**WAITS.settings, "SCHEDULER_IDLE_BEFORE_CLOSE": 0}, redis=True)
    pushed = project("pushed", variant)
    (pushed.path / "shop" / "spiders" / "pushed.py").write_text(PUSHES_ITSELF)
    with redis_server.client() as client:
        client.delete("pushed:start_urls")
        client.rpush("pushed:start_urls", 1)
        run = pushed.start()
        assert run.wait() == 0, run.log
        assert not client.exists("pushed:start_urls", "{pushed}:taken"), run.log
    assert "'start_urls/taken': 4," in run.log
