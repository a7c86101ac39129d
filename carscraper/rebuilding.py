"""A crawl built again from the response store: the same records through the same pipelines, and nothing asked."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DropItem

from carscraper.api.endpoints import SpecKey
from carscraper.api.leave_out import leave_out
from carscraper.api.search_page import Listing
from carscraper.config import Config
from carscraper.core_settings import set_core_settings, stored_responses, with_core_settings
from carscraper.exceptions import ApiError
from carscraper.items import Car, OddSpec, SpecGroups
from carscraper.monitoring.schema_contract import SchemaContract
from carscraper.monitoring.verdict import GivenUp
from carscraper.pages import ListingPage, Walks, read_page, read_specs, time_text
from carscraper.responses.pages import PageName
from carscraper.searches import Search
from carscraper.spiders.cars import LOOK_UP, CarsSpider
from scrapy_durable.engine import process_item_alone
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.identity import CrawlClock, CrawlIdentity, new_crawl_id, new_worker_name
from scrapy_durable.stopping import is_stopping

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_durable.responses.contract import ResponseStore, StoredResponse

logger = logging.getLogger(__name__)

SETTINGS: dict[str, Any] = {
    "SCHEDULER": "carscraper.rebuilding.NothingToAsk",
    "JOBDIR": None,
    "DOWNLOAD_HANDLERS": {},
    "DOWNLOAD_HANDLERS_BASE": {},
    "DOWNLOADER_MIDDLEWARES": {},
    "DOWNLOADER_MIDDLEWARES_BASE": {},
    "SPIDER_MIDDLEWARES": {},
    "SPIDER_MIDDLEWARES_BASE": {},
    "EXTENSIONS": {
        "carscraper.monitoring.progress.Progress": 100,
        "carscraper.monitoring.rebuilt.RebuiltBooks": 200,
        "carscraper.monitoring.schema_contract.SchemaContract": 310,
    },
    "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0, "scrapy.extensions.logcount.LogCount": 0},
}
"""What is wired otherwise than for a crawl: nothing that could ask the site, nothing of a crawl that goes on."""


@dataclass(frozen=True, slots=True)
class StoredPages:
    """What is kept of one crawl."""

    crawl_id: str
    names: list[PageName]
    """At least one; by sweep, then by offset."""
    bytes: int

    @property
    def arguments(self) -> dict[str, str]:
        """What the crawl was asked to read."""
        return self.names[-1].arguments

    @property
    def origin(self) -> str:
        """Address of the API that it asked; empty when an earlier release kept the pages."""
        return self.names[-1].origin

    @property
    def identity(self) -> str:
        """What it is of, for people."""
        words = Search.from_arguments(self.arguments).words or "everything"
        return f"{self.origin} {words}".lstrip()

    @property
    def listings(self) -> int:
        """How many listings there were when its last sweep began, or were asked for; 0 when the API did not say."""
        last = self.names[-1].sweep
        total = next((name.total for name in self.names if name.sweep == last and name.total is not None), 0)
        limit = Search.from_arguments(self.arguments).limit
        return min(total, limit or total)

    @property
    def first(self) -> float:
        """When its first page was fetched, in seconds since the epoch."""
        return min(name.fetched_at for name in self.names)

    @property
    def last(self) -> float:
        """When its last page was."""
        return max(name.fetched_at for name in self.names)


class NothingToAsk(BaseScheduler):
    """A scheduler that has no requests and takes none."""

    def __init__(self) -> None:
        self.identity = CrawlIdentity(new_crawl_id(CrawlClock()()), new_worker_name(), resumable=False)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls()

    def has_pending_requests(self) -> bool:
        """Never."""
        return False

    def enqueue_request(self, request: Request) -> bool:
        """Refuse it."""
        logger.error("Refused %s: nothing is asked while a crawl is built again", request)
        return False

    def next_request(self) -> Request | None:
        """Never one."""
        return None


class Rebuilding(Spider):
    """Feeds the records of a stored crawl to the pipelines, without Scrapy's machinery around each of them.

    It needs nothing but the response store, and is told which `pages` are there. What it found
    amiss is there afterwards, for the verdict: `absent` pages, and those that are no answers any more, `refused`.
    """

    name = CarsSpider.name
    reads_all = False
    """That a listing is not in what is kept of a crawl does not say that it is off the site."""

    def __init__(self, pages: StoredPages) -> None:
        """Raises `ConfigurationError` when the crawl was asked for what this release does not know."""
        super().__init__()
        self.crawl_id = pages.crawl_id
        self.arguments = pages.arguments
        self.search = Search.from_arguments(self.arguments)
        self.limit = self.search.limit
        self.absent: list[str] = []
        self.refused: list[GivenUp] = []
        self.finished = False
        """True once every page was fed; False when it was stopped before."""
        self._origin = pages.origin
        self._listings = pages.listings
        self._specs: _StoredSpecs | None = None
        self._names = {name.text: name for name in pages.names}

    @property
    def is_whole_catalogue(self) -> bool:
        """Whether the crawl was asked to read everything, that day."""
        return self.search.reads_all

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Nothing is acknowledged, so batches may be large; what there is goes to the disk at once, beside."""
        super().update_settings(settings)
        set_core_settings(settings)
        settings.setdict({"CARS_BATCH_SIZE": 1000, "CARS_BATCH_SECONDS": 0.05}, priority="spider")

    async def start(self) -> AsyncIterator[Any]:
        """Feeds everything; yields nothing."""
        store = stored_responses(self.crawler.settings, spider=self.name, namespace=self._origin)
        await store.open()
        try:
            await self._feed(store)
        finally:
            await store.close()
        return
        yield

    async def _feed(self, store: ResponseStore) -> None:
        self.crawler.stats.set_value("catalogue/total", self._listings)
        most = Config.from_settings(self.crawler.settings).max_listings
        specs, walks = _StoredSpecs(store), Walks(limit=self.limit, most=most)
        self._specs = specs
        unread, no_answers = dict(self._names), list[str]()
        async for stored in store.iterate(self.crawl_id):
            if is_stopping(self.crawler):
                return
            name = unread.pop(stored.key, None) or PageName.parse(stored.key)
            try:
                page = self._page(stored, name.sweep)
            except ApiError as error:
                self.refused.append(GivenUp(stored.url, f"no answer: {error}"))
                no_answers.append(_in_words(name))
                continue
            walks.add(page, stored.url)
            cars = await specs.merge(page.listings, stored)
            await self._process([*cars, *page.set_aside, page.read])
            await asyncio.sleep(0)  # so that what is waiting to be written can be
        absent = [*map(_in_words, unread.values()), *walks.absent()]
        self.absent = [page for page in dict.fromkeys(absent) if page not in no_answers]
        self.finished = True

    def _page(self, stored: StoredResponse, sweep: int) -> ListingPage:
        """A page without what shall not be kept, if that was decided on after it had been. Raises `ApiError`."""
        patterns = Config.from_settings(self.crawler.settings).leave_out
        body = leave_out(stored.body, patterns) if patterns else stored.body
        return read_page(body, stored.url, sweep=sweep, limit=self.limit, left_out=patterns)

    def without_specs(self) -> list[GivenUp]:
        """The specifications that the listings lack."""
        absent = self._specs.absent.items() if self._specs else ()
        return [
            GivenUp(one.url, one.reason, tuple(one.listings), "specification", key, one.other_shape)
            for key, one in absent
        ]

    async def _process(self, items: Iterable[Any]) -> None:
        """Hand the items to the pipelines, one after the other; what they drop is counted."""
        contract = self.crawler.get_extension(SchemaContract)
        passed = dropped = 0
        for item in items:
            try:
                await process_item_alone(self.crawler, item)
                passed += 1
            except DropItem:
                dropped += isinstance(item, Car)
                if contract is not None:
                    contract.look_at(item)
        self.crawler.stats.inc_value("item_scraped_count", passed)
        if dropped:
            self.crawler.stats.inc_value("item_dropped_count", dropped)


