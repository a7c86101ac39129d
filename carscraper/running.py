"""A crawler run to its end, and its verdict as the exit status of the process."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.misc import load_object

from carscraper.config import Config
from carscraper.feeds import Feeds
from carscraper.monitoring.completeness import Completeness
from carscraper.monitoring.summary import summary
from carscraper.searches import search_of
from scrapy_durable.exceptions import DurableError
from scrapy_durable.plain import show, show_plainly

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import Settings

    from carscraper.monitoring.verdict import Verdict

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
    """Run the crawler, which gets the `arguments`, and print the verdict that its `Completeness` has reached.

    Returns 0: complete, or there is nobody who says whether it is. 1: it is not, it was stopped or failed, or a feed
    did. 2: refused at start.
    """
    # Thousands of records are alive at a time, and hardly any is part of a cycle: looking for cycles as
    # often as Python does by default takes a fifth of a crawl.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    failed: list[int] = []
    running = process.crawl(crawler, **arguments)
    running.add_done_callback(lambda task: failed.append(_failure(task)))
    process.start()
    if any(failed):
        return max(failed)
    if process.bootstrap_failed:
        return 1
    books = crawler.get_extension(Completeness)
    if books is None:
        return 0
    verdict = books.verdict
    if books.failure is not None:
        said = [f"NOT COMPLETE: the crawl could not be finished: {books.failure}"]
    elif verdict is None:
        said = ["ended before there was a verdict; run the same command again"]
    else:
        said = summary(verdict) + _of_search(crawler, verdict)
    show(sys.stderr, "", *said)
    feeds = crawler.get_extension(Feeds)
    if feeds is not None and feeds.failed:
        show(sys.stderr, "a feed is not complete; see the log")
        return 1
    return 0 if verdict is not None and verdict.complete and books.failure is None else 1


def _of_search(crawler: Crawler, verdict: Verdict) -> list[str]:
    """What is to be said of a search, for people: that it found nothing, and where its records are."""
    search = search_of(crawler.spider)
    if search.reads_all:
        return []
    directory = search.directory(Config.from_settings(crawler.settings).output_dir)
    nothing = [f"no listing matches {search.words}"] if verdict.complete and not verdict.kept else []
    return [*nothing, f"this search is in {directory}; the whole catalogue is left as it was"]


def _failure(running: asyncio.Task[Any]) -> int:
    """The exit status that a crawl ends with at its start; one that was refused gets one line, no traceback."""
    error = None if running.cancelled() else running.exception()
    if isinstance(error, DurableError):
        logger.critical("%s", error)
        return 2
    if error is not None:
        logger.critical("The crawl could not start", exc_info=error)
        return 1
    return 0
