"""Cookies, redirects, proxies, off-site rules and the cache: with the add-on a site is asked the same."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.any_project.project import PYTHON, environment

SPIDER = Path(__file__).parent / "manners_spider.py"
ADDON = ("-s", 'ADDONS={"scrapy_durable.Addon": 500}')
FOR_EVER = "100000"
"""Seconds: with such a delay between two requests to a site, a crawl of two ends in no test."""
_KEPT = ("Cookie", "Authorization", "X-Own", "User-Agent", "Referer", "Content-Type")

Asked = tuple[str, ...]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Origin:
    """One origin; `asked` counts what it was asked, with all that may matter."""

    def __init__(self, address: str) -> None:
        self.asked: Counter[Asked] = Counter()
        self._server = _Server((address, 0), _handler(self))
        self.url = f"http://{address}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(origin: Origin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            heads = [str(self.headers.get(name)) for name in _KEPT]
            origin.asked[self.command, self.path, *heads, body] += 1
            status, answer, headers = _answer(self.path.partition("?")[0], self.headers)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, *told: object) -> None:
            """Quiet."""

    return Handler


def _answer(path: str, asked: Any) -> tuple[int, str, dict[str, str]]:
    html = {"Content-Type": "text/html"}
    match path.strip("/").split("/"):
        case ["robots.txt"]:
            return 200, "User-agent: *\nDisallow: /private\n", {}
        case ["login"]:
            return 200, "in", {**html, "Set-Cookie": "session=1; Path=/"}
        case ["jar", jar]:
            return 200, "jar", {**html, "Set-Cookie": f"jar={jar}; Path=/"}
        case ["moved", times]:
            left = int(times) - 1
            return (
                302,
                "",
                {"Location": f"/moved/{left}" if left else "/arrived", "Set-Cookie": f"hop{left}=1"},
            )
        case ["refresh"]:
            return (
                200,
                '<html><head><meta http-equiv="refresh" content="0;url=/refreshed"></head></html>',
                html,
            )
        case ["away"]:
            return 302, "", {"Location": "http://127.0.0.3:9/"}
        case ["stays"]:
            return 301, "", {"Location": "/never"}
        case ["gone"]:
            return 404, "", html
        case ["hidden"] if not asked.get("Authorization"):
            return 401, "", {"WWW-Authenticate": "Basic"}
    return 200, "<html><body>a page</body></html>", html


@pytest.fixture
def origins() -> Iterator[tuple[Origin, Origin]]:
    both = Origin("127.0.0.1"), Origin("127.0.0.2")
    yield both
    for origin in both:
        origin.close()


def crawl(
    path: Path, origins: tuple[Origin, Origin], *arguments: str
) -> tuple[list[str], list[Counter[Asked]]]:
    """The items, and what each origin was asked meanwhile, by a crawl in which no connection broke off. On a busy
    machine that happens to Scrapy's client, also without the add-on, and it asks again or gives up then.
    """
    for number in range(20):
        items, asked, log = _crawl(path / str(number), origins, *arguments)
        if "Retrying" not in log:
            return items, asked
    raise AssertionError(log)


def _crawl(
    path: Path, origins: tuple[Origin, Origin], *arguments: str
) -> tuple[list[str], list[Counter[Asked]], str]:
    path.mkdir(parents=True)
    for origin in origins:
        origin.asked.clear()
    sites = ("-a", f"first={origins[0].url}", "-a", f"second={origins[1].url}")
    settings = ("-s", "ROBOTSTXT_OBEY=True", "-s", "TELNETCONSOLE_ENABLED=False")
    done = subprocess.run(
        [PYTHON, "-m", "scrapy", "runspider", SPIDER, "-O", "items.jsonl", *sites, *settings, *arguments],
        cwd=path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    items = [json.dumps(json.loads(line)) for line in (path / "items.jsonl").read_text().splitlines()]
    return sorted(items), [Counter(origin.asked) for origin in origins], done.stderr


@pytest.mark.parametrize("state", [(), ("-s", "JOBDIR=job")], ids=["memory", "jobdir"])
def test_two_origins_are_asked_the_same_as_by_stock_scrapy(
    state: tuple[str, ...], origins: tuple[Origin, Origin], tmp_path: Path
) -> None:
    stock = crawl(tmp_path / "stock", origins)
    assert len(stock[0]) > 10
    items, asked = crawl(tmp_path / "with", origins, *ADDON, *state)
    assert items == stock[0]
    assert asked == stock[1]


def test_what_the_cache_has_takes_none_of_a_sites_time(
    origins: tuple[Origin, Origin], tmp_path: Path
) -> None:
    """The delay is longer than any test: it would not end if an answer from the cache had to wait for it."""
    cached = ("-s", "HTTPCACHE_ENABLED=True", "-s", f"HTTPCACHE_DIR={tmp_path}/cache", *ADDON)
    items, _ = crawl(tmp_path / "first", origins, *cached)
    again, asked = crawl(tmp_path / "again", origins, *cached, "-s", f"DOWNLOAD_DELAY={FOR_EVER}")
    assert again == items
    assert asked == [Counter(), Counter()]
