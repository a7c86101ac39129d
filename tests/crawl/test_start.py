"""A crawl loads what it needs, and nothing beside it: every start pays for what is loaded."""

from __future__ import annotations

import re
import sys

from tests.crawl.conftest import SECONDS, Start
from tests.redis_server import RedisServer

TELLS = (sys.executable, "-X", "importtime", "-m", "scrapy")
UNUSED = {
    "pyarrow",
    "pymongo",
    "psycopg",
    "redis",
    "requests",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.downloadermiddlewares.offsite",
    "scrapy.extensions.telnet",
    "scrapy.extensions.remote_control",
}


def loaded(log: str) -> set[str]:
    """The modules that a process has loaded, as `-X importtime` tells them."""
    return set(re.findall(r"^import time:.*\| +(\S+)$", log, re.MULTILINE))


def test_a_crawl_loads_no_database_no_redis_and_nothing_that_is_off(start: Start) -> None:
    run = start("-a", "limit=1", runner=TELLS)
    assert run.wait(SECONDS) == 0, run.log
    assert "carscraper.spiders.cars" in loaded(run.log)
    assert not loaded(run.log) & UNUSED


def test_a_crawl_with_redis_loads_it(start: Start) -> None:
    with RedisServer() as server:
        run = start("-a", "limit=1", redis_url=server.url, runner=TELLS)
        assert run.wait(SECONDS) == 0, run.log
    assert loaded(run.log) & UNUSED == {"redis"}
