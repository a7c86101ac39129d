"""A pipeline of one's own that is a `DurableStore` loses nothing that it holds in memory, and has each item once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace

import pytest

from scrapy_durable import DurableStore
from tests.any_project.conftest import MakeProject
from tests.any_project.kills import Stop, Whole, crawl_through, finish, stops
from tests.any_project.project import Project
from tests.any_project.seeds import SEEDS
from tests.any_project.shop import EXAMPLE, Shop
from tests.any_project.variants import ALONE

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("addon")]

BATCHED = replace(
    ALONE,
    settings={
        **ALONE.settings,
        "ITEM_PIPELINES": {"shop.pipelines.EachItemToDisk": 300, "shop.pipelines.ProductsToSqlite": 400},
    },
)


def products(project: Project) -> list[str]:
    """As `Whole.items` has them."""
    database = sqlite3.connect(project.path / "products.sqlite")
    rows = database.execute("SELECT product FROM products").fetchall()
    database.close()
    return sorted(json.dumps(json.loads(product), sort_keys=True) for (product,) in rows)


def test_the_example_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from shop.pipelines import EachItemToDisk, ProductsToSqlite  # type: ignore[import-not-found]

    assert isinstance(ProductsToSqlite("a file"), DurableStore)
    assert not isinstance(EachItemToDisk("a file"), DurableStore)


@pytest.mark.parametrize("seed", SEEDS)
def test_five_kills_cost_it_nothing(
    seed: int, project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = whole("products")
    durable = project("products", BATCHED)
    runs = crawl_through(durable, shop, stops(seed, expected.answered.total()))
    assert finish(runs, shop) == [0], runs[0].log[-10_000:]
    assert products(durable) == expected.items


def test_without_its_numbers_a_kill_costs_it_a_batch(
    project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    """The counterpart: requests are done while their items are in memory."""
    expected = whole("products")
    broken = project("products", BATCHED)
    pipelines = broken.path / "shop" / "pipelines.py"
    text = pipelines.read_text().replace("self.received += 1", "pass")
    pipelines.write_text(text.replace("SECONDS = 1.0", "SECONDS = 3600"))
    runs = crawl_through(broken, shop, [Stop(40, 0, settled=True)])
    assert finish(runs, shop) == [0], runs[0].log[-10_000:]
    assert set(expected.items) - set(products(broken))
