"""What others write reaches no log, no terminal and no run.json as it is, and no password does."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from redis.asyncio import Redis

from scrapy_durable.frontier.contract import DeadLettered, Entry, Held, Outbox, Pause, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_server import RedisKeys
from tests.hostile.conftest import SECONDS, Start
from tests.raw_site import RawCatalogue, RawSite, http
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn

SECRET = "canary-8d1f"
NASTY = "\x1b[2J\x07\x7f\x9b31m\u202egnp.exe\u2066\u2028\u2029\u200f\ufeff\r\n2026-11-20 10:00:00 [scrapy] INFO: forged"
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
FORGED = re.compile(r"^2026-11-20 10:00:00 \[scrapy\] INFO: forged", re.MULTILINE)


def assert_plain(text: str) -> None:
    assert not RAW.search(text), ascii(RAW.search(text))
    assert not FORGED.search(text)
    assert SECRET not in text


@pytest.mark.parametrize(
    "path",
    [
        "data[0].attributes.code",
        "data[0].id",
        "data[0].attributes.year",
        "links.self",
        "data[*].attributes.model",
    ],
)
def test_what_the_site_says(site: StandIn, start: Start, path: str) -> None:
    """Also when it is the reason for which a record, or a page, is refused."""
    value: object = {NASTY: NASTY} if path.endswith("year") else NASTY
    site.faults([{"match": "vehicle\\?", "fault": "edit", "path": path, "do": "set", "to": value}])
    run = start("-a", "limit=20", settings={"RETRY_TIMES": 1, "LOG_LEVEL": "DEBUG"})
    run.wait(SECONDS)
    assert_plain(run.log)
    text = (run.place / "run.json").read_text()
    assert_plain(text)
    json.loads(text)


class _Shouting(BaseHTTPRequestHandler):
    """Has no robots.txt, and sends everything else in an unknown encoding, or to a place that is not ours."""

    def do_GET(self) -> None:
        robots = self.path == "/robots.txt"
        self.send_response(404 if robots else 302 if "redirect" in self.path else 200, "\x1b[2J")
        if not robots:
            self.send_header("Content-Encoding", "\x1b[2J\x9b31m, \x07")
            self.send_header("Location", f"http://me:{SECRET}@10.0.0.1/\x1b[2J")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("place", ["/plain", "/redirect"])
def test_what_a_header_says(start: Start, place: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Shouting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            api_url = f"http://127.0.0.1:{server.server_port}{place}"
            run = start(api_url=api_url, settings={"RETRY_TIMES": 0, "LOG_LEVEL": "DEBUG"})
            assert run.wait(SECONDS) == 1, run.log
        finally:
            server.shutdown()
            thread.join()
    assert_plain(run.log)
    assert_plain((run.place / "run.json").read_text())


@pytest.mark.parametrize(
    "arguments",
    [
        ("-O", f"ftp://me:{SECRET}@127.0.0.1:1/cars.csv"),
        ("-O", f"ftp://me:{SECRET}/slash@127.0.0.1:1/cars.jsonl"),
        ("-s", f"FTP_PASSWORD={SECRET}"),
        ("-s", f"AWS_SECRET_ACCESS_KEY={SECRET}"),
        ("-s", f"HTTPPROXY_AUTH=http://me:{SECRET}@127.0.0.1:1"),
        ("-s", f"USER_AGENT=me, token={SECRET}"),
        ("-s", f"DURABLE_QUEUE_KEY={SECRET}-of-at-least-thirty-two-letters"),
        ("-s", "BOT_NAME=\x1b[2J\u202e"),
        ("-a", "keyword=\x1b[2J\u202e\nforged"),
    ],
)
def test_what_the_command_line_holds(site: StandIn, start: Start, arguments: tuple[str, str]) -> None:
    run = start("-a", "limit=20", *arguments, settings={"LOG_LEVEL": "DEBUG"})
    run.wait(SECONDS)
    assert_plain(run.log)
    if (run.place / "run.json").exists():
        assert_plain((run.place / "run.json").read_text())


def test_addresses_of_databases(site: StandIn, start: Start) -> None:
    """Given on the command line, where they do not belong: Scrapy prints what settings differ from its own."""
    given = {
        "MONGO_URI": f"mongodb://me:{SECRET}@127.0.0.1:1/cars?serverSelectionTimeoutMS=100",
        "POSTGRES_DSN": f"host=127.0.0.1 port=1 dbname=cars user=me password='{SECRET}'",
        "CARS_STORE_TIMEOUT": 0,
        "LOG_LEVEL": "DEBUG",
    }
    run = start("-a", "limit=20", settings=given)
    assert run.wait(SECONDS) == 1, run.log
    assert "Overridden settings" in run.log
    assert_plain(run.log)
    assert_plain((run.place / "run.json").read_text())
    assert run.run_json()["undelivered"]


RAISES = f"""
from scrapy.extensions.corestats import CoreStats
def spider_opened(self, spider):
    raise ValueError({NASTY!r})
