"""What tests of `scrapy reparse` share: both response stores, crawls, and reparses of them by the command line."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import _OURS, Crawl, crawl
from tests.redis_server import RedisServer
from tests.standin import StandIn

SECONDS = 120
"""A crawl or a reparse here takes two; one that takes this long is killed and its log shown."""


class House:
    """An output directory and a response store, in a file or on a Redis; what runs in it is ended with the test."""

    def __init__(self, output_dir: Path, server: RedisServer | None, running: ExitStack) -> None:
        self.output_dir = output_dir
        self.server = server
        self._running = running

    @property
    def redis_url(self) -> str | None:
        return self.server.url if self.server else None

    def crawl(self, site: StandIn, *arguments: str, **options: Any) -> Crawl:
        """Start a crawl; see `tests.crawling.crawl`."""
        options.setdefault("redis_url", self.redis_url)
        return self._running.enter_context(crawl(site.url, self.output_dir, *arguments, **options))

    def crawled(self, site: StandIn, *arguments: str, status: int = 0, **options: Any) -> list[bytes]:
        """Crawl to the end; returns the records."""
        run = self.crawl(site, *arguments, **options)
        assert run.wait(SECONDS) == status, run.log
        return self.records(run.place)

    def reparse(
        self,
        *arguments: str,
        settings: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        runner: Sequence[str] = (sys.executable, "-m", "scrapy"),
    ) -> Crawl:
        """Start `scrapy reparse`, with an API that nobody serves."""
        asked: dict[str, object] = {
            "CARS_OUTPUT_DIR": self.output_dir,
            "CARS_API_URL": "http://127.0.0.1:9/fw/public",
            **({"REDIS_URL": self.redis_url} if self.redis_url else {}),
            **(settings or {}),
        }
        command = [*runner, "reparse", *arguments]
        for name, value in asked.items():
            command += ["-s", f"{name}={value}"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return self._running.enter_context(Crawl(command, self.output_dir, {**inherited, **(env or {})}))

    def reparsed(self, *arguments: str, status: int = 0, **options: Any) -> list[bytes]:
        """Build a crawl again, to the end; returns the records, which were removed before."""
        for published in (self.output_dir, *self.output_dir.glob("searches/*")):
            (published / "cars.json").unlink(missing_ok=True)
        run = self.reparse(*arguments, **options)
        assert run.wait(SECONDS) == status, run.log
        return self.records(run.place)

    def records(self, place: Path | None = None) -> list[bytes]:
        """The lines of what was published last, sorted: those of a record and nothing else."""
        place = place or self.output_dir
        name = json.loads((place / "run.json").read_bytes())["published"]
        first, *lines, last = (place / name).read_bytes().splitlines()
        assert (first, last) == (b"[", b"]")
        return sorted(line.rstrip(b",") for line in lines)

    def kept(self) -> list[str]:
        """The crawls whose pages are kept, the oldest first."""
        run = self.reparse("--list")
        assert run.wait(SECONDS) == 0, run.log
        return [line.split()[0] for line in run.log.splitlines() if line[:1].isdigit() and "-" in line[:18]]

    def drop(self, key: str) -> int:
        """Remove the stored answers whose keys hold that text; returns how many."""
        if self.server is None:
            with closing(sqlite3.connect(self.output_dir / "responses.sqlite")) as connection, connection:
                return connection.execute("DELETE FROM response WHERE instr(key, ?)", (key,)).rowcount
        removed = 0
        with self.server.client() as client:
            for name in list(client.scan_iter("*:response:*")):
                removed += client.delete(name) if key in name.decode() else 0
            for name in list(client.scan_iter("*:responses-of:*")):
                for field in client.hkeys(name):
                    removed += client.hdel(name, field) if key in field.decode() else 0
        return removed


@pytest.fixture
def start_house(tmp_path: Path) -> Iterator[Callable[[str], House]]:
    """Makes a house by the name of its store: "file" or "redis"."""
    with ExitStack() as running:

        def start(store: str) -> House:
            server = running.enter_context(RedisServer()) if store == "redis" else None
            return House(tmp_path / "data", server, running)

        yield start


@pytest.fixture(params=["file", "redis"])
def house(request: pytest.FixtureRequest, start_house: Callable[[str], House]) -> House:
    """With each of the response stores in turn."""
    return start_house(request.param)


@pytest.fixture
def file_house(start_house: Callable[[str], House]) -> House:
    """With a response store in a file."""
    return start_house("file")


@pytest.fixture
def redis_house(start_house: Callable[[str], House]) -> House:
    """With a response store on Redis."""
    return start_house("redis")
