"""Stock Scrapy under the same kills: what the harness finds missing shows that it can find something missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.any_project.conftest import MakeProject
from tests.any_project.kills import Whole, crawl_through, finish, stops
from tests.any_project.seeds import FEW_SEEDS
from tests.any_project.shop import Shop
from tests.any_project.variants import STOCK, STOCK_JOBDIR, Variant

PRODUCTS = 120
GONE = 10
QUOTES_AND_AUTHORS = 120 + 40


@pytest.mark.parametrize(
    ("spider", "items"),
    [("products", PRODUCTS), ("forms", PRODUCTS), ("quotes", QUOTES_AND_AUTHORS), ("pushed", PRODUCTS)],
)
def test_a_crawl_that_is_left_alone_has_all_that_the_site_has(
    spider: str, items: int, whole: Callable[[str], Whole]
) -> None:
    """So what is missing after the kills is missing because of them."""
    found = whole(spider).items
    assert len(found) == len(set(found)) == items
    assert sum('"gone": true' in item for item in found) == (GONE if spider == "forms" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FEW_SEEDS)
@pytest.mark.parametrize(("spider", "variant"), STOCK, ids=str)
def test_five_kills_cost_stock_scrapy_items(
    spider: str,
    variant: Variant,
    seed: int,
    project: MakeProject,
    shop: Shop,
    whole: Callable[[str], Whole],
) -> None:
    """With every seed: at the last kill at the latest, requests have left the queue whose answers are held back."""
    expected = whole(spider)
    stock = project(spider, variant)
    plan = stops(seed, expected.answered.total())
    runs = crawl_through(stock, shop, plan, may_lose=True)
    finish(runs, shop, may_lose=True)
    assert set(stock.items()) < set(expected.items), f"it has lost nothing:\n{runs[0].log}"


@pytest.mark.parametrize("spider", ["products", "quotes"])
def test_a_ctrl_c_alone_costs_stock_scrapy_nothing(
    spider: str, project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    """So it is the kills that cost it items, and not the Ctrl-C among them. (It reads its first page twice.)"""
    expected = whole(spider).items
    stock = project(spider, STOCK_JOBDIR)
    shop.gate(20)
    run = stock.start()
    assert shop.wait_until_held()
    run.interrupt()
    assert finish([run], shop) == [0]
    assert len(stock.items()) < len(expected)
    finish(crawl_through(stock, shop, []), shop)
    assert set(stock.items()) == set(expected)