def _in_words(name: PageName) -> str:
    """A page as `Walks.absent` names it."""
    return f"sweep {name.sweep}, offset {name.offset}"


class _StoredSpecs:
    """The specifications of a crawl, each read once however many listings share it."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._found: dict[tuple[str, int], SpecGroups | None] = {}
        """By code and year; None for what is among `absent`."""
        self.absent: dict[str, _AbsentSpec] = {}
        """Specifications that cannot be had, by `code/year`."""
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        """Label and value, names first, to a row of nothing else."""

    async def merge(self, listings: list[Listing], page: StoredResponse) -> list[Car | OddSpec]:
        """The cars of a page, and those of their specifications that depart from the known shape, each once."""
        wanted = dict.fromkeys((listing.code, listing.year) for listing in listings)
        new = [key for key in wanted if key not in self._found]
        odd = []
        for start in range(0, len(new), LOOK_UP):
            odd += await self._look_up(new[start : start + LOOK_UP])
        scraped_at = time_text(page.fetched_at)
        cars = []
        for listing in listings:
            found = self._found[listing.code, listing.year]
            if found is None:
                self.absent[SpecKey(listing.code, listing.year).text].listings[listing.id] = None
            cars.append(Car(listing.id, listing.url, scraped_at, listing.attributes, found))
        return [*cars, *odd]

    async def _look_up(self, keys: list[tuple[str, int]]) -> list[OddSpec]:
        texts = {key: SpecKey(*key).text for key in keys}
        stored = await self._store.get_many(list(texts.values()), math.inf)
        odd = []
        for key, text in texts.items():
            self._found[key] = None
            answer = stored.get(text)
            if answer is None:
                self.absent[text] = _AbsentSpec("", "its specification is not in the response store")
                continue
            try:
                groups, deviations = read_specs(answer.status, answer.body)
            except ApiError as error:
                self.absent[text] = _AbsentSpec(
                    answer.url, f"no answer: {error}", other_shape=bool(error.path)
                )
                continue
            self._found[key] = self._small(groups)
            if deviations:
                odd.append(OddSpec(text, deviations))
        return odd

    def _small(self, groups: SpecGroups) -> SpecGroups:
        """The same, with rows that other specifications have too held once: a catalogue's take up 300 MB otherwise."""
        same = self._rows.setdefault
        for group in groups:
            if type(group) is dict and type(attrs := group.get("attrs")) is list:
                group["attrs"] = [
                    same((*row, *row.values()), row) if _is_plain(row) else row for row in attrs
                ]
        return groups


