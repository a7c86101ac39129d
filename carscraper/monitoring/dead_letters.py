"""The dead letters of a crawl at its end: as the verdict shows them, and what is still to be had of their listings."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from scrapy.exceptions import DropItem

from carscraper.items import Car
from carscraper.monitoring.verdict import GivenUp
from carscraper.pipelines.once import is_logged
from scrapy_durable.engine import process_item, process_item_alone
from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier import codec
from scrapy_durable.responses.middleware import KEPT, STORE_KEY
from scrapy_durable.retry.middleware import OTHER_SHAPE
from scrapy_durable.stores import durable_stores

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from scrapy_durable.frontier.contract import DeadLetter, Frontier

_AT_ONCE = 200
"""Dead letters in memory: each may carry hundreds of listings."""
_LOOK = 0.03
"""Seconds between two looks whether records are durable."""
_OTHER_SHAPE = re.compile(rf"status \d+, but {re.escape(OTHER_SHAPE)}: ")


async def settle(crawler: Crawler, frontier: Frontier) -> list[GivenUp]:
    """All dead letters, the oldest first. A listing whose specification is among them is kept without one: its record,
    with `car_specs` null, has gone through the item pipelines and is durable when this returns.

    May be repeated, by any worker: the same records come again. They are not for the item log, where nothing takes
    their place: the feeds get those with a specification, once it can be had.
    """
    send = _keep if is_logged(crawler) else process_item
    given_up: list[GivenUp] = []
    while letters := await frontier.dead_letters(_AT_ONCE, skip=len(given_up)):
        for letter in letters:
            request, shown = read(crawler, letter)
            given_up.append(shown)
            for car in _without_specs(request):
                await send(crawler, car)
    stores = durable_stores(crawler)
    upto = [store.received for store in stores]
    while any(store.durable < number for store, number in zip(stores, upto, strict=True)):
        await asyncio.sleep(_LOOK)
    return given_up


def show(crawler: Crawler, letters: Iterable[DeadLetter]) -> list[GivenUp]:
    """Dead letters as the verdict shows them."""
    return [read(crawler, letter)[1] for letter in letters]


def read(crawler: Crawler, letter: DeadLetter) -> tuple[Request | None, GivenUp]:
    """The request that is dead, None when it cannot be read back, and how the verdict shows it."""
    try:
        request = codec.decode(letter.payload, cast("Spider", crawler.spider))
    except CodecError as error:
        return None, GivenUp(codec.url_of(letter.payload), f"{letter.reason} ({error})")
    rows = request.cb_kwargs.get("listings", ())
    return request, GivenUp(
        request.url,
        letter.reason,
        tuple(str(row[0]) for row in rows),
        kind="page" if KEPT in request.meta else "specification" if STORE_KEY in request.meta else "",
        spec=str(request.meta.get(STORE_KEY, "")),
        other_shape=_OTHER_SHAPE.match(letter.reason) is not None,
    )


async def _keep(crawler: Crawler, car: Car) -> None:
    with contextlib.suppress(DropItem):
        await process_item_alone(crawler, car)


def _without_specs(request: Request | None) -> Iterator[Car]:
    if request is not None and STORE_KEY in request.meta:
        for listing_id, url, scraped_at, attributes in request.cb_kwargs.get("listings", ()):
            yield Car(listing_id, url, scraped_at, attributes, None)
