"""Requests go to the scheme, host and port of the API, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from carscraper import settings as project
from carscraper.allow_list import AllowListMiddleware, NotAllowed

API = "https://api.cars.co.za/fw/public"


@pytest.fixture
def middleware() -> AllowListMiddleware:
    settings = Settings({"CARS_API_URL": API})
    settings.setmodule(project, priority="default")
    crawler: Any = SimpleNamespace(settings=settings)
    crawler.stats = MemoryStatsCollector(crawler)
    return AllowListMiddleware.from_crawler(crawler)


@pytest.mark.parametrize(
    "url",
    [
        f"{API}/v3/vehicle",
        "https://api.cars.co.za/robots.txt",
        "https://api.cars.co.za:443/",
        "https://API.cars.co.za/",
    ],
)
def test_the_api_is_allowed_however_its_host_is_written(middleware: AllowListMiddleware, url: str) -> None:
    middleware.process_request(Request(url))
    middleware.process_request(Request(url))


@pytest.mark.parametrize(
    "url",
    [
        "http://api.cars.co.za/fw/public",
        "https://api.cars.co.za:8443/fw/public",
        "https://cars.co.za/fw/public",
        "https://api.cars.co.za.evil.example/",
        "https://evil.example/api.cars.co.za",
        "https://api.cars.co.za@evil.example/",
        "https://me:secret@api.cars.co.za/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "data:,x",
        "ftp://api.cars.co.za/",
    ],
)
def test_any_other_place_is_refused_even_when_it_asks_for_no_filter(
    middleware: AllowListMiddleware, url: str
) -> None:
    request = Request(url, dont_filter=True, meta={"allow_offsite": True})
    with pytest.raises(NotAllowed):
        middleware.process_request(request)
