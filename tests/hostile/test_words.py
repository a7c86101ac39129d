"""What others write reaches no log, no terminal and no run.json as it is, and no password does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.crawling import FULL_SPEED
from tests.hostile.conftest import SECONDS, Start
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
        "CARS_STORE_PATIENCE": 0,
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


def test_what_is_in_redis(site: StandIn, start: Start) -> None:
    """Crawl, callbacks, slots, workers, reasons of dead letters: whoever can write to Redis can write them."""
    site.faults([{"match": "/specs/", "fault": "status", "status": 500}])
    with RedisServer() as server:
        settings: Mapping[str, object] = {**FULL_SPEED, "RETRY_TIMES": 0}
        run = start("-a", "limit=5", settings=settings, redis_url=server.url)
        assert run.wait(SECONDS) == 1, run.log
        with server.client() as client:
            for key in list(client.scan_iter("{cars}:*")):
                if client.type(key) != b"hash":
                    continue
                for name, value in client.hgetall(key).items():
                    for field in (b"reason", b"callback", b"slot", b"worker"):
                        if field in value:
                            nasty = re.sub(rb"status 500|parse_spec", NASTY.encode(), value)
                            client.hset(key, name, nasty)
            before = server.url
        for arguments in (("status",), ("dead",), ("status", "--json"), ("dead", "--json")):
            done = queue(before, *arguments)
            assert_plain(done.stdout)
            assert_plain(done.stderr)
