"""With the add-on's one line, a crawl that is killed at any moment goes on by the same command and misses nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.any_project.conftest import MakeProject
from tests.any_project.kills import Whole, assert_nothing_was_done_twice, crawl_through, finish, stops
from tests.any_project.project import Project, Run
from tests.any_project.seeds import FEW_SEEDS
from tests.any_project.shop import Shop
from tests.any_project.variants import DURABLE, EXACT, Variant
from tests.crawling import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("addon")]


def come_to_the_end(project: Project, runs: list[Run], shop: Shop, expected: list[str]) -> None:
    """Let the crawl end: by itself with the exit status 0, or, when it waits for pushes for ever, by Ctrl-C."""
    if project.name != "pushed":
        assert finish(runs, shop) == [0] * len(runs), runs[0].log[-20_000:]
        return
    shop.gate(None)
    wait_until(lambda: set(project.items()) >= set(expected), what="every item is there", every=0.05)
    for run in runs:
        run.interrupt()
    for run in runs:
        run.wait()


@pytest.mark.parametrize(
    ("spider", "variant", "seed"),
    [(*case, seed) for case in DURABLE for seed in FEW_SEEDS],
    ids=str,
)
def test_five_kills_lose_no_item(
    spider: str,
    variant: Variant,
    seed: int,
    project: MakeProject,
    shop: Shop,
    whole: Callable[[str], Whole],
) -> None:
    """Without feeds, so without an item log. With both, and more seeds: `test_feeds.py`."""
    expected = whole(spider)
    durable = project(spider, variant)
    plan = stops(seed, expected.answered.total(), workers=variant.workers)
    runs = crawl_through(durable, shop, plan, workers=variant.workers)
    come_to_the_end(durable, runs, shop, expected.items)
    assert set(durable.items()) == set(expected.items)


@pytest.mark.parametrize("seed", FEW_SEEDS)
@pytest.mark.parametrize(("spider", "variant"), EXACT, ids=str)
def test_only_what_was_in_flight_is_asked_for_again(
    spider: str,
    variant: Variant,
    seed: int,
    project: MakeProject,
    shop: Shop,
    whole: Callable[[str], Whole],
) -> None:
    """The kills come when all that was answered is acknowledged: so nothing is answered, and no item made, twice."""
    expected = whole(spider)
    durable = project(spider, variant)
    plan = stops(seed, expected.answered.total(), workers=variant.workers, settled=True)
    runs = crawl_through(durable, shop, plan, workers=variant.workers)
    come_to_the_end(durable, runs, shop, expected.items)
    assert_nothing_was_done_twice(durable, shop, expected)
