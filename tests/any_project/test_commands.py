"""Scrapy's everyday commands in a stock project with the add-on print and end as they do without it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from tests.any_project.project import PYTHON, Project, environment
from tests.any_project.shop import Shop
from tests.crawling import HANGS
from tests.redis_server import RedisServer
from tests.shell import run_shell

PAGES = '''
import scrapy

class PagesSpider(scrapy.Spider):
    name = "pages"

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        """Finds the categories.

        @url {site}
        @returns requests 1
        """
        yield {{"title": response.css("title::text").get()}}
        yield from response.follow_all(css="a", callback=self.parse_category)

    def parse_category(self, response):
        yield {{"category": response.css("title::text").get()}}
'''
ADDON = {"ADDONS": {"scrapy_durable.Addon": 500}}

Ended = tuple[int, str, bool]
"""Exit status, what was printed, and whether there was a traceback: Scrapy has one for a spider that it cannot find."""


def run(path: Path, *command: str, timeout: int = 240) -> Ended:
    """Run the real command line in a project."""
    done = run_shell(
        lambda: subprocess.run(
            [PYTHON, "-m", "scrapy", *command],
            cwd=path,
            env={**environment(), "BROWSER": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    )
    return done.returncode, done.stdout, "Traceback" in done.stderr


def commands(site: str) -> dict[str, tuple[str, ...]]:
    """The commands that crawl, or show the project, by name; what they print does not change from run to run."""
    page = ("--nolog", site)
    return {
        "list": ("list",),
        "fetch": ("fetch", *page),
        "fetch a page that is not there": ("fetch", "--nolog", f"{site}/nothing"),
        "fetch with the spider that crawls": ("fetch", "--spider", "products", *page),
        "shell": ("shell", "-c", "response.status, fetch(response.url), response.css('title').get()", *page),
        "parse": ("parse", "--spider", "pages", "-a", f"site={site}", "-d", "2", "--noitems", *page),
        "check": ("check", "pages", "-a", f"site={site}"),
        "view": ("view", *page),
        "bench": ("bench", "-s", "CLOSESPIDER_TIMEOUT=1", "-s", "LOG_LEVEL=WARNING"),
        "a spider that there is not": ("crawl", "nothing"),
    }


@contextmanager
def written(client: Redis) -> Iterator[Callable[[], set[str]]]:
    """While it lasts: which keys have been written so far, those that are gone again too."""
    client.config_set("notify-keyspace-events", "KA")
    found: set[str] = set()
    with client.pubsub() as notices:
        notices.psubscribe("__keyspace@*__:*")
        assert notices.get_message(timeout=HANGS)["type"] == "psubscribe"

        def look() -> set[str]:
            end = f"seen-{len(found)}"
            client.set(end, 1)
            while end not in found:
                if notice := notices.get_message(timeout=HANGS):
                    found.add(notice["channel"].decode().partition("__:")[2])
            client.delete(end)
            return found - {end}

        yield look
    client.config_set("notify-keyspace-events", "")


MakeStock = Callable[..., Project]


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of a site of the commands' own, which answers while the shop is held."""
    with Shop() as other:
        yield other.urls[0]


@pytest.fixture
def stock(template: Path, shop: Shop, site: str, tmp_path: Path) -> MakeStock:
    """Makes a stock project, with the spider above beside that of the example, which crawls the shop."""

    def make(name: str, **settings: object) -> Project:
        project = Project(template, tmp_path / name, "products", shop.urls[0], settings)
        (project.path / "shop" / "spiders" / "pages.py").write_text(PAGES.format(site=site))
        return project

    return make


def stable(ended: Ended) -> Ended:
    """Without how long `check` took."""
    status, printed, failed = ended
    return status, "\n".join(line for line in printed.splitlines() if not line.startswith("Ran ")), failed


def all_of(project: Project, site: str) -> dict[str, Ended]:
    return {name: stable(run(project.path, *command)) for name, command in commands(site).items()}


@pytest.mark.slow
def test_they_end_as_in_stock_scrapy_also_beside_a_crawl_on_the_same_redis(
    stock: MakeStock, shop: Shop, site: str, redis_server: RedisServer
) -> None:
    without = all_of(stock("stock"), site)
    assert without["fetch"][0] == without["parse"][0] == 0
    assert "<title>" in without["fetch"][1]
    assert all_of(stock("kept", **ADDON, JOBDIR="job"), site) == without
    shared = stock("shared", **ADDON, REDIS_URL=redis_server.url)
    with redis_server.client() as client, written(client) as keys, shared:
        client.flushall()
        shop.gate(20)
        crawl = shared.start()
        assert shop.wait_until_held(lambda: not crawl.running), crawl.log
        assert all_of(shared, site) == without
        assert crawl.running, crawl.log
        assert {key.partition(":")[0] for key in keys()} == {"{products}"}, "the crawl's only"
        shop.gate(None)
        assert crawl.wait() == 0, crawl.log


def test_a_crawl_that_writes_to_the_same_redis_or_ends_otherwise_is_told_from_a_command_that_does_not(
    stock: MakeStock, site: str, redis_server: RedisServer
) -> None:
    """The counterpart: the same comparison finds a spider that has failed, and the same watch finds its keys."""
    failing = ("crawl", "pages", "-a", "site=nothing:", "--nolog")
    shared = stock("shared", **ADDON, REDIS_URL=redis_server.url)
    with redis_server.client() as client, written(client) as keys:
        client.flushall()
        assert stable(run(shared.path, *failing)) != stable(run(stock("stock").path, *failing))
        assert {key.partition(":")[0] for key in keys()} == {"{pages}"}


def test_a_project_and_a_spider_are_made_as_by_stock_scrapy(tmp_path: Path, stock: MakeStock) -> None:
    made = {}
    for name, settings in (("stock", {}), ("with", ADDON)):
        project = stock(name, **settings)
        assert run(project.path, "genspider", "other", "example.com")[0] == 0
        assert run(project.path, "genspider", "-t", "crawl", "third", "example.com")[0] == 0
        spiders = project.path / "shop" / "spiders"
        made[name] = [(spiders / f"{spider}.py").read_text() for spider in ("other", "third")]
        assert run(project.path, "startproject", "inner", str(tmp_path / f"inner-{name}"))[0] == 0
        assert run(tmp_path / f"inner-{name}", "list")[0] == 0
    assert made["stock"] == made["with"]


@pytest.mark.parametrize("settings", [{}, {"JOBDIR": "job"}], ids=["memory", "jobdir"])
def test_a_spider_without_a_project_is_run_to_its_end_and_again(
    settings: dict[str, object], stock: MakeStock, site: str
) -> None:
    """The counterpart is the same file in a stock project."""
    told = {}
    for name, added in (("stock", {}), ("with", ADDON)):
        project = stock(name, **added, **settings)
        shutil.move(project.path / "shop" / "spiders" / "pages.py", project.path / "pages.py")
        command = ("runspider", "pages.py", "-a", f"site={site}", "-O", "items.jsonl", "--nolog")
        for _ in range(2 if name == "with" else 1):  # what has ended is forgotten, so it begins afresh
            assert run(project.path, *command)[0] == 0
            told[name] = sorted((project.path / "items.jsonl").read_text().splitlines())
    assert len(told["stock"]) > 2
    assert told["stock"] == told["with"]
