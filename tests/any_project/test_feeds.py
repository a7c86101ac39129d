"""Every item is in each feed once, in whole files, after any kill; and one worker that never comes back is said."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.any_project.conftest import MakeProject
from tests.any_project.feeds import FEEDS, READERS, of_lines, read
from tests.any_project.kills import Whole, crawl_through, finish, stops
from tests.any_project.project import PYTHON, Project, Run, environment
from tests.any_project.seeds import SEEDS
from tests.any_project.shop import Shop
from tests.any_project.variants import ALONE, SHARED, STOCK_JOBDIR, Variant
from tests.crawling import HANGS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("addon")]

WITH_FEEDS = [
    Variant(one.name, {**one.settings, "FEEDS": FEEDS, "JOBDIR": "job-%(worker)s"}, one.workers, one.redis)
    for one in (ALONE, *SHARED)
]
"""Each worker has a directory of its own."""
CRAWLS = [
    *((spider, variant) for spider in ("products", "forms", "quotes") for variant in WITH_FEEDS),
    *(
        ("pushed", replace(variant, settings={**variant.settings, "MAX_IDLE_TIME_BEFORE_CLOSE": 2}))
        for variant in WITH_FEEDS
        if variant.redis
    ),
]
"""What waits for pushes ends when none has come for some seconds."""
TWO_WORKERS = Variant("redis-2", WITH_FEEDS[2].settings, 2, redis=True)


def assert_each_once(project: Project, expected: Whole) -> None:
    """Every feed, of all workers together, has each item once, and nothing is beside them."""
    wanted = of_lines(expected.items)
    for kind in READERS:
        found = read(project.path / "feeds", kind)
        assert found == wanted, (
            f"{kind}: {(wanted - found).total()} missing, {(found - wanted).total()} too many"
        )
    assert not list((project.path / "feeds").glob("*incomplete*"))


@pytest.mark.parametrize(
    ("spider", "variant", "seed"),
    [(*case, seed) for case in CRAWLS for seed in SEEDS],
    ids=str,
)
def test_five_kills_leave_each_item_once_in_every_feed(
    spider: str,
    variant: Variant,
    seed: int,
    project: MakeProject,
    shop: Shop,
    whole: Callable[[str], Whole],
) -> None:
    expected = whole(spider)
    durable = project(spider, variant)
    plan = stops(seed, expected.answered.total(), workers=variant.workers)
    runs = crawl_through(durable, shop, plan, workers=variant.workers)
    assert finish(runs, shop) == [0] * len(runs), "\n".join(run.log[-10_000:] for run in runs)
    assert_each_once(durable, expected)
    assert set(durable.items()) == set(expected.items), "what an item pipeline has had"


def test_stock_scrapy_loses_items_of_its_feed(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    """The counterpart: the same kills, the same feed, Scrapy's own JOBDIR."""
    expected = whole("products")
    feed = {"feeds/stock.jl": {"format": "jsonlines"}}
    stock = project("products", Variant("stock", {**STOCK_JOBDIR.settings, "FEEDS": feed}))
    plan = stops(0, expected.answered.total())
    finish(crawl_through(stock, shop, plan, may_lose=True), shop, may_lose=True)
    path = stock.path / "feeds" / "stock.jl"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    whole_lines = [line for line in lines if line.startswith("{") and line.endswith("}")]
    assert of_lines(whole_lines) != of_lines(expected.items)


class Many:
    """A project whose spider `many` yields `ITEMS` numbered items of a kilobyte, from `PAGES` pages."""

    PAGES, ITEMS = 100, 4_000

    def __init__(self, template: Path, directory: Path) -> None:
        self._path = directory / "project"
        shutil.copytree(template, self._path)
        shutil.copy(Path(__file__).with_name("many_spider.py"), self._path / "shop" / "spiders" / "many.py")

    def crawl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        settings = ['ADDONS={"scrapy_durable.Addon": 500}', "JOBDIR=job", "DOWNLOAD_DELAY=0"]
        options = [part for setting in settings for part in ("-s", setting)]
        return subprocess.run(
            [PYTHON, "-m", "scrapy", "crawl", "many", *options, *arguments],
            cwd=self._path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANGS,
        )

    def file(self, name: str) -> Path:
        return self._path / name

    def numbers(self, name: str) -> list[int]:
        text = self.file(name).read_text()
        return [int(number) for number in re.findall(r"number\W+(\d+)", text)]


