"""Whether records may go through the pipelines together: only where nobody asks for them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.extensions.corestats import CoreStats

from carscraper.monitoring.logformatter import QuietLogFormatter
from scrapy_durable.engine import item_pipelines, receivers, spider_middlewares

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_OURS = ("carscraper.", "scrapy_durable.")
_TAKE_THEM_AS_THEY_COME = (*_OURS, "scrapy.")
"""Scrapy's spider middlewares look at requests."""


class Together:
    """What a crawl has besides this project: a pipeline, a middleware, a receiver of a signal, a feed, lines of a log.

    Each of them is given every record by itself, as Scrapy would have it. Receivers may come and go.
    """

    def __init__(self, crawler: Crawler) -> None:
        """Called when the spider is open."""
        self._crawler = crawler
        self._is_ours = (
            type(crawler.logformatter) is QuietLogFormatter
            and all(_module_of(pipeline).startswith(_OURS) for pipeline in item_pipelines(crawler))
            and all(
                _module_of(middleware).startswith(_TAKE_THEM_AS_THEY_COME)
                for middleware in spider_middlewares(crawler)
            )
        )

    @property
    def may(self) -> bool:
        """True when nobody would miss records that come as one `Cars`."""
        return self._is_ours and not (
            self._is_heard(signals.item_scraped)
            or self._is_heard(signals.item_error, *_OURS)
            or self._is_heard(signals.item_dropped, *_OURS)
        )

    def _is_heard(self, signal: object, *but_for: str) -> bool:
        """Whether anybody else than Scrapy's stats hears of it, which `OncePipeline` sees to, and those modules."""
        return any(
            not isinstance(owner := getattr(receiver, "__self__", receiver), CoreStats)
            and not (but_for and _module_of(owner).startswith(but_for))
            for receiver in receivers(self._crawler, signal)
        )


def _module_of(component: object) -> str:
    return getattr(component, "__module__", type(component).__module__)
