"""A stored crawl reparsed: the same records through the same pipelines, and nothing asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, cast

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DropItem

from carscraper.api.leave_out import leave_out
from carscraper.catalogue.pages import ListingPage, Walks, read_page
from carscraper.catalogue.searches import Search
from carscraper.config import Config
from carscraper.core_settings import set_core_settings, stored_responses
from carscraper.exceptions import ApiError
from carscraper.items import Car
from carscraper.monitoring.schema_contract import SchemaContract
from carscraper.monitoring.verdict import GivenUp
from carscraper.reparse.specs import StoredSpecs
from carscraper.responses.pages import PageName
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.engine import process_item_alone
from scrapy_durable.identity import CrawlClock, CrawlIdentity, new_crawl_id, new_worker_name
from scrapy_durable.stopping import is_stopping

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from carscraper.reparse.stored import StoredPages
    from scrapy_durable.responses.contract import ResponseStore, StoredResponse

logger = logging.getLogger(__name__)

SETTINGS: dict[str, Any] = {
    "SCHEDULER": "carscraper.reparse.spider.NothingToAsk",
    "JOBDIR": None,
    "DOWNLOAD_HANDLERS": {},
    "DOWNLOAD_HANDLERS_BASE": {},
    "DOWNLOADER_MIDDLEWARES": {},
    "DOWNLOADER_MIDDLEWARES_BASE": {},
    "SPIDER_MIDDLEWARES": {},
    "SPIDER_MIDDLEWARES_BASE": {},
    "EXTENSIONS": {
        "carscraper.monitoring.progress.Progress": 100,
        "carscraper.reparse.completeness.ReparseCompleteness": 200,
        "carscraper.monitoring.schema_contract.SchemaContract": 310,
    },
    "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0, "scrapy.extensions.logcount.LogCount": 0},
}
"""What is wired otherwise than for a crawl: nothing that could ask the site, nothing of a crawl that goes on."""


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
        logger.error("Refused %s: a reparse asks the site for nothing", request)
        return False

    def next_request(self) -> Request | None:
        """Never one."""
        return None


class ReparseSpider(Spider):
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
        self._specs: StoredSpecs | None = None
        self._names = {name.text: name for name in pages.names}

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
        specs, walks = StoredSpecs(store), Walks(limit=self.limit, most=most)
        self._specs = specs
        unread, no_answers = dict(self._names), list[str]()
        async for stored in store.iterate(self.crawl_id):
            if is_stopping(self.crawler):
                return
            name = unread.pop(stored.key, None) or PageName.parse(stored.key)
            try:
                page = self._page(stored, name.pass_number)
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

    def _page(self, stored: StoredResponse, pass_number: int) -> ListingPage:
        """A page without what shall not be kept, if that was decided on after it had been. Raises `ApiError`."""
        patterns = Config.from_settings(self.crawler.settings).leave_out
        body = leave_out(stored.body, patterns) if patterns else stored.body
        return read_page(body, stored.url, pass_number=pass_number, limit=self.limit, left_out=patterns)

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
    return f"pass {name.pass_number}, offset {name.offset}"


def reparse_spider(crawler: Crawler) -> ReparseSpider:
    """The spider of a crawler that reparses a crawl."""
    return cast("ReparseSpider", crawler.spider)
