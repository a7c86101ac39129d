"""What is kept of crawls in the response store: which of them `scrapy reparse` can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carscraper.catalogue.searches import Search
from carscraper.core_settings import stored_responses, with_core_settings
from carscraper.responses.pages import PageName
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


@dataclass(frozen=True, slots=True)
class StoredPages:
    """What is kept of one crawl."""

    crawl_id: str
    names: list[PageName]
    """At least one; by pass, then by offset."""
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
        """How many listings there were when its last pass began, or were asked for; 0 when the API did not say."""
        last = self.names[-1].pass_number
        total = next(
            (name.total for name in self.names if name.pass_number == last and name.total is not None), 0
        )
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


async def stored_pages(settings: BaseSettings) -> tuple[list[StoredPages], int]:
    """The crawls that are kept, the oldest first, and the bytes of the whole store.

    Raises `ConfigurationError` or `ForeignFile` when the store cannot be used, or holds what is no page.
    """
    store = stored_responses(with_core_settings(settings), spider=CarsSpider.name)
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
