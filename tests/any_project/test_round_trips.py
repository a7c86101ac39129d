"""A Redis that is far away is asked few times, one after the other, at the beginning and at the end of a crawl."""

from __future__ import annotations

import asyncio
import re
from itertools import groupby

from scrapy_durable.frontier.redis_scripts import load_script
from tests.any_project.conftest import MakeProject
from tests.any_project.project import Project
from tests.any_project.variants import Variant
from tests.redis_server import RedisServer
from tests.tcp_proxy import TcpProxy

ON_REDIS = Variant(
    "far", {"ADDONS": {"scrapy_durable.Addon": 500}, "SCHEDULER_IDLE_BEFORE_CLOSE": 0}, redis=True
)
SCRIPTS = ("exchange", "workers", "elect_finisher", "status", "publish_verdict", "logs", "forget")
NAMES = {load_script(name).sha: name for name in SCRIPTS}
FROM_TIME_TO_TIME = {"exchange", "workers", "EVAL", "ZREM", "GET"}
"""What a crawl asks as often as its time demands; `GET` and `EVAL` are the look for a verdict, and for start URLs."""
BEGINNING = ["INFO TIME", "INFO SCRIPT EXISTS", "SCRIPT LOAD"]
"""The time that names a crawl; what the server has; the rest, and the crawl is begun."""
END = ["elect_finisher", "status", "elect_finisher", "publish_verdict", "logs", "forget"]


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


async def round_trips(crawl: Project, server: RedisServer) -> list[str]:
    """What a crawl has asked of Redis and waited for, in its order."""
    async with TcpProxy(server.port) as proxy:
        run = crawl.start(arguments=["-s", f"REDIS_URL=redis://127.0.0.1:{proxy.port}/0"])
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
