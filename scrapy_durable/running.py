"""A crawler run to its end, and its verdict as the exit status of the process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy_durable.exceptions import DurableError
from scrapy_durable.lifecycle import Lifecycle
from scrapy_durable.plain import show, show_plainly

if TYPE_CHECKING:
    from scrapy.crawler import Crawler, CrawlerProcessBase

logger = logging.getLogger(__name__)

_FEED_FAILED = "feedexport/failed_count/"
"""What the names of Scrapy's stats of feeds that could not be stored begin with."""
_arguments: WeakKeyDictionary[Crawler, Mapping[str, Any]] = WeakKeyDictionary()


def run(process: CrawlerProcessBase, crawler: Crawler, **arguments: Any) -> int:
    """Run the crawler, which gets the `arguments`, in a process that runs nothing else, and print how it ended.

    Returns what `exit_status` says; 1 when it could not start; 2 when it was refused at its start, which is one line of
    the log, without a traceback.
    """
    show_plainly(crawler.settings)
    _arguments[crawler] = arguments
    failed: list[BaseException] = []
    running: Any = process.crawl(crawler, **arguments)
    if hasattr(running, "addErrback"):
        running.addErrback(lambda failure: failed.append(failure.value))
    else:
        running.add_done_callback(lambda task: failed.extend(_error(task)))
    process.start()
    for error in failed:
        if refusal := _refusal(error):
            logger.critical("%s", refusal)
            return 2
        logger.critical("The crawl could not start", exc_info=error)
        return 1
    return 1 if process.bootstrap_failed else conclude(crawler)


def conclude(crawler: Crawler) -> int:
    """Print how a crawl has ended, where anybody knows, and return what `exit_status` says."""
    lifecycle = lifecycle_of(crawler)
    if lifecycle is not None:
        show(sys.stderr, "", *lifecycle.summary())
    return exit_status(crawler)


def exit_status(crawler: Crawler) -> int:
    """0: nothing is lost, or there is nobody who knows. 1: something is, the crawl has not come to its end, or a feed
    could not be stored.
    """
    lifecycle = lifecycle_of(crawler)
    if lifecycle is None:
        return 0
    if any(name.startswith(_FEED_FAILED) for name in crawler.stats.get_stats()):
        return 1
    return 0 if lifecycle.is_complete else 1


def arguments_of(crawler: Crawler) -> Mapping[str, Any]:
    """What the spider was given; nothing where somebody else than `run` runs it."""
    return _arguments.get(crawler, {})


def lifecycle_of(crawler: Crawler) -> Lifecycle[Any] | None:
    """Whoever ends the crawl, and has its `verdict`; None where nobody does."""
    lifecycle = crawler.get_extension(Lifecycle)  # type: ignore[type-abstract]
    return lifecycle if lifecycle is not None and lifecycle.is_at_work else None


def _refusal(error: BaseException) -> DurableError | None:
    """Why the start was refused, also where Scrapy has failed over it: it closes an engine that has not opened yet."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, DurableError):
        found = found.__context__
    return found


def _error(task: Any) -> list[BaseException]:
    error = None if task.cancelled() else task.exception()
    return [] if error is None else [error]
