"""A crawl that stops before its end: nothing more is asked of the site from then on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy_durable import engine

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_stopping: WeakKeyDictionary[Crawler, asyncio.Task[None]] = WeakKeyDictionary()
_reasons: WeakKeyDictionary[Crawler, str] = WeakKeyDictionary()


def stop_crawl(crawler: Crawler, reason: str, why: str) -> None:
    """Close the spider with the finish reason `reason`, and say `why`, once; later calls change nothing.

    What is in flight ends by itself; what waits in the downloader is not sent any more, but released to
    the frontier, so that a crawl that can be resumed lacks nothing.
    """
    if crawler not in _stopping:
        logger.critical("Stopping the crawl (%s): %s", reason, why)
        _reasons[crawler] = f"stopped ({reason}): {why}"
        closing = crawler.engine.close_spider_async(reason=reason)
        _stopping[crawler] = asyncio.get_running_loop().create_task(closing)


def why_stopped(crawler: Crawler) -> str | None:
    """What `stop_crawl` was told, as a reason for a verdict; None when it was not called."""
    return _reasons.get(crawler)


def is_stopping(crawler: Crawler) -> bool:
    """True once `stop_crawl` was called, or a signal or Scrapy itself has asked the spider to close."""
    return crawler in _stopping or engine.is_closing(crawler)
