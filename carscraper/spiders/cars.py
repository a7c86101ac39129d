"""The crawl of the whole catalogue: listing pages, and the specification of every car."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import orjson
from scrapy import Request, Spider

from carscraper.api.deviations import Deviations
from carscraper.api.endpoints import (
    SpecKey,
    check_search_link,
    page_offset,
    search_of,
    search_url,
    spec_url,
)
from carscraper.api.search_page import Listing
from carscraper.catalogue.fingerprints import DISTINCT
from carscraper.catalogue.pages import ListingPage, read_page, read_specs, time_text
from carscraper.catalogue.queued import queued_requests
from carscraper.catalogue.searches import Search
from carscraper.catalogue.together import Together
from carscraper.catalogue.walk import AHEAD, Plan, Seen, called_for, followed_by, plan
from carscraper.config import Config
from carscraper.core_settings import set_core_settings
from carscraper.exceptions import ApiError
from carscraper.items import Car, Cars, OddSpec, PageRead
from carscraper.responses.known_specs import KnownSpec, KnownSpecs
from carscraper.responses.pages import PageName
from carscraper.settings import USER_AGENT
from scrapy_durable.exceptions import StartUrlRefused
from scrapy_durable.identity import crawl_clock
from scrapy_durable.responses.middleware import FETCHED_AT, KEPT, STORE_KEY, response_store

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

LOOK_UP = 64
"""Specs that are looked up at once: those of most pages, and not more than memory holds of the largest."""
_SMALL_PAGE = 512 * 1024
"""Bytes of a page that need no weighing: what is made of it is no larger, and may be kept until its callback comes."""
_SHARE = 128 * 1024
"""Bytes, about, of the listings that one request carries at most. More that wait for the same spec are parted."""
_LIVE = ".cars.co.za"
_PAGE_PRIORITY, _SPEC_PRIORITY = 0, 10
"""Specs go first, so that few requests wait at any time."""


class CarsSpider(Spider):
    """Reads every listing of the API and merges each with the specification of its car.

    The first page tells the total; from there on each page calls for some of those after it, and the last one is
    followed, so that a catalogue that grows is read to its end and none is walked over for ever (`catalogue/walk.py`).
    A page's specs are looked up in the response store many at once: a hit yields the `Car`, a miss a request that
    carries the listings that wait for it.

    Arguments (`-a NAME=VALUE`): `make`, `model`, `variant`, `province`, `year`, `price`, `mileage`,
    `new_or_used`, `keyword`, the API's own filters; `limit`, how many listings to read at most, newest first.
    """

    name = "cars"

    def __init__(self, config: Config, **arguments: str) -> None:
        super().__init__()
        self.search = Search.from_arguments(arguments)
        self.limit, self.filters = self.search.limit, self.search.filters
        self.arguments = arguments
        self._config = config
        self.queued = queued_requests(config.api_url, self.filters, clock=self._now)
        self._read: WeakKeyDictionary[Response, ListingPage] = WeakKeyDictionary()
        self._read_specs: WeakKeyDictionary[Response, KnownSpec] = WeakKeyDictionary()
        self.known_specs = KnownSpecs()
        self._odd_specs: set[str] = set()
        self._seen = Seen()
        self._together: Together | None = None

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Tell the core of this site, and the site who asks, when `CARS_CONTACT` says so and `USER_AGENT` nothing
        else.
        """
        super().update_settings(settings)
        set_core_settings(settings)
        contact = Config.from_settings(settings).contact
        if contact and settings["USER_AGENT"] == USER_AGENT:
            settings.set("USER_AGENT", f"{USER_AGENT.partition(' ')[0]} (+{contact})", priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Raises `ConfigurationError` for an argument that is unknown or a setting that is refused."""
        given = {name: value for name, value in kwargs.items() if name != "_job"}
        spider = super().from_crawler(crawler, Config.from_settings(crawler.settings), **given)
        if _is_anonymous(crawler.settings):
            spider.logger.warning(
                "Nobody says who asks the live site: set CARS_CONTACT to a mail address or URL"
            )
        return spider

    @property
    def reads_all(self) -> bool:
        """True when neither a limit nor a filter leaves anything out, so that what is not seen is not there."""
        return self.search.reads_all

    @property
    def identity(self) -> str:
        """What a crawl of this spider is of: the site and the search, but not how it is read (page size, speed)."""
        return self.search.identity(self._config.api_url)

    async def start(self) -> AsyncIterator[Request]:
        """The first page of the first pass."""
        yield self.page_request(0, self._config.page_size, pass_number=1)

    def page_request(
        self, offset: int, limit: int, *, pass_number: int, plan: Plan | None = None, idle: int = 0
    ) -> Request:
        """One listing page. `plan` is what the first one says of the others; None for the first one itself. `idle`
        pages before it, one after the other, have brought nothing new.
        """
        walk = plan and plan.as_list
        return Request(
            search_url(self._config.api_url, offset=offset, limit=limit, filters=self.filters),
            callback=self.parse_page,
            cb_kwargs={"pass_number": pass_number, "walk": walk, "idle": idle},
            meta={DISTINCT: str(pass_number), KEPT: True, "verbatim_url": True},
            priority=_PAGE_PRIORITY,
        )

    def make_request_from_data(self, data: bytes) -> list[Request]:
        """A search that was pushed to the start key: its pages are followed by their `next`, outside all passes.

        Raises `StartUrlRefused` for anything but the address of a listing page of the API that this crawl reads.
        """
        try:
            url = data.decode().strip()
            check_search_link(self._config.api_url, url)
            page_offset(url)
            return [self._start_page(url)]
        except (UnicodeDecodeError, ApiError) as error:
            raise StartUrlRefused(f"not a listing page of {self._config.api_url}: {error}") from error

    def _start_page(self, url: str, idle: int = 0) -> Request:
        return Request(
            url,
            callback=self.parse_page,
            cb_kwargs={"pass_number": 0, "walk": None, "idle": idle},
            meta={DISTINCT: "0", KEPT: True, "verbatim_url": True},
            priority=_PAGE_PRIORITY,
        )

    async def parse_page(
        self, response: Response, pass_number: int, walk: list[int] | None, idle: int
    ) -> AsyncIterator[Any]:
        """Yields the page's cars whose specs are known, requests for the other specs, further pages, and a
        `PageRead`.
        """
        page = self._page(response, pass_number)
        self._note_astray(page)
        if pass_number:
            further = self._further_pages(page.read, Plan(*walk) if walk else None, idle)
        else:
            further = self._further_start_page(page, search_of(response.url), idle)
        for request in further:
            yield request
        small = len(response.body) <= _SMALL_PAGE
        async for output in self._with_specs(page.listings, self._fetched_at(response), small=small):
            yield output
        for item in page.set_aside:
            yield item
        yield page.read

    def parse_spec(self, response: Response, listings: list[list[Any]]) -> Iterator[Car | Cars | OddSpec]:
        """Yields the `listings` (id, url, when it was read, attributes) that waited for this spec, as cars."""
        key, spec = response.meta[STORE_KEY], self._read_specs.pop(response, None)
        if spec is None:
            specification, deviations = read_specs(response.status, response.body)
        else:
            specification, deviations, _ = spec
            self.known_specs.put(key, spec)
        yield from self._odd(key, deviations)
        yield from self._passed_on(
            [
                Car(listing_id, url, scraped_at, attributes, specification)
                for listing_id, url, scraped_at, attributes in listings
            ]
        )

    def is_answer(self, response: Response) -> bool:
        """Whether a response is worth keeping in the response store; asked before it is parsed."""
        try:
            spec = KnownSpec.read(response.status, response.body, self._now())
        except ApiError:
            return False
        self._read_specs[response] = spec  # the callback is next, and need not read it again
        return True

    def derived_from(self, response: Response) -> bytes:
        """What is kept beside an answer, so that it need not be read again; asked after `is_answer`."""
        spec = self._read_specs.get(response)
        return spec.derived(response.body) if spec and response.status == 200 else b""

    def name_kept(self, request: Request, response: Response, crawl_id: str, fetched_at: float) -> str | None:
        """The key under which a listing page is kept for the crawl; None when it is no answer."""
        try:
            page = self._page(response, request.cb_kwargs["pass_number"])
        except ApiError:
            return None
        if len(response.body) <= _SMALL_PAGE:
            self._read[response] = page  # the callback is next, and need not read it again
        read = page.read
        origin = self._config.api_url
        return PageName(
            crawl_id, read.pass_number, read.offset, fetched_at, read.total, self.arguments, origin
        ).text

    def _page(self, response: Response, pass_number: int) -> ListingPage:
        page = self._read.pop(response, None)
        left_out = self._config.leave_out
        return page or read_page(
            response.body, response.url, pass_number=pass_number, limit=self.limit, left_out=left_out
        )

    async def _with_specs(
        self, listings: list[Listing], fetched_at: float, *, small: bool
    ) -> AsyncIterator[Car | Cars | OddSpec | Request]:
        """The cars of the listings whose specs are stored, a request for each spec that is not.

        Cars take their time to be kept; specs that other pages have fetched meanwhile are known, and need no request.
        """
        scraped_at = time_text(fetched_at)
        seen, missing = None, listings
        while missing and seen != (seen := self._stored_so_far()):
            unknown, missing = missing, []
            for part in _by_specs(unknown):
                found = await self._look_up([key for _, key in part], again=unknown is not listings)
                cars = []
                for listing, key in part:
                    spec = found.get(key)
                    if spec is None:
                        missing.append(listing)
                        continue
                    for odd in self._odd(key, spec.deviations):
                        yield odd
                    cars.append(
                        Car(listing.id, listing.url, scraped_at, listing.attributes, spec.specification)
                    )
                for passed_on in self._passed_on(cars):
                    yield passed_on
        waiting: dict[SpecKey, list[list[Any]]] = {}
        for listing in missing:
            row = [listing.id, listing.url, scraped_at, listing.attributes]
            waiting.setdefault(SpecKey(listing.code, listing.year), []).append(row)
        for spec_key, rows in waiting.items():
            for share in [rows] if small else _shares(rows):
                yield self._spec_request(spec_key, share, fetched_at)

    def _passed_on(self, cars: list[Car]) -> Iterator[Car | Cars]:
        """The cars of an answer, together where that is all the same to everybody."""
        if self._together is None:
            self._together = Together(self.crawler)
        if len(cars) > 1 and self._together.may:
            yield Cars(cars)
        else:
            yield from cars

    def _stored_so_far(self) -> int:
        number: int = self.crawler.stats.get_value("responses/stored", 0)
        return number

    async def _look_up(self, keys: list[str], *, again: bool) -> dict[str, KnownSpec]:
        """The specs that are known or stored; only those that are known when the store has been asked."""
        store, max_age = response_store(self.crawler), self._config.spec_ttl
        if again:
            return self.known_specs.known(keys, self._now() - max_age)
        found, unreadable = await self.known_specs.look_up(store, keys, self._now(), max_age)
        if unreadable:
            self.crawler.stats.inc_value("responses/unreadable", unreadable)
        return found

    def _spec_request(self, key: SpecKey, waiting: list[list[Any]], fetched_at: float) -> Request:
        return Request(
            spec_url(self._config.api_url, key.code, key.year),
            callback=self.parse_spec,
            cb_kwargs={"listings": waiting},
            meta={
                # Other listings may wait for the same spec in a request of their own, and so may another reading
                # of these; none may pass for another.
                DISTINCT: ",".join([repr(fetched_at), *sorted(row[0] for row in waiting)]),
                STORE_KEY: key.text,
                "handle_httpstatus_list": [404],
                "verbatim_url": True,
            },
            priority=_SPEC_PRIORITY,
        )

    def _further_pages(self, read: PageRead, known: Plan | None, idle: int) -> Iterator[Request]:
        """The pages that this one calls for, and the one that follows it."""
        most = self._config.max_listings
        planned = known or plan(read, limit=self.limit, most=most)
        if known is None and read.total is not None:
            total = min(read.total, self.limit or read.total, most)
            self.crawler.stats.set_value("catalogue/total", total)
        idle = 0 if self._seen.brings_news(str(read.pass_number), read) else idle + 1
        if known is None or not idle:
            offsets = called_for(planned, read.pass_number, read.offset)
            for at in self._seen.not_queued(planned, read.pass_number, offsets):
                yield self.page_request(at, planned.stride, pass_number=read.pass_number, plan=planned)
        after = followed_by(planned, read, limit=self.limit, most=most)
        if after is not None and self._goes_on(read, idle):
            yield self.page_request(after, read.limit, pass_number=read.pass_number, plan=planned, idle=idle)

    def _further_start_page(self, page: ListingPage, search: str, idle: int) -> Iterator[Request]:
        """The page after one of a search that was pushed."""
        idle = 0 if self._seen.brings_news(search, page.read) else idle + 1
        beyond = page.read.offset + page.read.limit >= self._config.max_listings
        if page.next and not beyond and self._goes_on(page.read, idle):
            yield self._start_page(page.next, idle)

    def _goes_on(self, read: PageRead, idle: int) -> bool:
        """Whether a page is followed by the next; not when too many in a row have brought nothing new."""
        if idle < AHEAD:
            return True
        self.logger.warning(
            "No page is asked for after the one at offset %d: %d in a row have brought nothing new",
            read.offset,
            idle,
        )
        return False

    def _note_astray(self, page: ListingPage) -> None:
        """Count next pages that lead astray, and say so once."""
        if page.astray is None:
            return
        if not self.crawler.stats.get_value("pages/astray"):
            self.logger.warning(
                "The page at offset %d names a next one that leads astray, and that is not followed: %.200r",
                page.read.offset,
                page.astray,
            )
        self.crawler.stats.inc_value("pages/astray")

    def _now(self) -> float:
        return crawl_clock(self.crawler)()

    def _fetched_at(self, response: Response) -> float:
        """When it was fetched, as its page is kept with; now, where nobody has noted it."""
        fetched_at = response.meta.get(FETCHED_AT)
        return fetched_at if isinstance(fetched_at, float) else self._now()

    def _odd(self, key: str, deviations: Deviations) -> Iterator[OddSpec]:
        """What departs from the known shape in a specification, once for each."""
        if deviations and key not in self._odd_specs:
            self._odd_specs.add(key)
            yield OddSpec(key, deviations)


def _by_specs(listings: list[Listing]) -> Iterator[list[tuple[Listing, str]]]:
    """The listings in their order, with the keys of their specs, parted so that none has more than `LOOK_UP` specs."""
    part: list[tuple[Listing, str]] = []
    keys: set[str] = set()
    for listing in listings:
        key = SpecKey(listing.code, listing.year).text
        if len(keys) == LOOK_UP and key not in keys:
            yield part
            part, keys = [], set()
        keys.add(key)
        part.append((listing, key))
    if part:
        yield part


def _shares(rows: list[list[Any]]) -> Iterator[list[list[Any]]]:
    """The rows in their order, parted so that none but a single one is much larger than `_SHARE`."""
    share: list[list[Any]] = []
    weight = 0
    for row in rows:
        size = len(orjson.dumps(row))
        if share and weight + size > _SHARE:
            yield share
            share, weight = [], 0
        share.append(row)
        weight += size
    yield share


def _is_anonymous(settings: BaseSettings) -> bool:
    """Whether the live site is asked by somebody who does not say who they are."""
    host = urlsplit(Config.from_settings(settings).api_url).hostname or ""
    return f".{host}".endswith(_LIVE) and settings["USER_AGENT"] == USER_AGENT
