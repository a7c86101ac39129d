"""A crawler run to its end, and its verdict as the exit status of the process."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.misc import load_object

from carscraper.export.feeds import Feeds
from scrapy_durable.plain import show, show_plainly
from scrapy_durable.running import run

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import Settings


logger = logging.getLogger(__name__)


def crawler_process(settings: Settings) -> AsyncCrawlerProcess:
    """Scrapy's process for crawls, on the one event loop that the settings name.

    Scrapy alone makes asyncio's own loop first and drops it open when another is wanted, of which Python may complain
    on stderr, at a time of its choice.
    """
    show_plainly(settings)
    if name := settings["ASYNCIO_EVENT_LOOP"]:
        asyncio.set_event_loop(load_object(name)())
    return AsyncCrawlerProcess(settings)


def run_to_verdict(process: AsyncCrawlerProcess, crawler: Crawler, **arguments: Any) -> int:
    """Run the crawler, which gets the `arguments`, and print the verdict that was reached.

    Returns 0: complete, or there is nobody who says whether it is. 1: it is not, it was stopped or failed, or a feed
    did. 2: refused at start.
    """
    # Thousands of records are alive at a time, and hardly any is part of a cycle: looking for cycles as
    # often as Python does by default takes a fifth of a crawl.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    status = run(process, crawler, **arguments)
    feeds = crawler.get_extension(Feeds) if status < 2 else None
    if feeds is not None and feeds.failed:
        show(sys.stderr, "a feed is not complete; see the log")
        return 1
    return status
