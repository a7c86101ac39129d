"""The rights on Redis that docs/security.md names are enough for a crawl; one that is missing is said in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import redis

from tests.hostile.conftest import SECONDS, Start
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn

[RIGHTS] = re.findall(
    r"^ACL SETUSER crawler (.*)$", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE
)
"""As the page has them; `$PASSWORD` stands for a password."""
PASSWORD = "canary-7f3a"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """One that a crawl has nothing to warn of: it keeps what it holds."""
    with RedisServer(appendonly=True) as server:
        yield server


def url_for(server: RedisServer, client: redis.Redis, *more: str) -> str:
    """The address for a user with the rights of the page, and those."""
    rights = RIGHTS.replace("$PASSWORD", PASSWORD).split()
    client.execute_command("ACL", "SETUSER", "crawler", "reset", *rights, *more)
    return f"redis://crawler:{PASSWORD}@127.0.0.1:{server.port}/0"


def test_a_whole_crawl_needs_no_more(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    client.acl_log_reset()
    client.set("mine", "untouched")
    client.rpush("cars:start_urls", "/no-page")
    url = url_for(server, client)
    runs = [start(redis_url=url) for _ in range(2)]
    for run in runs:
        assert run.wait(SECONDS) == 0, run.log
        assert "WARNING" not in run.log.replace("WARNING: Left", "")
        assert PASSWORD not in run.log
    assert sorted(runs[0].cars()) == sorted(site.ids())
    assert not client.exists("cars:start_urls")
    assert all(key.startswith(b"{cars}:") or key == b"mine" for key in client.keys())  # noqa: SIM118  # type: ignore[union-attr]
    denied = [entry["object"] for entry in client.acl_log()]
    assert not denied


@pytest.mark.parametrize("right", ["-evalsha -eval", "-hset", "-type", "resetkeys ~{other}:*"])
def test_a_right_that_is_missing_is_said_in_one_line(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, right: str
) -> None:
    run = start(redis_url=url_for(server, client, *right.split()))
    assert run.wait(SECONDS) == 2, run.log
    [line] = [line for line in run.log.splitlines() if "does not let this user do it" in line]
    assert len(line) < 500
    assert PASSWORD not in run.log
    assert "Traceback" not in run.log
    assert site.counts()["requests"] == 0


def test_without_the_start_key_it_crawls_all_the_same(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    run = start(redis_url=url_for(server, client, "resetkeys", "~{cars}:*"))
    assert run.wait(SECONDS) == 0, run.log
    assert run.log.count("Nothing can be taken from cars:start_urls: ") == 1
