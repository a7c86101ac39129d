"""`scrapy queue show` tells the life of one request, as far as the queue knows it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from scrapy_durable.frontier.contract import DeadLettered, Entry, Outbox, Retry, SlotLimit
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.frontier.views import Element
from scrapy_durable.status.life import key_of, key_text, life_lines
from tests.status.test_of_a_crawl import queue

NOW = 1_800_000_000.0
WAITS = Element(-2, "queued", "shop", "parse", 5, NOW - 60, payload=b'{"url":"https://shop/1"}')
BEGINNING = ["fffffffffffffffe https://shop/1", "2027-01-15 07:59:00Z  queued to shop, for parse, priority 5"]


@pytest.mark.parametrize(
    ("facts", "last"),
    [
        ({}, "2027-01-15 08:00:00Z  waits to be leased"),
        ({"state": "delayed", "due": NOW + 30}, "2027-01-15 08:00:30Z  may be leased again, in 30 s"),
        (
            {"state": "leased", "worker": "w1", "attempts": 1, "since": NOW - 5, "deadline": NOW + 55},
            "2027-01-15 07:59:55Z  leased to w1, attempt 1, until 2027-01-15 08:00:55Z unless it is renewed",
        ),
        (
            {"state": "dead", "reason": "status 404", "died_at": NOW - 1},
            "2027-01-15 07:59:59Z  dead: status 404",
        ),
    ],
    ids=["queued", "delayed", "leased", "dead"],
)
def test_each_state_ends_the_story(facts: dict[str, object], last: str) -> None:
    assert list(life_lines(replace(WAITS, **facts), NOW)) == [*BEGINNING, last]  # type: ignore[arg-type]


def test_earlier_attempts_are_counted_and_it_is_said_that_no_more_is_known() -> None:
    lines = list(life_lines(replace(WAITS, attempts=4, failures=3), NOW))
    assert "leased 4 times before; 3 of these were tried again because of a failure" in lines[2]
    assert "keeps no history of single requests" in lines[3]


@pytest.mark.parametrize("key", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_a_key_is_sixteen_digits_and_comes_back(key: int) -> None:
    assert len(key_text(key)) == 16
    assert key_of(key_text(key)) == key


@pytest.mark.parametrize("text", ["", "https://shop/1", "zz" * 8, "00 00 00 00 00 0", "0" * 15, "0" * 17])
def test_anything_else_is_no_key(text: str) -> None:
    assert key_of(text) is None


async def a_crawl(path: Path) -> None:
    frontier = SqliteFrontier(path, worker="w1", limits={}, default_limit=SlotLimit(0))
    await frontier.begin("crawl")
    pushed = Entry(7, "a", "parse", b'{"v":1,"url":"https://a/7"}')
    (lease,) = (await frontier.exchange(Outbox(entries=[pushed]), 1)).leases
    (lease,) = (await frontier.exchange(Outbox(retries=[Retry(lease.held, 0, "status 503")]), 1)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(lease.held, "status 404")]), 0)
    await frontier.close()


def test_the_command_finds_a_dead_letter_by_the_key_that_is_told_of_it(tmp_path: Path) -> None:
    asyncio.run(a_crawl(tmp_path / "frontier.sqlite"))
    place = {"JOBDIR": str(tmp_path)}
    [letter] = json.loads(queue("dead", "--json", place=place).stdout)
    shown = queue("show", letter["key"], place=place)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0] == "0000000000000007 https://a/7"
    assert "leased 2 times before; 1 of these" in shown.stdout
    assert shown.stdout.splitlines()[-1].endswith("Z  dead: status 404")
    unknown = queue("show", "https://a/7", place=place)
    assert unknown.returncode == 1
    assert "no request of this crawl is a GET of https://a/7" in unknown.stderr
