"""`examples/shop` does what its README says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.any_project.project import PYTHON, environment
from tests.any_project.shop import EXAMPLE, Shop
from tests.crawling import HANGS

PRODUCTS = 120


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example."""
    ignored = shutil.ignore_patterns("__pycache__", "items.jl", "job")
    return Path(shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=ignored))


def start(example: Path, shop: Shop, *arguments: str) -> subprocess.Popen[bytes]:
    """The README's command."""
    command = [PYTHON, "-m", "scrapy", "crawl", "products", "-s", "JOBDIR=job", "-a", f"site={shop.urls[0]}"]
    with (example / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, *arguments], cwd=example, env=environment(), stdout=log, stderr=log
        )


def products(example: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (example / "items.jl").read_text().splitlines()]


def test_the_shop_is_crawled_to_its_end_by_stock_scrapy(example: Path, shop: Shop) -> None:
    assert start(example, shop).wait(HANGS) == 0, (example / "log").read_text()
    items = products(example)
    assert sorted(int(item["sku"]) for item in items) == list(range(1, PRODUCTS + 1))
    assert all(item["link_text"] == item["title"] for item in items)
    assert {item["host"] for item in items} == {"127.0.0.1", "127.0.0.2", "127.0.0.3"}


@pytest.mark.usefixtures("addon")
def test_with_one_line_more_a_kill_costs_it_nothing(example: Path, shop: Shop) -> None:
    one_line = ("-s", 'ADDONS={"scrapy_durable.Addon": 500}')
    shop.gate(40)
    killed = start(example, shop, *one_line)
    assert shop.wait_until_held(lambda: killed.poll() is not None), (example / "log").read_text()
    killed.kill()
    killed.wait(HANGS)
    shop.gate(None)
    assert start(example, shop, *one_line).wait(HANGS) == 0, (example / "log").read_text()
    assert {int(item["sku"]) for item in products(example)} == set(range(1, PRODUCTS + 1))


def test_the_readme_has_five_steps() -> None:
    steps = [line for line in (EXAMPLE / "README.md").read_text().splitlines() if line[:1].isdigit()]
    assert len(steps) == 5
