"""What others write beside the queue on Redis: names of crawls, verdicts, stored answers, claims."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from carscraper.items import SetAside
from carscraper.monitoring.verdict import GivenUp, Verdict
from scrapy_durable.exceptions import FrontierDamaged
from scrapy_durable.frontier.redis_layout import STATE_VERSION
from scrapy_durable.identity import is_crawl_id, new_crawl_id
from scrapy_durable.published import read_published
from tests.crawling import wait_until
from tests.hostile.conftest import SECONDS, Start
from tests.hostile.test_foreign_payloads import spider_of
from tests.redis_server import RedisServer
from tests.standin import SPEC_PATH, StandIn

COMPLETE = Verdict(
    complete=True,
    catalogue_complete=True,
    kept=71_290,
    expected=71_290,
    without_specs=0,
    spec_missing=[],
    passes=1,
    missing=[],
    set_aside=[],
    given_up=[],
)


# Names


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "../../../../tmp/x",
        "20241120T101500Z-3f9a1c/..",
        "20241120T101500Z-3f9a1C",
        "20241399T101500Z-3f9a1c",
        "99981120T101500Z-3f9a1c",
        "20241120T101500Z-3f9a1c\n",
        "٢٠٢٤1120T101500Z-3f9a1c",
    ],
)
def test_what_is_no_name_of_a_crawl(name: str) -> None:
    assert not is_crawl_id(name)
    assert is_crawl_id("20241120T101500Z-3f9a1c")
    assert is_crawl_id(new_crawl_id(1.7e9))


@pytest.mark.parametrize("name", ["../../elsewhere", "\x1b[31mred", "x" * 100_000])
def test_a_crawl_of_a_foreign_name_is_not_joined_and_nothing_is_written(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, tmp_path: Path, name: str
) -> None:
    identity = getattr(spider_of(site.url), "identity", "")
    crawl = {"id": name, "version": STATE_VERSION, "nonce": "x", "identity": identity}
    client.hset("{cars}:crawl", mapping=crawl)
    run = start(redis_url=server.url)
    assert run.wait(SECONDS) == 2, run.log
    assert "which none of ours has" in run.log
    assert "\x1b" not in run.log
    assert len(run.log) < 5000
    assert not list(tmp_path.rglob("crawls"))
    assert not (tmp_path.parent / "elsewhere").exists()


@pytest.mark.parametrize("version", ["\x1b[31mred", "9" * 100_000, "", "٢"])
def test_a_crawl_of_a_version_that_is_none_is_refused_in_a_plain_line(
    start: Start, server: RedisServer, client: redis.Redis, version: str
) -> None:
    client.hset("{cars}:crawl", mapping={"id": "20241120T101500Z-3f9a1c", "version": version})
    run = start(redis_url=server.url)
    assert run.wait(SECONDS) == 2, run.log
    assert "\x1b" not in run.log
    assert len(run.log) < 5000


# Verdicts


def test_a_verdict_comes_back_as_it_was_published() -> None:
    verdict = Verdict(
        complete=False,
        catalogue_complete=False,
        kept=1,
        expected=4,
        without_specs=0,
        spec_missing=["2"],
        passes=2,
        missing=["1"],
        set_aside=[SetAside("u", "p", "b"), SetAside("u", "p", "b", "7", "MongoDB")],
        given_up=[GivenUp("u", "r", ("1", "2"))],
        undelivered={"mongo": 3},
        deviations={"data[].x": {"count": 1, "kinds": ["null"]}},
        reasons=["why"],
    )
    assert read_published(Verdict, orjson.dumps(asdict(verdict))) == verdict


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*asdict(COMPLETE), "x"]), JSON, max_size=3), st.binary(max_size=20))
def test_any_published_verdict_is_one_or_refused(changes: dict[str, Any], more: bytes) -> None:
    for data in (orjson.dumps({**asdict(COMPLETE), **changes}), orjson.dumps(asdict(COMPLETE)) + more, more):
        said = ""
        try:
            verdict = read_published(Verdict, data)
        except FrontierDamaged as error:
            said = str(error)
        else:
            assert 0 <= verdict.kept <= 10**9
            assert all(reason.isprintable() for reason in (*verdict.reasons, *verdict.missing))
        assert said.isprintable()


@pytest.mark.parametrize(
    "published", [orjson.dumps(asdict(COMPLETE)), b"\xff\x00", b"[1]"], ids=["kept", "bytes", "list"]
)
def test_a_crawl_that_others_call_complete_is_not(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, published: bytes
) -> None:
    site.faults([{"match": SPEC_PATH, "fault": "delay", "seconds": 0.5}])
    run = start(redis_url=server.url, settings={"CARS_PAGE_SIZE": 50, "CONCURRENT_REQUESTS": 4})
    wait_until(lambda: len(site.specs()) > 4 or not run.running, SECONDS, what="a specification asked for")
    name = client.hget("{cars}:crawl", "id")
    assert isinstance(name, bytes)
    client.set(b"{cars}:verdict:" + name, published)
    client.delete("{cars}:crawl")
    assert run.wait(SECONDS) == 1, run.log
    assert "The catalogue is complete" not in run.log
    assert not (run.output_dir / "cars.json").exists()
    if published.startswith(b"{"):
        assert "another worker's verdict says that 71290 listings were kept" in run.log
    else:
        assert "the verdict that another worker published cannot be read" in run.log


# Stored answers, and claims


def stored(
    body: bytes, *, status: int = 200, at: float = 1.7e9, url: str = "http://h/", frame: bytes = b""
) -> bytes:
    packed = frame or zstandard.ZstdCompressor(write_checksum=True).compress(body)
    return struct.pack(">BHdI", 1, status, at, len(url.encode())) + url.encode() + packed


FORGED = orjson.dumps({"data": [[{"title": "Mine", "attrs": [{"label": "Owner", "value": "stranger"}]}]]})


def under(site: StandIn, kind: str) -> list[str]:
    """Where the answers of that site are, or the claims to them, one for each of its specifications."""
    return [f"{{cars}}:{kind}:{site.url}#{code}/{year}" for code, year in sorted(site.keys())]


def test_stored_answers_that_nobody_can_have_put_are_asked_for_again(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    values = [
        stored(FORGED, at=253_000_000_000.0),
        stored(FORGED, at=math.inf),
        stored(FORGED, at=math.nan),
        stored(FORGED, at=-1.0),
        stored(FORGED, status=0),
        stored(FORGED, url="javascript:alert(1)"),
        b"",
        b"\xff" * 100,
    ]
    for number, name in enumerate(under(site, "response")):
        client.set(name, values[number % len(values)])
    run = start(redis_url=server.url, settings={"CARS_SPEC_TTL": 10**10})
    assert run.wait(SECONDS) == 0, run.log
    assert "A stored answer is damaged and will be fetched again" in run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert b"stranger" not in (run.output_dir / "cars.json").read_bytes()
    assert len(set(site.specs())) == len(site.keys())


def test_a_stored_answer_as_a_worker_puts_it_is_believed_without_a_key(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    """The counterpart, and what docs/security.md says of the store."""
    for name in under(site, "response"):
        client.set(name, stored(FORGED))
    run = start(redis_url=server.url, settings={"CARS_SPEC_TTL": 10**10})
    assert run.wait(SECONDS) == 0, run.log
    assert (run.output_dir / "cars.json").read_bytes().count(b"stranger") == len(site.ids())
    assert site.specs() == []


def test_claims_that_never_end_hold_nothing_up_for_long(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    for name in under(site, "response-claim"):
        client.set(name, "mine")
    run = start(redis_url=server.url, settings={"DURABLE_LEASE_SECONDS": 1, "CONCURRENT_REQUESTS": 400})
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())


# The same with a key


KEY = {"DURABLE_QUEUE_KEY": "0123456789abcdef" * 2}


def test_with_a_key_no_answer_is_believed_that_no_worker_with_it_has_put(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    for name in under(site, "response"):
        client.set(name, stored(FORGED))
    run = start("-s", "LOG_LEVEL=INFO", redis_url=server.url, settings={"CARS_SPEC_TTL": 10**10}, env=KEY)
    assert run.wait(SECONDS) == 0, run.log
    assert b"stranger" not in (run.output_dir / "cars.json").read_bytes()
    assert run.log.count("A stored answer is not signed with DURABLE_QUEUE_KEY and is not used (") == 1
    assert f"'responses/not_signed': {len(site.keys())}" in run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert len(set(site.specs())) == len(site.keys())


def test_with_a_key_an_answer_counts_for_its_own_car_alone(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis
) -> None:
    """The next crawl asks for none of what was signed, but for those that were put in the place of others."""
    assert start(redis_url=server.url, env=KEY).wait(SECONDS) == 0
    site.reset_journal()
    names = under(site, "response")
    others = {one: client.get(other) for one, other in zip(names[:5], names[5:10], strict=True)}
    for name, value in others.items():
        client.set(name, value, keepttl=True)  # type: ignore[arg-type]
    run = start("-s", "LOG_LEVEL=INFO", redis_url=server.url, env=KEY)
    assert run.wait(SECONDS) == 0, run.log
    assert len(site.specs()) == len(others)
    assert f"'responses/not_signed': {len(others)}" in run.log, run.log


def test_with_a_key_no_record_is_made_again_of_a_page_that_no_worker_with_it_has_put(
    site: StandIn, start: Start, server: RedisServer, client: redis.Redis, tmp_path: Path
) -> None:
    run = start(redis_url=server.url, env=KEY)
    assert run.wait(SECONDS) == 0, run.log
    (crawl_name,) = client.scan_iter("{cars}:responses-of:*")
    names = client.hkeys(crawl_name)
    again = ("-m", "scrapy", "reparse", "-s", f"REDIS_URL={server.url}", "-s", f"CARS_API_URL={site.url}")
    for forged in (False, True):
        if forged:
            value = client.hget(crawl_name, names[0])
            assert isinstance(value, bytes)
            client.hset(crawl_name, names[0], value[:1].replace(b"\2", b"\1") + value[1:15] + value[47:])
        place = tmp_path / f"again-{forged}"
        done = subprocess.run(
            [sys.executable, *again, "-s", f"CARS_OUTPUT_DIR={place}"],
            env={**os.environ, **KEY},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == int(forged), done.stderr
        assert ("not signed with DURABLE_QUEUE_KEY" in done.stderr) is forged
