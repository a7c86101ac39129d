"""`spider.state` has what all acknowledged requests have left there, whatever is killed."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.any_project.conftest import MakeProject
from tests.any_project.dying import KILLED
from tests.any_project.kills import Whole
from tests.any_project.project import Project
from tests.any_project.shop import Shop
from tests.any_project.test_feeds import WITH_FEEDS
from tests.any_project.test_items_named_points import run
from tests.any_project.variants import Variant

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("addon")]

AUTHOR_ACKNOWLEDGED = "after logged"
"""Only a request that has yielded an item is noted for the log, and only an author's page yields one."""


def state_file(project: Project) -> Path:
    return project.path / "job-0" / "spider.state"


def kept(project: Project) -> list[str]:
    """The authors of the state on the disk."""
    authors: list[str] = pickle.loads(state_file(project).read_bytes())["authors"]
    return authors


def assert_ended(process: subprocess.CompletedProcess[str], code: int) -> None:
    assert process.returncode == code, process.stderr[-10_000:]


@pytest.fixture
def authors(whole: Callable[[str], Whole]) -> set[str]:
    """All that there are."""
    return {item["name"] for item in map(json.loads, whole("quotes").items) if "name" in item}


@pytest.mark.parametrize("variant", WITH_FEEDS[:2], ids=str)
@pytest.mark.parametrize("passing", ["1", "2"])
def test_a_kill_costs_it_nothing_that_was_acknowledged(
    passing: str, variant: Variant, project: MakeProject, shop: Shop, authors: set[str]
) -> None:
    durable = project("remembering", variant)
    assert_ended(run(durable, CRASH_POINT=AUTHOR_ACKNOWLEDGED, CRASH_AT=passing), KILLED)
    assert_ended(run(durable), 0)
    assert set(kept(durable)) == authors


def test_without_waiting_for_it_a_kill_costs_what_was_acknowledged(
    project: MakeProject, shop: Shop, authors: set[str]
) -> None:
    """The counterpart: Scrapy's own extension writes at the end only."""
    durable = project("remembering", WITH_FEEDS[0])
    mutant = "keep_the_state_until_the_end"
    assert_ended(run(durable, CRASH_POINT=AUTHOR_ACKNOWLEDGED, MUTANT=mutant), KILLED)
    assert_ended(run(durable), 0)
    assert authors - set(kept(durable))


def test_a_crawl_that_is_stopped_and_goes_on_leaves_each_author_once(
    project: MakeProject, shop: Shop, authors: set[str]
) -> None:
    """What is in the state when it is written for the last time is acknowledged, however slow the disk is."""
    durable = project("remembering", WITH_FEEDS[0])
    slow = {"MUTANT": "write_the_state_slowly"}
    stopped = run(durable, "-s", "CLOSESPIDER_ITEMCOUNT=3", **slow)
    assert_ended(stopped, 1)
    assert_ended(run(durable, **slow), 0)
    assert set(kept(durable)) == authors
    if "Left without the frontier's answer" not in stopped.stderr:  # as on a machine that stands still
        assert sorted(kept(durable)) == sorted(authors)


def test_the_state_outlives_its_crawl_as_in_scrapy(
    project: MakeProject, shop: Shop, authors: set[str]
) -> None:
    durable = project("remembering", WITH_FEEDS[0])
    assert_ended(run(durable), 0)
    assert_ended(run(durable), 0)
    assert sorted(kept(durable)) == sorted([*authors, *authors])


def test_a_file_that_cannot_be_read_is_refused_by_name(project: MakeProject, shop: Shop) -> None:
    durable = project("remembering", WITH_FEEDS[0])
    state_file(durable).parent.mkdir()
    state_file(durable).write_bytes(pickle.dumps({"authors": ["one"]})[:-3])
    refused = run(durable)
    assert_ended(refused, 2)
    assert str(state_file(durable)) in refused.stderr.splitlines()[-1]
    assert not shop.answered()


def test_a_state_that_cannot_be_pickled_is_warned_about_and_holds_nothing_up(
    project: MakeProject, shop: Shop
) -> None:
    durable = project("remembering", WITH_FEEDS[0])
    spider = durable.path / "shop" / "spiders" / "remembering.py"
    spider.write_text(spider.read_text().replace(".append(name)", ".append(lambda: name)"))
    ended = run(durable)
    assert_ended(ended, 0)
    assert ended.stderr.count("spider.state cannot be kept") == 1
