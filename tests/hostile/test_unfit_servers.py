"""Servers that can hold no crawl are refused at start, in one line that says what to do instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import redis

from tests.crawling import HANGS, wait_until
from tests.hostile.conftest import SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn


@contextmanager
def a_cluster_without_slots() -> Iterator[str]:
    with RedisServer(options={"cluster-enabled": "yes"}) as server:
        yield server.url


@contextmanager
def a_cluster_whose_slots_are_elsewhere(*rights: str) -> Iterator[str]:
    """What another node has is answered with MOVED."""
    with (
        RedisServer(options={"cluster-enabled": "yes"}) as asked,
        RedisServer(options={"cluster-enabled": "yes"}) as other,
        asked.client() as here,
        other.client() as there,
    ):
        there.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        here.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port)
        wait_until(lambda: moved(here), what="the nodes knowing each other")
        here.acl_setuser("crawler", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", *rights])
        yield asked.url.replace("//", "//crawler:x@")


@contextmanager
def a_cluster_that_hides_what_it_is() -> Iterator[str]:
    with a_cluster_whose_slots_are_elsewhere("-info", "-config") as url:
        yield url


def moved(client: redis.Redis) -> bool:
    try:
        client.get("{cars}:crawl")
    except redis.exceptions.MovedError:
        return True
    except redis.exceptions.ResponseError:
        pass
    return False


@contextmanager
def a_sentinel() -> Iterator[str]:
    with RedisServer(sentinel=True) as server:
        yield server.url


@contextmanager
def a_replica() -> Iterator[str]:
    with (
        RedisServer() as master,
        RedisServer(options={"replicaof": f"127.0.0.1 {master.port}"}) as replica,
    ):
        yield replica.url


@contextmanager
def no_redis() -> Iterator[str]:
    with StandIn(20, seed=3) as site:
        yield site.url.replace("http:", "redis:").removesuffix("/fw/public") + "/0"


Server = Callable[[], AbstractContextManager[str]]
UNFIT: dict[str, tuple[Server, str]] = {
    "cluster, no slots": (a_cluster_without_slots, "is a node of a Redis Cluster"),
    "cluster, moved": (a_cluster_whose_slots_are_elsewhere, "is a node of a Redis Cluster"),
    "cluster, hidden": (a_cluster_that_hides_what_it_is, "is a node of a Redis Cluster"),
    "sentinel": (a_sentinel, "is a Sentinel"),
    "replica": (a_replica, "is a read-only replica"),
    "no redis": (no_redis, "is no Redis"),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_it_is_refused_in_one_line_by_a_crawl_and_by_every_look_at_the_queue(
    site: StandIn, start: Start, kind: str, tmp_path: Path
) -> None:
    server, problem = UNFIT[kind]
    with server() as url:
        run = start(redis_url=url)
        assert run.wait(SECONDS) == 2, run.log
        [line] = [line for line in run.log.splitlines() if problem in line]
        assert "give REDIS_URL" in line
        assert "Traceback" not in run.log
        for action in (["status"], ["dead"], ["forget", "--yes"]):
            looked = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "scrapy",
                    "queue",
                    *action,
                    "-s",
                    f"REDIS_URL={url}",
                    "--spider",
                    "cars",
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=HANGS,
            )
            assert looked.returncode == 2, looked.stderr
            assert problem in looked.stderr
            assert "give REDIS_URL" in looked.stderr
            assert len(looked.stderr.splitlines()) == 1
    assert site.counts()["requests"] == 0
