"""What these tests share: a stand-in and a Redis per module, crawls by the real command line, quick retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
import redis

from tests.crawling import Crawl, crawl
from tests.redis_server import RedisServer
from tests.standin import StandIn

LISTINGS = 200
SECONDS = 60
"""No crawl here takes longer; one that does is killed and its log shown."""
QUICK = {"DURABLE_RETRY_BASE_DELAY": 0.05, "DURABLE_RETRY_MAX_DELAY": 0.2}


class Start(Protocol):
    """Starts a crawl with quick retries; see `tests.crawling.crawl` for the arguments."""

    def __call__(
        self, *arguments: str, settings: Mapping[str, object] | None = None, **options: Any
    ) -> Crawl: ...


@pytest.fixture(scope="module")
def shared_site() -> Iterator[StandIn]:
    with StandIn(LISTINGS, seed=3) as standin:
        yield standin


@pytest.fixture
def site(shared_site: StandIn) -> StandIn:
    """The module's stand-in, without faults and with an empty journal."""
    shared_site.faults([])
    shared_site.reset_journal()
    return shared_site


@pytest.fixture
def start(site: StandIn, tmp_path: Path) -> Iterator[Start]:
    """Starts crawls of `site` into `tmp_path / "data"`; those that still run at the end are killed."""
    with ExitStack() as running:

        def start_crawl(
            *arguments: str, settings: Mapping[str, object] | None = None, **options: Any
        ) -> Crawl:
            output_dir = options.pop("output_dir", tmp_path / "data")
            api_url = options.pop("api_url", site.url)
            asked = {**QUICK, **(settings or {})}
            return running.enter_context(crawl(api_url, output_dir, *arguments, settings=asked, **options))

        yield start_crawl


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """The module's Redis."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    """A plain client of `server`, which is empty."""
    with server.client() as client:
        client.flushall()
        yield client
