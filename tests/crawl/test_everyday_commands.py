"""Scrapy's everyday commands end as they do in any project, and have no part in a crawl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import wait_until
from tests.redis_server import RedisServer
from tests.shell import run_shell
from tests.standin import ROOT

OTHER = '''
import scrapy

class OtherSpider(scrapy.Spider):
    name = "other"

    async def start(self):
        yield scrapy.Request(self.url)

    def parse(self, response):
        """Yields a second request for the first page.

        @url http://127.0.0.1:1/
        @returns requests 1 1
        """
        yield {"bytes": len(response.body)}
        if "again" not in response.url:
            yield response.follow("?again=1", dont_filter=True)
'''


@pytest.fixture
def other(tmp_path: Path) -> dict[str, str]:
    """The environment of a project with a second spider beside that of the cars."""
    (tmp_path / "other.py").write_text(OTHER)
    (tmp_path / "both.py").write_text(
        'from carscraper.settings import *\nSPIDER_MODULES = ["carscraper.spiders", "other"]\n'
    )
    return {"SCRAPY_SETTINGS_MODULE": "both", "PYTHONPATH": f"{tmp_path}:{ROOT}"}


def scrapy(*arguments: str, url: str, output: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the real command line in this project."""
    return run_shell(
        lambda: subprocess.run(
            [sys.executable, "-m", "scrapy", *arguments],
            cwd=ROOT,
            env={**os.environ, "CARS_API_URL": url, "CARS_OUTPUT_DIR": str(output), **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )
    )


def test_they_end_and_leave_nothing_behind(site: Site, tmp_path: Path, other: dict[str, str]) -> None:
    page = f"{site.standin.url}/v3/vehicle?page%5Blimit%5D=1"
    commands = {
        ("fetch", "--nolog", page): '"data"',
        ("fetch", "--nolog", "--spider", "cars", page): '"data"',
        ("shell", "--nolog", "-c", "response.status", page): "200",
        ("parse", "--nolog", "--spider", "other", "-a", f"url={page}", page): "'bytes'",
        ("list",): "cars\nother",
        ("check", "--nolog", "-l"): "parse",
        ("settings", "--get", "BOT_NAME"): "carscraper",
    }
    for command, printed in commands.items():
        done = scrapy(*command, url=site.standin.url, output=tmp_path / "out", **other)
        assert done.returncode == 0, (command, done.stderr)
        assert printed in done.stdout, (command, done.stdout, done.stderr)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.json"))


def test_another_spider_of_the_project_ends_with_a_verdict_of_its_own(
    site: Site, tmp_path: Path, other: dict[str, str]
) -> None:
    page = f"{site.standin.url}/v3/vehicle"
    crawl = ("crawl", "other", "-a", f"url={page}", "-O", f"{tmp_path}/bytes.jsonl")
    done = scrapy(*crawl, url=site.standin.url, output=tmp_path / "out", **other)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("\ncomplete\n")
    assert (tmp_path / "bytes.jsonl").read_text().count("\n") == 2
    site.standin.faults([{"match": "again", "fault": "status", "status": 500}])
    again = {**other, "DURABLE_RETRY_BASE_DELAY": "0.01"}
    done = scrapy(*crawl, "-s", "RETRY_TIMES=1", url=site.standin.url, output=tmp_path / "out", **again)
    assert done.returncode == 1
    assert "NOT COMPLETE: 1 requests are dead letters" in done.stderr


def test_beside_a_crawl_on_redis_they_never_join_it(site: Site, start: Start, tmp_path: Path) -> None:
    page = f"{site.standin.url}/v3/vehicle?page%5Blimit%5D=1"
    with RedisServer() as server:
        site.standin.faults([{"match": "/specs/", "fault": "delay", "seconds": 1.0}])
        run = start(redis_url=server.url, settings={"CONCURRENT_REQUESTS": 2})
        wait_until(lambda: site.standin.counts()["specs"] > 0)
        done = scrapy(
            "fetch",
            "--nolog",
            "--spider",
            "cars",
            page,
            url=site.standin.url,
            output=tmp_path,
            REDIS_URL=server.url,
        )
        assert (done.returncode, '"data"' in done.stdout) == (0, True), done.stderr
        site.standin.faults([])
        assert run.wait(SECONDS) == 0, run.log
    assert len(run.cars()) == LISTINGS