@dataclass(slots=True)
class _AbsentSpec:
    """A specification that cannot be had from the response store."""

    url: str
    reason: str
    other_shape: bool = False
    listings: dict[str, None] = field(default_factory=dict)
    """Ids of the listings that have it."""


def _is_plain(row: object) -> bool:
    """Whether a row holds a label and a value and nothing else, both text: so that no two equal ones differ."""
    return type(row) is dict and len(row) == 2 and all(type(part) is str for part in row.values())


def rebuilding(crawler: Crawler) -> Rebuilding:
    """The spider of a crawler that builds a crawl again."""
    return cast("Rebuilding", crawler.spider)


async def stored_pages(settings: BaseSettings) -> tuple[list[StoredPages], int]:
    """The crawls that are kept, the oldest first, and the bytes of the whole store.

    Raises `ConfigurationError` or `ForeignFile` when the store cannot be used, or holds what is no page.
    """
    store = stored_responses(with_core_settings(settings), spider=Rebuilding.name)
    try:
        await store.open()
        if why := await store.unreadable():
            raise ConfigurationError(f"REDIS_URL: the response store {why}")
        crawls = await store.crawls()
        found = [
            StoredPages(crawl.crawl_id, [PageName.parse(key) for key in crawl.keys], crawl.bytes)
            for crawl in crawls
        ]
        # By time, as the store goes when it has no room: the names of crawls that began in one second have no order.
        found.sort(key=lambda pages: max((name.fetched_at for name in pages.names), default=0.0))
        return found, await store.size()
    except ValueError as error:
        raise ConfigurationError(
            f"the response store holds what this release does not know: {error}"
        ) from error
    finally:
        await store.close()
