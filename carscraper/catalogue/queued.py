"""What the crawl of the catalogue queues, declared: nothing else comes out of a queue that others can write to."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from carscraper.api.endpoints import (
    SearchFilters,
    check_search_link,
    page_offset,
    search_url,
    spec_url,
    web_url,
)
from carscraper.api.search_page import is_listing_id
from carscraper.catalogue.fingerprints import DISTINCT
from carscraper.catalogue.walk import AHEAD
from carscraper.exceptions import ApiError
from scrapy_durable.frontier.shapes import Shape, either, exactly, text, whole
from scrapy_durable.responses.middleware import KEPT, STORE_KEY

FIRST_TIME = "2020-01-01T00:00:00.000Z"
"""No listing was read before; ISO times sort as they are written."""
LATEST = 3600.0
"""Seconds that a time from a queue may be ahead of this worker's: the clocks of two machines differ."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_MOST_PASSES = 100
_FARTHEST = 10**9 - 1
"""Offsets have nine digits at most."""


def queued_requests(
    api_url: str, filters: SearchFilters, *, clock: Callable[[], float] = time.time
) -> dict[str, Shape]:
    """The requests of a crawl of that search, by their callbacks. `clock` tells seconds since the epoch."""

    def page_problem(url: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> str | None:
        try:
            check_search_link(api_url, url)
            offset = page_offset(url)
        except ApiError as error:
            return f"url: {error}"
        if meta[DISTINCT] != str(arguments["pass_number"]):
            return f"meta.{DISTINCT}: not that of the pass"
        if arguments["pass_number"] == 0:
            return None if arguments["walk"] is None else "cb_kwargs.walk: there is none of what was pushed"
        if (arguments["walk"] is None) != (offset == 0):
            return "cb_kwargs.walk: only the first page of a pass has none"
        return None if url == _own_page(url, offset) else "url: a page of another search"

    def _own_page(url: str, offset: int) -> str:
        limits = [value for name, value in parse_qsl(urlsplit(url).query) if name == "page[limit]"]
        limit = int(limits[0]) if len(limits) == 1 and limits[0].isdecimal() and len(limits[0]) < 10 else 0
        return search_url(api_url, offset=offset, limit=limit, filters=filters)

    def spec_problem(url: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> str | None:
        code, _, year = meta[STORE_KEY].rpartition("/")
        if not (year.isascii() and year.isdecimal() and len(year) == 4):
            return f"meta.{STORE_KEY}: no code and year"
        try:
            if url != spec_url(api_url, code, int(year)):
                return f"url: not that of meta.{STORE_KEY}"
        except ApiError as error:
            return f"meta.{STORE_KEY}: {error}"
        latest = _end_of_second(int(clock() + LATEST))
        for number, (_, _, scraped_at, _) in enumerate(arguments["listings"]):
            if scraped_at > latest:
                return f"cb_kwargs.listings[{number}]: read at {scraped_at}, which has not come yet"
        if meta[DISTINCT].split(",")[1:] != sorted(row[0] for row in arguments["listings"]):
            return f"meta.{DISTINCT}: not that of the listings that wait"
        return None

    return {
        "parse_page": Shape(
            arguments={
                "pass_number": whole(0, _MOST_PASSES),
                "walk": either(exactly(None), _is_plan),
                "idle": whole(0, AHEAD - 1),
            },
            meta={DISTINCT: text(3), KEPT: exactly(True), "verbatim_url": exactly(True)},
            problem=page_problem,
        ),
        "parse_spec": Shape(
            arguments={"listings": _are_listings},
            meta={
                DISTINCT: text(10**6),
                STORE_KEY: text(200),
                "handle_httpstatus_list": exactly([404]),
                "verbatim_url": exactly(True),
            },
            problem=spec_problem,
        ),
    }


def _is_plan(walk: Any) -> bool:
    """`walk.Plan` as a request carries it."""
    return type(walk) is list and len(walk) == 2 and _IS_STRIDE(walk[0]) and _IS_END(walk[1])


_IS_STRIDE, _IS_END = whole(1, _FARTHEST), whole(0, _FARTHEST)


def _are_listings(rows: Any) -> bool:
    """Rows of id, address, time and attributes, as `CarsSpider.parse_spec` takes them."""
    return type(rows) is list and len(rows) > 0 and all(map(_is_listing, rows))


def _is_listing(row: Any) -> bool:
    if type(row) is not list or len(row) != 4:
        return False
    listing_id, url, scraped_at, attributes = row
    return (
        is_listing_id(listing_id)
        and type(url) is str
        and url == web_url(url)
        and type(attributes) is dict
        and type(scraped_at) is str
        and len(scraped_at) == len(FIRST_TIME)
        and _is_time(scraped_at)
    )


@lru_cache(256)
def _is_time(written: str) -> bool:
    """Called for every listing; those of a page have one time."""
    if not _TIME.fullmatch(written) or written < FIRST_TIME:
        return False
    try:
        datetime.fromisoformat(written)
    except ValueError:
        return False
    return True


@lru_cache(1)
def _end_of_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.999Z")