def lose_one_of_two(project: Project, shop: Shop) -> Run:
    """Kill the first of two workers amidst the crawl; the other ends it, and is returned: it does not exit with 0."""
    shop.gate(60)
    lost, other = project.start(0), project.start(1)
    for run in (lost, other):
        run.wait_until_open()
    shop.wait_until_held()
    lost.kill()
    project.end_leases(lost)
    shop.gate(None)
    assert other.wait() == 1, other.log[-10_000:]
    return other


def test_a_worker_that_never_comes_back_is_named_until_it_is_given_up(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = whole("products")
    durable = project("products", TWO_WORKERS)
    other = lose_one_of_two(durable, shop)
    (name,) = {
        line.split("scrapy queue abandon ")[1].split("'")[0]
        for line in other.log.splitlines()
        if "abandon" in line
    }
    assert f"the items of worker {name}" in other.log

    again = durable.start(1)
    assert again.wait() == 1, again.log[-10_000:]

    command = [durable.python, "-m", "scrapy", "queue", "abandon", name, "--yes"]
    told = subprocess.run(command, cwd=durable.path, env=environment(), capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert name in told.stdout

    last = durable.start(1)
    assert last.wait() == 0, last.log[-10_000:]
    kept = read(durable.path / "feeds", "json")
    assert not kept - of_lines(expected.items), "nothing is there twice"


def test_a_worker_that_comes_back_completes_the_crawl(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = whole("products")
    durable = project("products", TWO_WORKERS)
    lose_one_of_two(durable, shop)
    back = durable.start(0)
    assert back.wait() == 0, back.log[-10_000:]
    assert_each_once(durable, expected)


def test_a_crawl_that_was_begun_without_feeds_says_what_they_lack(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = of_lines(whole("quotes").items)
    durable = project("quotes", ALONE)
    shop.gate(20)
    first = durable.start()
    shop.wait_until_held()
    first.interrupt()
    shop.gate(None)
    first.wait()
    went_on = durable.start(0, ["-o", "late.jl"])
    assert went_on.wait() == 0, went_on.log[-10_000:]
    assert "This crawl was begun without feeds: what its first" in went_on.log
    lines = (durable.path / "late.jl").read_text().splitlines()
    assert not of_lines(lines) - expected, "nothing is there twice"


@pytest.mark.parametrize(("name", "grows"), [("many.jl", True), ("many.json", False)])
def test_the_room_that_items_take_is_bounded(name: str, grows: bool, template: Path, tmp_path: Path) -> None:
    """A feed that grows lets go of what it has; for one that is written at the end the crawl is stopped, by name."""
    project = Many(template, tmp_path)
    ended = project.crawl("-O", name, "-s", "DURABLE_ITEM_LOG_MAX_BYTES=1048576")
    if not grows:
        assert ended.returncode == 1, ended.stderr[-10_000:]
        assert "item_log_full" in ended.stderr
        assert not project.file(name).exists()
        ended = project.crawl("-O", name)
    assert ended.returncode == 0, ended.stderr[-10_000:]
    assert sorted(project.numbers(name)) == list(range(Many.ITEMS))


def test_items_that_cannot_be_serialized_are_in_the_feed_unless_a_kill_costs_them(
    template: Path, tmp_path: Path
) -> None:
    whole = Many(template, tmp_path / "whole")
    assert whole.crawl("-O", "all.xml", "-a", "odd=1").returncode == 0
    assert sorted(whole.numbers("all.xml")) == list(range(Many.ITEMS))

    killed = Many(template, tmp_path / "killed")
    died = killed.crawl("-O", "all.xml", "-a", "odd=1", "-a", f"die_after={Many.PAGES // 2}")
    assert died.returncode == -signal.SIGKILL, died.stderr[-10_000:]
    went_on = killed.crawl("-O", "all.xml", "-a", "odd=1")
    assert went_on.returncode == 1, went_on.stderr[-10_000:]
    assert "items that could not be serialized are lost" in went_on.stderr
    assert len(killed.numbers("all.xml")) == len(set(killed.numbers("all.xml"))) < Many.ITEMS


def test_a_second_crawl_begins_afresh(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    """`-O` replaces what the first has made, `-o` appends to it."""
    expected = of_lines(whole("quotes").items)
    durable = project("quotes", WITH_FEEDS[0])
    feeds = durable.path / "feeds"
    for times in (1, 2):
        assert durable.start().wait() == 0
        assert read(feeds, "jl") == Counter({row: number * times for row, number in expected.items()})
        assert read(feeds, "json") == read(feeds, "csv") == expected
