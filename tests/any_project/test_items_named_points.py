"""A crawl that dies at a named point on its items' way has each of them once; without that point's safeguard not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests import fork_server
from tests.any_project.conftest import MakeProject
from tests.any_project.dying import KILLED
from tests.any_project.feeds import of_lines, read
from tests.any_project.kills import Whole
from tests.any_project.project import Project, environment
from tests.any_project.shop import Shop
from tests.any_project.test_feeds import CRAWLS, WITH_FEEDS, assert_each_once
from tests.any_project.variants import Variant
from tests.crawling import HANGS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("addon")]

[PUSHED] = [variant for spider, variant in CRAWLS if spider == "pushed" and variant.workers == 1]
POINTS = [
    f"{when} {point}"
    for point in ("log flush", "logged", "confirmed", "feed rename", "log closed", "forget")
    for when in ("before", "after")
]
OF_THE_FRONTIER = [point for point in POINTS if point.endswith(("logged", "confirmed", "closed"))]
"""Those at which it is the frontier that knows."""
SAFEGUARDS = [
    ("acknowledge_before_the_flush", "after logged", "jl", ""),
    ("forget_what_was_accepted", "after logged", "jl", "forget_what_was_accepted"),
    ("confirm_before_the_flush", "after confirmed", "jl", ""),
    ("forget_before_the_feeds", "after forget", "json", None),
]
"""What is taken away, where the process dies, the feed that lacks items then, and without what the crawl goes on; None:
it has ended.
"""


def run(project: Project, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """One process of the crawl, as `dying.py` has it."""
    command = [project.python, "-m", "tests.any_project.dying", *project.command[3:], "-s", "JOBDIR=job-0"]
    command += arguments
    return fork_server.run(
        command,
        cwd=project.path,
        env={**environment(project.python), **env},
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=HANGS,
    )


@pytest.mark.parametrize(
    ("point", "variant"),
    [(point, WITH_FEEDS[0]) for point in POINTS] + [(point, WITH_FEEDS[1]) for point in OF_THE_FRONTIER],
    ids=str,
)
def test_each_item_is_there_once_after_dying(
    point: str, variant: Variant, project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = whole("quotes")
    durable = project("quotes", variant)
    died = run(durable, CRASH_POINT=point)
    assert died.returncode == KILLED, f"never came to {point}:\n{died.stderr[-10_000:]}"
    if point != "after forget":  # the next would be a crawl of its own
        went_on = run(durable)
        assert went_on.returncode == 0, went_on.stderr[-10_000:]
    assert_each_once(durable, expected)


def without_filter(make: MakeProject) -> Project:
    """A crawl of what was pushed that takes every link it meets, so that a page that is read twice is seen."""
    project = make("pushed", PUSHED)
    spider = project.path / "shop" / "spiders" / "pushed.py"
    spider.write_text(spider.read_text().replace("cb_kwargs=", "dont_filter=True, cb_kwargs="))
    return project


@pytest.mark.parametrize(
    "point", ["before pushed", "after pushed", "before push dropped", "after push dropped"]
)
def test_what_was_pushed_is_crawled_once_after_dying(
    point: str, project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = whole("pushed")
    durable = without_filter(project)
    died = run(durable, CRASH_POINT=point)
    assert died.returncode == KILLED, f"never came to {point}:\n{died.stderr[-10_000:]}"
    went_on = run(durable)
    assert went_on.returncode == 0, went_on.stderr[-10_000:]
    assert_each_once(durable, expected)


def test_without_its_key_a_push_is_crawled_twice(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    """The counterpart: it is the key that tells."""
    expected = of_lines(whole("pushed").items)
    durable = without_filter(project)
    assert run(durable, CRASH_POINT="after pushed").returncode == KILLED
    run(durable, MUTANT="forget_which_push_it_was")
    assert read(durable.path / "feeds", "jl") - expected


@pytest.mark.parametrize(("safeguard", "point", "feed", "then"), SAFEGUARDS)
def test_without_its_safeguard_a_point_costs_items(
    safeguard: str,
    point: str,
    feed: str,
    then: str | None,
    project: MakeProject,
    shop: Shop,
    whole: Callable[[str], Whole],
) -> None:
    """The counterpart: the same death, and items are missing."""
    expected = of_lines(whole("quotes").items)
    durable = project("quotes", WITH_FEEDS[0])
    died = run(durable, MUTANT=safeguard, CRASH_POINT=point)
    assert died.returncode == KILLED, died.stderr[-10_000:]
    if then is not None:
        run(durable, MUTANT=then)
    assert expected - read(durable.path / "feeds", feed)
