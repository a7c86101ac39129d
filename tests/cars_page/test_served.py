"""The page about cars, as `scrapy dashboard` serves it."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.cars_page.test_page import publish, record
from tests.crawling import Crawl, wait_until

SECONDS = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    out = tmp_path_factory.mktemp("out")
    hostile = "</script><img src=x onerror=alert(1)>"
    publish(
        out,
        {"1": record(100_000), "2": record(90_000, make=hostile)},
        {"1": record(80_000), "2": record(95_000, make=hostile)},
    )
    command = [sys.executable, "-m", "scrapy", "dashboard", "--port", "0", "-s", f"CARS_OUTPUT_DIR={out}"]
    env = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "JOBDIR")}
    with Crawl([*command, "-s", f"JOBDIR={out / 'job'}"], out, env) as run:
        wait_until(lambda: "http://" in run.log or not run.running, what="the dashboard tells its address")
        found = re.search(r"http://\S+", run.log)
        assert found, run.log
        yield found[0].rstrip("/")
        run.send(signal.SIGTERM)
        assert run.wait(SECONDS) == 0, run.log
        assert "Traceback" not in run.log


def get(address: str) -> tuple[str, dict[str, str]]:
    with urlopen(address, timeout=SECONDS) as answer:
        assert answer.status == 200
        return answer.read().decode(), {name.lower(): value for name, value in answer.headers.items()}


def test_it_is_one_of_the_dashboards_pages_and_keeps_its_policy(address: str) -> None:
    page, headers = get(f"{address}/tabs/cars?{urlencode({'make': 'Audi', 'model': 'A4'})}")
    assert '<a href="/tabs/cars" aria-current="page">Cars</a>' in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe-inline" not in headers["content-security-policy"]
    assert not re.search(r"\s(style|onclick|onload|onchange)=", page)
    assert "R&nbsp;80,000" in page


def test_what_it_loads_is_there_and_comes_from_the_dashboard(address: str) -> None:
    page, _ = get(f"{address}/tabs/cars")
    loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', page)
    assert [path for path in loaded if path.endswith("uPlot.iife.min.js")]
    for path in loaded:
        assert path.startswith("/static/")
        get(f"{address}{path}")


def test_markup_in_a_name_is_a_name_there(address: str) -> None:
    page, _ = get(f"{address}/tabs/cars?{urlencode({'make': '<img src=x>'})}")
    assert "<img src=x" not in page
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in page
    assert "This catalogue has no &lt;img src=x&gt;" in page
