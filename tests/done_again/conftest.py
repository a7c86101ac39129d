"""A site that counts what it is asked, and holds answers up; crawls of it in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_durable.frontier.build import build_frontier
from scrapy_durable.frontier.contract import DeadLetter, Status
from tests import fork_server
from tests.crawling import HANGS
from tests.redis_server import RedisServer
from tests.standin import ROOT

_INHERITED = ("PATH", "HOME", "LANG", "COVERAGE_PROCESS_START")


class Site:
    """`asked` counts by path, before the answer; a path in `held` is answered when it is taken out of there. One in
    `failing` is answered with 503 so many times before, at once.

    `/moved` redirects to `/place`, `/links` links to `links`; all else is an empty page.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.held: set[str] = set()
        self.failing: Counter[str] = Counter()
        self.links: list[str] = []
        self._changed = threading.Condition()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                links = site.links if self.path == "/links" else []
                body = "".join(f'<a href="{link}">.</a>' for link in links).encode()
                self.send_response(site._status(self.path))
                if self.path == "/moved":
                    self.send_header("Location", "/place")
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _status(self, path: str) -> int:
        """What a path is answered with, after the time for which it is held."""
        with self._changed:
            self.asked[path] += 1
            if self.failing[path] > 0:
                self.failing[path] -= 1
                return 503
            self._changed.wait_for(lambda: path not in self.held, HANGS)
        return 302 if path == "/moved" else 200

    def release(self) -> None:
        """Answer everything."""
        with self._changed:
            self.held.clear()
            self._changed.notify_all()

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()


class Crawl:
    """One process."""

    def __init__(self, spider: str, site: Site, settings: dict[str, Any], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = fork_server.start(
                [sys.executable, "-m", "tests.done_again.spiders", spider, site.url, json.dumps(settings)],
                cwd=ROOT,
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                stdout=file,
                stderr=file,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.kill()
        self.process.wait(HANGS)

    def finish(self) -> str:
        """Wait for its end; returns its log."""
        try:
            self.process.wait(HANGS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it still runs:\n{self.log[-20_000:]}") from None
        return self.log


StartCrawl = Callable[..., Crawl]


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def start(site: Site, tmp_path: Path) -> Iterator[StartCrawl]:
    """Starts a crawl of a spider with settings; what runs at the end is killed."""
    with ExitStack() as stack:

        def start_one(spider: str, **settings: Any) -> Crawl:
            log = tmp_path / f"{len(list(tmp_path.glob('*.log')))}.log"
            crawl = Crawl(spider, site, settings, log)
            stack.callback(crawl.kill)
            return crawl

        yield start_one


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


def look(spider: str, **settings: Any) -> tuple[Status, list[DeadLetter]]:
    """What the frontier of those settings holds."""

    async def read() -> tuple[Status, list[DeadLetter]]:
        frontier = build_frontier(Settings(settings), "reader", spider=spider)
        try:
            return await frontier.status(), await frontier.dead_letters()
        finally:
            await frontier.close()

    return asyncio.run(read())


def is_done(callback: str, spider: str, **settings: Any) -> bool:
    """Whether all elements of a callback, and one at least, are acknowledged."""
    counts = look(spider, **settings)[0].callbacks.get(callback)
    return counts is not None and counts.done > 0 and counts.done == counts.seen
