"""A Redis that is far away is asked few times, one after the other, at the beginning and at the end of a crawl."""

from __future__ import annotations

import asyncio
import re
import time
from itertools import groupby
from pathlib import Path

from scrapy.settings import Settings

from benchmarks.workers import Site, start_worker
from scrapy_durable.frontier.redis_scripts import load_script
from scrapy_durable.responses.build import build_response_store
from tests.any_project.conftest import MakeProject
from tests.any_project.project import Project
from tests.any_project.variants import Variant
from tests.crawling import HANGS, crawl
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.tcp_proxy import TcpProxy

ON_REDIS = Variant(
    "far", {"ADDONS": {"scrapy_durable.Addon": 500}, "SCHEDULER_IDLE_BEFORE_CLOSE": 0}, redis=True
)
SCRIPTS = ("exchange", "workers", "elect_finisher", "status", "publish_verdict", "logs", "forget")
NAMES = {load_script(name).sha: name for name in SCRIPTS}
FROM_TIME_TO_TIME = {"exchange", "workers", "EVAL", "ZREM", "GET"}
"""What a crawl asks as often as its time demands; `GET` and `EVAL` are the look for a verdict, and for start URLs."""
BESIDE = {"MULTI", "SCAN", "TIME", "PEXPIRETIME"}
"""What goes on beside a crawl that has a response store: answers are put there, and it is pruned."""
BEGINNING = ["INFO SCRIPT EXISTS", "SCRIPT LOAD"]
"""What the server has, and the time that names a crawl; the rest, and the crawl is begun."""
END = ["elect_finisher", "publish_verdict", "SCRIPT LOAD"]
"""Who is elected is told what there is. The last one removes it: its first part sees to it that the server has the
script.
"""


def name_of(asked: bytes) -> str:
    """The script, or the first commands but those that only ask for a setting."""
    commands = re.findall(rb"\*\d+\r\n\$\d+\r\n([^\r]*)\r\n(?:\$\d+\r\n([^\r]*))?", asked)
    first, argument = (word.decode(errors="replace") for word in commands[0])
    if first == "EVALSHA":
        return NAMES.get(argument, argument)
    if first == "INFO":
        second, what = (word.decode() for word in commands[1])
        return f"INFO {second} {what}".strip()
    return f"SCRIPT {argument}" if first == "SCRIPT" else first


async def round_trips(crawled: Project, server: RedisServer) -> list[str]:
    """What a crawl has asked of Redis and waited for, in its order."""
    async with TcpProxy(server.port) as proxy:
        run = crawled.start(arguments=["-s", f"REDIS_URL=redis://127.0.0.1:{proxy.port}/0"])
        assert await asyncio.to_thread(run.wait) == 0, run.log
        # A long question may be answered in part before it is asked as a whole; that is one round trip.
        return [name_of(each) for each in proxy.round_trips if each.startswith(b"*")]


def test_the_begin_and_the_end_of_a_crawl_ask_a_handful_of_times_one_after_the_other(
    project: MakeProject, redis_server: RedisServer
) -> None:
    with redis_server.client() as client:
        client.script_flush()
    asked = asyncio.run(round_trips(project("products", ON_REDIS), redis_server))
    names = [name for name, _ in groupby(name for name in asked if name not in FROM_TIME_TO_TIME)]
    assert names[: len(BEGINNING)] == BEGINNING
    assert names[-len(END) :] == END
    assert not {name for name in names if name not in {*BEGINNING, *END}}, "nothing else is waited for"


def test_the_begin_and_the_end_of_a_crawl_of_cars_ask_no_more_often(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """But for a look before anything is started, whether the server is there and fit."""

    async def asked() -> list[str]:
        async with TcpProxy(redis_server.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0"
            with (
                StandIn(100) as site,
                crawl(site.url, tmp_path / "out", redis_url=url, jobdir=tmp_path / "job") as run,
            ):
                assert await asyncio.to_thread(run.wait, HANGS) == 0, run.log
            return [name_of(each) for each in proxy.round_trips if each.startswith(b"*")]

    with redis_server.client() as client:
        client.script_flush()
    names = [name for name in asyncio.run(asked()) if name not in FROM_TIME_TO_TIME | BESIDE]
    assert names == ["INFO PING", *BEGINNING, *END]


def test_a_stored_answer_is_looked_up_and_not_claimed_in_one_round_trip_on_each_of_two_connections(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async def asked_for() -> list[str]:
        async with TcpProxy(redis_server.port) as proxy:
            settings = {
                "REDIS_URL": f"redis://127.0.0.1:{proxy.port}/0",
                "DURABLE_RESPONSES_DIR": str(tmp_path),
            }
            store = build_response_store(Settings(settings), spider="far")
            assert store is not None
            assert await store.put("there", 200, "http://site/there", b"answer")
            before = len(proxy.round_trips)
            stored, claimed = await asyncio.gather(store.get("there", 60.0), store.claim("there", 10.0, 60.0))
            assert stored
            assert not claimed
            looked = [name_of(each) for each in proxy.round_trips[before:]]
            assert await store.claim("missing", 10.0, 60.0), (
                "what is not there is claimed, in one round trip too"
            )
            await store.close()
            return [*looked, *(name_of(each) for each in proxy.round_trips[before + len(looked) :])]

    assert asyncio.run(asked_for()) == ["EVAL", "EVAL", "EVAL"]


def test_a_worker_that_has_more_than_it_may_send_looks_for_start_urls_a_tenth_as_often(
    tmp_path: Path,
) -> None:
    """While the site hangs, two are in flight, and spares wait for their places."""

    async def looks_while_the_site_hangs() -> tuple[int, float]:
        site = Site(0.0)
        await site.start()
        with RedisServer() as server, server.client() as client:

            def calls(command: str) -> int:
                return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])

            async def until_more_exchanges(number: int) -> None:
                before = calls("evalsha")
                while calls("evalsha") < before + number:
                    await asyncio.sleep(0.02)

            worker = start_worker(str(tmp_path), "busy", server.port, site.port, 40, 2, 16)
            try:
                async with asyncio.timeout(HANGS):
                    while site.in_flight < 2:
                        await asyncio.sleep(0.02)
                    await until_more_exchanges(6)  # the spares are there, whatever was under way
                    began, before = time.monotonic(), calls("eval")
                    await until_more_exchanges(8)
                    looks, seconds = calls("eval") - before, time.monotonic() - began
                    site.open.set()
                    assert await asyncio.to_thread(worker.wait) == 0
            finally:
                worker.kill()
                worker.wait()
                await site.close()
        return looks, seconds

    looks, seconds = asyncio.run(looks_while_the_site_hangs())
    assert looks <= 1 + seconds / 10
