"""`examples/shop` does what its README says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.any_project.project import PYTHON, environment
from tests.any_project.shop import EXAMPLE, Shop

PRODUCTS = 120


def test_the_shop_is_crawled_to_its_end_by_stock_scrapy(shop: Shop, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "items.jl", "job"))
    command = [PYTHON, "-m", "scrapy", "crawl", "products", "-s", "JOBDIR=job", "-a", f"site={shop.urls[0]}"]
    done = subprocess.run(
        command, cwd=project, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    items = [json.loads(line) for line in (project / "items.jl").read_text().splitlines()]
    assert sorted(int(item["sku"]) for item in items) == list(range(1, PRODUCTS + 1))
    assert all(item["link_text"] == item["title"] for item in items)
    assert {item["host"] for item in items} == {"127.0.0.1", "127.0.0.2", "127.0.0.3"}


def test_the_readme_has_five_steps() -> None:
    steps = [line for line in (EXAMPLE / "README.md").read_text().splitlines() if line[:1].isdigit()]
    assert len(steps) == 5
