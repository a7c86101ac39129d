"""Whether records may go through the pipelines together: only where nobody asks for them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.extensions.corestats import CoreStats
from scrapy.pipelines import ItemPipelineManager

from carscraper.monitoring.logformatter import QuietLogFormatter
from scrapy_durable.engine import item_pipelines, item_processor, receivers, spider_middlewares

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_OURS = ("carscraper.", "scrapy_durable.")
_TAKE_THEM_AS_THEY_COME = (*_OURS, "scrapy.")
"""Scrapy's spider middlewares look at requests."""


class Together:
    """What a crawl has besides this project: a spider, an item processor, a pipeline, a middleware, a receiver of a
    signal, a feed, lines of a log.

    Each of them is given every record by itself, as Scrapy would have it. Receivers may come and go.
    """

    def __init__(self, crawler: Crawler) -> None:
        """Called when the spider is open."""
        self._crawler = crawler
        self._is_ours = (
            crawler.crawling
            and type(crawler.logformatter) is QuietLogFormatter
            and _module_of(crawler.spider).startswith(_OURS)
            and type(item_processor(crawler)) is ItemPipelineManager
            and all(_module_of(pipeline).startswith(_OURS) for pipeline in item_pipelines(crawler))
            and all(
                _module_of(middleware).startswith(_TAKE_THEM_AS_THEY_COME)
                for middleware in spider_middlewares(crawler)
            )
        )

    @property
    def may(self) -> bool:
        """True when nobody would miss records that come as one `Cars`."""
        return self._is_ours and not any(
            self._is_heard(signal)
            for signal in (signals.item_scraped, signals.item_error, signals.item_dropped)
        )

    def _is_heard(self, signal: object) -> bool:
        """Whether anybody hears of it who asks for each record: not Scrapy's stats, which `OncePipeline` sees to."""
        owners = (getattr(receiver, "__self__", receiver) for receiver in receivers(self._crawler, signal))
        return not all(isinstance(owner, CoreStats) or _takes_cars(owner, signal) for owner in owners)


def _takes_cars(owner: object, signal: object) -> bool:
    """Of what is ours: `takes_cars` says so, and what hears of failures alone looks at requests and the ledger."""
    is_of_failures = signal is not signals.item_scraped and _module_of(owner).startswith(_OURS)
    return is_of_failures or getattr(owner, "takes_cars", False) is True


def _module_of(component: object) -> str:
    return getattr(component, "__module__", type(component).__module__)
