"""The page about cars, as HTML, from files that a crawl writes meanwhile, that are damaged, or that are not there."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from carscraper import settings as project
from carscraper.dashboard import page as module
from carscraper.dashboard.latest import Latest, Shown
from carscraper.dashboard.page import CarsTab
from scrapy_durable.dashboard.rendering import Templates
from scrapy_durable.dashboard.tabs import Asked
from tests.changes.test_replay import array, erase, lines_of
from tests.changes.test_replay import publish as publish_of_november

NO_SPECS: list[Any] = []


def record(price: int, make: str = "Audi", model: str = "A4", url: str = "https://a/1") -> dict[str, Any]:
    attributes = {"price": price, "make": make, "model": model, "year": 2019, "mileage": "10 000 Km"}
    return {"url": url, "car_attrs": attributes, "car_specs": NO_SPECS}


class Reader:
    """Who asks the tab for its page, as the dashboard lets them."""

    def __init__(self, out: Path) -> None:
        settings = Settings()
        settings.setmodule(project, priority="project")
        settings.set("CARS_OUTPUT_DIR", str(out), priority="cmdline")
        self._tab = CarsTab(settings)
        self._templates = Templates("cars", [self._tab])

    async def html(self, **query: str) -> str:
        return await self._tab.render(Asked(query, self._rendered))

    def _rendered(self, name: str, **values: Any) -> str:
        of_core = {"title": "Cars", "nonce": "n", "path": "/tabs/cars", "may_act": False, "can_log_in": False}
        return self._templates.render(name, self._tab.path, **of_core, **values)


def html(out: Path, **query: str) -> str:
    return asyncio.run(Reader(out).html(**query))


def publish(out: Path, *catalogues: dict[str, Any]) -> None:
    """Each a minute ago."""
    for number, catalogue in enumerate(catalogues):
        publish_of_november(out, number, catalogue)
    path = out / "changes.jsonl"
    today = (datetime.now(UTC) - timedelta(minutes=1)).strftime('"at":"%Y-%m-%dT%H:%M:%SZ"').encode()
    path.write_bytes(re.sub(rb'"at":"[^"]*"', today, path.read_bytes()))


def test_before_the_first_crawl_it_says_what_makes_a_catalogue(tmp_path: Path) -> None:
    shown = html(tmp_path)
    assert "No catalogue yet" in shown
    assert "No changes yet" in shown
    assert 'id="cars-charts"' not in shown


def test_after_one_crawl_there_are_prices_and_no_changes_yet(tmp_path: Path) -> None:
    publish(tmp_path, {"1": record(100_000), "2": record(200_000, model="A3")})
    shown = html(tmp_path)
    assert "2 listings, published" in shown
    assert '<option value="A3" selected>A3 (1)</option>' in shown or "A4 (1)" in shown
    assert "None." in shown


def test_a_model_is_chosen_by_its_address_and_its_numbers_stand_in_the_page(tmp_path: Path) -> None:
    publish(tmp_path, {"1": record(100_000), "2": record(200_000, model="A3"), "3": record(3, make="BMW")})
    shown = html(tmp_path, make="Audi", model="A3")
    found = re.search(r'<script type="application/json" id="cars-charts">(.*?)</script>', shown)
    assert found
    assert json.loads(found[1])["mileage"]["price"] == [200_000, None]
    assert "10,000" not in shown.partition("<tbody>")[0]
    assert "R&nbsp;200,000" in shown


def test_a_model_of_the_make_before_gives_way_to_one_of_the_new_make(tmp_path: Path) -> None:
    publish(tmp_path, {"1": record(100_000), "3": record(3, make="BMW", model="X5")})
    shown = html(tmp_path, make="BMW", model="A4", of="Audi")
    assert '<option value="X5" selected>' in shown
    assert "This catalogue has no" not in shown


def test_a_model_that_is_not_there_is_said(tmp_path: Path) -> None:
    publish(tmp_path, {"1": record(100_000)})
    assert "This catalogue has no Audi Nope." in html(tmp_path, make="Audi", model="Nope")
    assert "This catalogue has no Nobody&#39;s" in html(tmp_path, make="Nobody's")
    assert len(html(tmp_path, make="x" * 9_999)) < 60_000


def test_the_largest_changes_are_shown_with_links_to_the_listings(tmp_path: Path) -> None:
    publish(
        tmp_path,
        {"1": record(100_000), "2": record(100_000, url="https://a/2")},
        {"1": record(80_000), "2": record(150_000, url="https://a/2")},
    )
    shown = html(tmp_path)
    drops, _, rises = shown.partition("Largest rises")
    assert '<a href="https://a/1" rel="noreferrer noopener">1</a>' in drops
    assert "−20,000" in drops
    assert "−20 %" in drops
    assert '<a href="https://a/2"' in rises
    assert "+50,000" in rises


def test_after_an_erasure_nothing_of_the_listing_is_there(tmp_path: Path) -> None:
    publish(
        tmp_path, {"1": record(100_000), "77": record(100_000)}, {"1": record(80_000), "77": record(50_000)}
    )
    page = Reader(tmp_path)
    assert ">77<" in asyncio.run(page.html())
    erase(tmp_path, "77", killed=False)
    assert ">77<" not in asyncio.run(page.html())


def test_hostile_text_of_the_site_is_shown_harmlessly(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e\x1b[2J"
    link = 'javascript:alert(3)//https://a"onmouseover="alert(4)'
    cars = [record(price, hostile, hostile, link) for price in (100_000, 80_000)]
    for one in cars:
        one["car_attrs"]["province"] = hostile
    publish(tmp_path, *({"1": one} for one in cars))
    shown = html(tmp_path, make=hostile, model=hostile)
    assert "&lt;img src=x onerror=alert(2)&gt;" in shown
    for harmful in ("<img", "<script>", "javascript:", 'onmouseover="', "\u202e", "\x1b"):
        assert harmful not in shown
    assert shown.count("</script>") == 5, "those of the dashboard, the numbers, and what draws them"


@pytest.mark.parametrize("text", [b"", b"[\n{}\n]\n", b'[\n{"id":"1","car_attrs":!}\n]\n'])
def test_a_damaged_catalogue_is_said_and_the_last_good_one_stays(text: bytes, tmp_path: Path) -> None:
    publish(tmp_path, {"1": record(100_000)})
    page = Reader(tmp_path)
    assert "1 listing," in asyncio.run(page.html())
    (tmp_path / "cars.json").write_bytes(text)
    shown = asyncio.run(page.html())
    assert "cars.json is damaged" in shown
    assert "What is shown was read before." in shown
    assert "1 listing," in shown
    fresh = html(tmp_path)
    assert "cars.json is damaged" in fresh
    assert "What is shown" not in fresh


def test_while_a_catalogue_is_read_the_one_before_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, {"1": record(100_000)})
    monkeypatch.setattr(module, "_WAIT", 0.05)
    go_on, read = threading.Event(), Latest.shown

    def slowly(latest: Latest, now: datetime) -> Shown:
        go_on.wait(60)
        return read(latest, now)

    async def look() -> None:
        page = Reader(tmp_path)
        go_on.set()
        while "1 listing," not in await page.html():
            pass
        monkeypatch.setattr(Latest, "shown", slowly)
        go_on.clear()
        lines = lines_of({"1": record(1), "2": record(2)}, 2)
        (tmp_path / "cars.json").write_bytes(array(lines))
        shown = await page.html()
        assert "is being read" in shown
        assert "1 listing," in shown
        fresh = await Reader(tmp_path).html()
        assert "Reading the catalogue" in fresh
        assert "No catalogue yet" not in fresh
        go_on.set()
        while "2 listings" not in await page.html():
            pass

    asyncio.run(look())
