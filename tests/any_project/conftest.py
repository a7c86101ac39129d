"""The shop, stock projects, and what an uninterrupted crawl of each spider has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.any_project.kills import Whole, crawl_through, finish
from tests.any_project.project import Project, addon_is_there, environment
from tests.any_project.shop import Shop
from tests.any_project.variants import STOCK_OF, Variant
from tests.redis_server import RedisServer

MakeProject = Callable[[str, Variant], Project]


@pytest.fixture
def addon() -> None:
    """The one switch: tests of the add-on wait for it to be there."""
    if not addon_is_there():
        pytest.skip("scrapy_durable.Addon cannot be imported")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `scrapy startproject` makes it."""
    directory = tmp_path_factory.mktemp("template")
    command = [sys.executable, "-m", "scrapy", "startproject", "shop"]
    subprocess.run(command, cwd=directory, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return directory / "shop"


@pytest.fixture(scope="session")
def running_shop() -> Iterator[Shop]:
    with Shop() as shop:
        yield shop


@pytest.fixture
def shop(running_shop: Shop) -> Shop:
    """The site, of which nothing was asked yet."""
    running_shop.reset()
    return running_shop


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def project(
    template: Path, shop: Shop, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[MakeProject]:
    """Makes a project for a spider and a variant; a Redis is emptied, and told where a spider starts."""
    with ExitStack() as projects:

        def make(name: str, variant: Variant) -> Project:
            shop.reset()
            settings = dict(variant.settings)
            if variant.redis:
                server: RedisServer = request.getfixturevalue("redis_server")
                settings["REDIS_URL"] = server.url
                with server.client() as client:
                    client.flushall()
                    if name == "pushed":
                        client.rpush("pushed:start_urls", *shop.categories())
            path = tmp_path / f"{name}-{variant}"
            return projects.enter_context(Project(template, path, name, shop.urls[0], settings))

        yield make


_WHOLE: dict[str, Whole] = {}


@pytest.fixture
def whole(project: MakeProject, shop: Shop) -> Callable[[str], Whole]:
    """What there is for a spider, crawled by stock Scrapy without a kill, once in a session."""

    def crawl(name: str) -> Whole:
        if name not in _WHOLE:
            crawled = project(name, STOCK_OF[name])
            runs = crawl_through(crawled, shop, [])
            assert finish(runs, shop) == [0], runs[0].log
            _WHOLE[name] = Whole(crawled.items(), shop.answered())
            crawled.remove()
        return _WHOLE[name]

    return crawl