CoreStats.spider_opened = spider_opened
from scrapy.cmdline import execute
execute()
"""


def test_a_traceback_can_still_be_read(site: StandIn, start: Start) -> None:
    run = start("-a", "limit=5", "-s", f"BOT_NAME={NASTY}", runner=(sys.executable, "-c", RAISES))
    run.wait(SECONDS)
    assert "\n  Traceback (most recent call last):\n" in run.log
    assert re.search(r"^ {4}File \".*\", line \d+, in \w+\n {6}\S", run.log, re.MULTILINE), run.log
    assert "ValueError: " in run.log
    assert_plain(run.log)


def queue(redis_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scrapy", "queue", *arguments, "-s", f"REDIS_URL={redis_url}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)


async def _put(port: int, crawl_id: str) -> None:
    """Queue what says `NASTY` wherever a queue has names: one that waits, one that is leased, one that is dead."""
    keys = RedisKeys(Redis(port=port), prefix="cars")
    frontier = RedisFrontier(keys, worker=NASTY, limits={}, default_limit=SlotLimit(0))
    await frontier.begin(crawl_id)
    payload = json.dumps({"v": 1, "url": f"http://h/{NASTY}", "callback": NASTY}).encode()
    await frontier.exchange(Outbox(entries=[Entry(1, NASTY, NASTY, payload)]), 0)
    [lease] = (await frontier.exchange(Outbox(), 1)).leases
    dead = DeadLettered(Held(lease.key, lease.token), NASTY)
    await frontier.exchange(Outbox(dead_lettered=[dead], entries=[Entry(2, NASTY, NASTY, payload)]), 1)
    pause = {NASTY: Pause(1e6, NASTY)}
    await frontier.exchange(Outbox(entries=[Entry(3, NASTY, NASTY, payload)], pauses=pause), 0)
    await frontier.close()


@pytest.mark.parametrize("crawl_id", ["20241120T101500Z-3f9a1c", NASTY], ids=["ours", "nasty"])
@pytest.mark.parametrize(
    "command", [("status",), ("dead",), ("status", "--json"), ("dead", "--json")], ids=" ".join
)
def test_what_is_in_redis(command: tuple[str, ...], crawl_id: str) -> None:
    """Crawl, callbacks, slots, workers, addresses, reasons of dead letters: who can write to Redis can write them."""
    with RedisServer() as server:
        asyncio.run(_put(server.port, crawl_id))
        done = queue(server.url, *command)
    assert_plain(done.stdout)
    assert_plain(done.stderr)
    assert "gnp.exe" in done.stdout + done.stderr, "it is shown, but for what a terminal obeys"


@pytest.mark.parametrize("level", ["DEBUG", "WARNING"])
def test_an_encoding_that_nobody_knows(start: Start, level: str) -> None:
    """Valid UTF-8, which gets through HTTP where plain control characters do not: CSI in one character, and bidi."""
    header = "Content-Encoding: \u202egnp.exe\u009b31m\u2066".encode().decode("latin-1")
    catalogue = RawCatalogue(3)
    catalogue.specs[catalogue.spec_path(0)] = http(b"{}", header)
    with RawSite(catalogue) as site:
        run = start(api_url=site.url, settings={"RETRY_TIMES": 0, "LOG_LEVEL": level})
        assert run.wait(SECONDS) == 1, run.log
    assert "gnp.exe" in run.log
    assert_plain(run.log)
    assert_plain((run.place / "run.json").read_text())
