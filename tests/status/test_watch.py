"""`scrapy queue watch` shows a crawl as it goes, on any terminal, whatever becomes of the crawl and of its queue."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from redis.asyncio import Redis

from scrapy_durable.frontier.contract import DeadLettered, Entry, Outbox, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_server import RedisKeys
from tests.crawling import crawl, wait_until
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.status.terminal import Terminal

SLOW = {"CARS_PAGE_SIZE": 20, "CONCURRENT_REQUESTS": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\nrunning: all is well"


def watch(place: Mapping[str, object]) -> list[str]:
    settings = [word for name, value in place.items() for word in ("-s", f"{name}={value}")]
    return [sys.executable, "-m", "scrapy", "queue", "watch", *settings]


def watch_one_that_was_heard_of_once(url: str) -> list[str]:
    """Its worker says no more, and is alive for as long as the test takes."""
    return watch({"REDIS_URL": url, "DURABLE_LEASE_SECONDS": 86_400})


def test_it_waits_for_a_crawl_shows_it_at_work_and_says_when_it_has_ended(tmp_path: Path) -> None:
    place = {"JOBDIR": tmp_path / "job"}
    with StandIn(listings=600, latency=0.1) as site, Terminal(watch(place)) as terminal:
        assert "no crawl yet: waiting for one to begin" in terminal.wait_for("no crawl yet")
        assert not (tmp_path / "job").exists(), "a look makes nothing"
        with crawl(site.url, tmp_path / "out", settings={**SLOW, **place}) as run:
            screen = terminal.wait_for("of 600 items", " left", "answers/s in 0.", "/2 in flight", "workers")
            assert run.wait(120) == 0, run.log
        assert (
            "ended: the crawl is gone from the queue; last seen with nothing was given up"
            in terminal.wait_for("ended")
        )
        assert terminal.interrupt() == 0
        screens = terminal.screens
    state = screen.split("\n")[1]
    assert state.startswith(("running", "slow")), screen
    assert "holds" in screen
    for one in screens:
        assert len(one) == 24, one
        assert max(map(len, one)) <= 80, one


def test_it_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Terminal(watch({"JOBDIR": tmp_path / "job"})) as terminal:
        terminal.wait_for("Ctrl-C ends this view")
        assert terminal.interrupt() == 0
        begin, end = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
        assert terminal.written.startswith(begin)
        assert terminal.written.endswith(f"{end}no crawl yet: waiting for one to begin\r\n")


async def a_hostile_crawl(port: int) -> None:
    frontier = RedisFrontier(
        RedisKeys(Redis(port=port), prefix="cars"),
        worker=HOSTILE,
        limits={},
        default_limit=SlotLimit(8),
        lease_seconds=86_400,
    )
    await frontier.begin("crawl", HOSTILE)
    payload = b'{"v":1,"url":"https://a/\\u001b[31m\\u202e%s"}' % (b"x" * 500)
    entries = [Entry(key, HOSTILE * 5, "parse", payload) for key in range(5)]
    leases = (await frontier.exchange(Outbox(entries=entries), 3)).leases
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(leases[0].held, f"status 404 {HOSTILE}")]), 0)
    await frontier.close()


def test_what_others_have_written_draws_nothing_and_moves_nothing() -> None:
    with RedisServer() as server:
        asyncio.run(a_hostile_crawl(server.port))
        with Terminal(watch_one_that_was_heard_of_once(server.url)) as terminal:
            screen = terminal.wait_for("1 dead", "status 404", "leased longest", "\\x1b[31m\\u202e")
    assert not [letter for letter in screen if letter != "\n" and not letter.isprintable()]
    lines = screen.split("\n")
    assert len(lines) == 24
    assert max(map(len, lines)) == 80, "long lines are cut at the edge"
    assert lines[1].startswith("running"), "and none is a line of its own"
    assert sum(line.startswith("running") for line in lines) == 1


def test_it_says_when_the_queue_does_not_answer_and_goes_on_when_it_is_back() -> None:
    with RedisServer(options={"appendonly": "yes", "appendfsync": "always"}) as server:
        asyncio.run(a_hostile_crawl(server.port))
        with Terminal(watch_one_that_was_heard_of_once(server.url)) as terminal:
            terminal.wait_for("running")
            server.kill()
            outage = ("disconnected since ", "trying again", "as it was then: running", "1 dead")
            terminal.wait_for(*outage, "Connection refused")
            server.start()
            assert "disconnected" not in terminal.wait_for("\nrunning", "1 dead")
            assert terminal.interrupt() == 0


def test_a_queue_that_does_not_answer_from_the_beginning_is_waited_for() -> None:
    with RedisServer() as server:
        server.kill()
        with Terminal(watch({"REDIS_URL": server.url})) as terminal:
            terminal.wait_for("disconnected since ", "Connection refused")
            server.start()
            terminal.wait_for("no crawl yet")


def test_a_terminal_that_cannot_be_drawn_on_gets_lines(tmp_path: Path) -> None:
    with Terminal(watch({"JOBDIR": tmp_path / "job"}), term="dumb") as terminal:
        wait_until(lambda: terminal.written.count("\n") >= 2, what="two lines")
        assert terminal.interrupt() == 0
        lines = terminal.written.splitlines()
    assert all(line[8:] == "Z no crawl yet: waiting for one to begin" for line in lines), lines


def test_a_small_terminal_shows_what_matters_most() -> None:
    with RedisServer() as server:
        asyncio.run(a_hostile_crawl(server.port))
        with Terminal(watch_one_that_was_heard_of_once(server.url), columns=40, rows=6) as terminal:
            screen = terminal.wait_for("running", "2 queued").split("\n")
    assert (len(screen), max(map(len, screen)) <= 40) == (6, True)


def test_a_queue_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "frontier.sqlite").write_text("something else")
    with Terminal(watch({"JOBDIR": tmp_path})) as terminal:
        assert terminal.process.wait(240) == 2
        wait_until(lambda: "error: " in terminal.written, what="the line")
        assert "is not a SQLite file" in terminal.written.splitlines()[-1]
