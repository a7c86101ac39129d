"""Requests go to the scheme, host and port of an allowed origin, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from carscraper import settings as project
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.allow_list import AllowListMiddleware, NotAllowed
from scrapy_durable.config import Config

API = "https://api.cars.co.za/fw/public"


@pytest.fixture
def middleware() -> AllowListMiddleware:
    return allowing("https://api.cars.co.za")


def allowing(*origins: str) -> AllowListMiddleware:
    crawler: Any = SimpleNamespace(settings=Settings({"DURABLE_ALLOWED_ORIGINS": origins}))
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


def test_each_of_several_origins_is_allowed_and_no_mixture_of_them() -> None:
    middleware = allowing("https://a.example", "http://b.example:8080")
    for url in ("https://a.example/x", "http://b.example:8080/", "https://a.example/y"):
        middleware.process_request(Request(url))
    for url in ("http://a.example/", "https://b.example:8080/", "http://b.example/", "https://c.example/"):
        with pytest.raises(NotAllowed, match=r"allowed origins: http://b\.example:8080, https://a\.example"):
            middleware.process_request(Request(url))


def test_a_host_that_is_not_ascii_is_allowed_as_requests_write_it() -> None:
    allowing("https://Bücher.example").process_request(Request("https://bücher.example/"))


def test_there_is_no_allow_list_where_every_origin_is_allowed() -> None:
    with pytest.raises(NotConfigured):
        allowing()


def test_the_crawl_of_the_catalogue_may_ask_the_api_alone_and_another_spider_what_it_wants() -> None:
    settings = Settings()
    settings.setmodule(project, priority="project")
    settings.set("CARS_API_URL", f"{API}/", priority="cmdline")
    cars, other = Crawler(CarsSpider, settings).settings, Crawler(Spider, settings).settings
    assert Config.from_settings(cars).allowed_origins == ("https://api.cars.co.za",)
    assert Config.from_settings(other).allowed_origins == ()
    offsite = "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
    assert cars.getwithbase("DOWNLOADER_MIDDLEWARES")[offsite] is None
    assert other.getwithbase("DOWNLOADER_MIDDLEWARES")[offsite] == 50
