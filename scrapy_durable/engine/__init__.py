"""What Scrapy keeps to itself, touched here and nowhere else; holds for Scrapy 2.16 to 2.19.

A next release of Scrapy can break this package and nothing else. What a function needs of it stands in its docstring.
`handler.py` and `feeds.py` stand apart, since not everybody needs aiohttp or feeds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Container, Iterator, Set
from typing import TYPE_CHECKING, Any, cast

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy.core.scheduler import Scheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.spiders import CrawlSpider
from scrapy.utils.defer import _schedule_coro
from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.scheduler import BaseScheduler
    from scrapy.crawler import Crawler

_COMMANDS = "scrapy.commands."


def wake(crawler: Crawler) -> None:
    """Let the engine ask the scheduler at once; it would within five seconds.

    `engine._slot.nextcall.schedule()`; `engine._slot` is None before the spider is opened and after it was closed.
    """
    slot = getattr(crawler.engine, "_slot", None)
    if crawler.engine.running and slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def scheduler_of(crawler: Crawler) -> BaseScheduler | None:
    """The scheduler that runs; None before the spider is opened, and after it was closed. `engine.scheduler` is there
    since Scrapy 2.19; before, it is `engine._slot.scheduler`.
    """
    if hasattr(crawler.engine, "scheduler"):
        return crawler.engine.scheduler
    slot = getattr(crawler.engine, "_slot", None)
    return slot.scheduler if slot is not None else None


def finish_before_closing(
    crawler: Crawler, finish: Callable[[], Awaitable[bool]], *, is_over: Callable[[], bool]
) -> None:
    """Await `finish` when the engine would close the spider because it is idle, and close it when that is True.

    A receiver of `spider_idle` may keep the spider open by `DontCloseSpider`, or give a reason to close it for: both
    hold as in Scrapy. None is asked while `finish` runs, nor when `is_over`: then the spider is closed all the same.

    `engine._spider_idle` sends the signal, and calls `engine.close_spider_async(reason=…)` when nobody minds; both are
    replaced on the engine itself.
    """
    engine: Any = crawler.engine
    ask, close = engine._spider_idle, engine.close_spider_async
    is_finishing = False

    async def finish_and_close(*, reason: str) -> None:
        nonlocal is_finishing
        is_finishing = True
        try:
            may_close = await finish()
        finally:
            is_finishing = False
        if not may_close:
            wake(crawler)
        elif not is_closing(crawler):
            await close(reason=reason)

    def spider_idle() -> None:
        if is_finishing:
            return
        engine.close_spider_async = finish_and_close
        try:
            if is_over():
                _schedule_coro(engine.close_spider_async(reason="finished"))
            else:
                ask()
        finally:
            engine.close_spider_async = close

    engine._spider_idle = spider_idle


def is_closing(crawler: Crawler) -> bool:
    """True once the spider is being closed, whoever has asked for it. `engine._slot.closing` is a Deferred then."""
    slot = getattr(crawler.engine, "_slot", None)
    return slot is not None and slot.closing is not None


def downloading(crawler: Crawler) -> Set[Request]:
    """The requests that the downloader has, its middlewares included. `engine.downloader.active` is a set."""
    return crawler.engine.downloader.active


def in_progress(crawler: Crawler) -> Container[Request]:
    """The requests that the engine has not done with: those that the downloader has, those whose answers the spider and
    the item pipelines have, and those on their way between. `engine._slot.inprogress` is a set.
    """
    slot = getattr(crawler.engine, "_slot", None)
    return slot.inprogress if slot is not None else ()


def items_at_work(crawler: Crawler) -> int:
    """How many items the item pipelines have. `engine.scraper.slot.itemproc_size`; the slot is None before the spider
    is opened.
    """
    slot = crawler.engine.scraper.slot
    return slot.itemproc_size if slot else 0


def item_processor(crawler: Crawler) -> object:
    """What `ITEM_PROCESSOR` has made. `engine.scraper.itemproc`."""
    return crawler.engine.scraper.itemproc


def item_pipelines(crawler: Crawler) -> Collection[Any]:
    """The item pipelines, in their order. `engine.scraper.itemproc.middlewares` is a tuple; an `ITEM_PROCESSOR` of the
    project's own need not have it.
    """
    return getattr(crawler.engine.scraper.itemproc, "middlewares", ())


def extensions(crawler: Crawler) -> Collection[Any]:
    """The extensions, in their order. `crawler.extensions.middlewares` is a tuple."""
    return getattr(crawler.extensions, "middlewares", ())


def downloader_middlewares(crawler: Crawler) -> Collection[Any]:
    """The downloader middlewares, in their order. `engine.downloader.middleware.middlewares` is a tuple; a `DOWNLOADER`
    of the project's own need not have it.
    """
    return getattr(getattr(crawler.engine.downloader, "middleware", None), "middlewares", ())


def spider_middlewares(crawler: Crawler) -> Collection[Any]:
    """The spider middlewares, in their order. `engine.scraper.spidermw.middlewares` is a tuple."""
    return getattr(crawler.engine.scraper.spidermw, "middlewares", ())


def receivers(crawler: Crawler, signal: object) -> Iterator[Callable[..., Any]]:
    """Who hears of a signal, as `crawler.signals` would call them."""
    yield from liveReceivers(getAllReceivers(crawler.signals.sender, signal))


async def process_item_alone(crawler: Crawler, item: Any) -> Any:
    """Send an item through the item pipelines, without a signal; returns what the last of them has made of it.

    `engine.scraper.itemproc.process_item_async`. Raises `DropItem`, and whatever a pipeline raises.
    """
    return await crawler.engine.scraper.itemproc.process_item_async(item)


async def process_item(crawler: Crawler, item: Any) -> None:
    """Send an item that came from no response through the item pipelines, and have its signals sent.

    `engine.scraper.start_itemproc_async` is what the engine calls for the items of `start()`.
    """
    await crawler.engine.scraper.start_itemproc_async(item, response=None)


def has_errback(crawler: Crawler, request: Request) -> bool:
    """Whether an errback of the project hears of the request's failure.

    `CrawlSpider._errback`, which each request of a rule has, only calls the errback of its rule, where there is one.
    `spider._rules` are the compiled rules, by the index in `meta["rule"]`.
    """
    if getattr(request.errback, "__func__", None) is not CrawlSpider._errback:
        return request.errback is not None
    try:
        return bool(cast("Any", crawler.spider)._rules[request.meta["rule"]].errback)
    except (LookupError, TypeError):  # no index of a rule: the errback would fail
        return False


def site_of(crawler: Crawler, request: Request) -> str:
    """The downloader's slot of a request: `meta["download_slot"]`, or its host."""
    return crawler.engine.downloader.get_slot_key(request)


def space_out(crawler: Crawler, site: str, seconds: float) -> None:
    """Have the downloader wait so long between two requests of a site, and not longer by chance: what is leased one by
    one at such intervals would gather there. `engine.downloader.slots` is a dictionary; what is `slot.jitter` was
    `slot.randomize_delay` before Scrapy 2.19.
    """
    slot = crawler.engine.downloader.slots.get(site)
    if slot is not None:
        slot.delay = seconds
        if hasattr(slot, "jitter"):
            slot.jitter = 0.0
        else:
            slot.randomize_delay = False


def refuse_to_open(crawler: Crawler) -> None:
    """To be called where `open` of the scheduler raises: else the engine closes a spider that it has not opened, which
    ends in tracebacks. `engine.spider` is set before the scheduler is opened.
    """
    crawler.engine.spider = None


def is_at_a_command(crawler: Crawler) -> bool:
    """True in `scrapy fetch`, `shell`, `parse`, `check` and `bench`, which put their own requests in a spider's place.

    The shell runs an engine without a crawl, so that `crawler.crawling` stays False; each of the others gives the
    spider's class a `start` of its own.
    """
    start = getattr(crawler.spidercls, "start", None)
    return not crawler.crawling or str(getattr(start, "__module__", "")).startswith(_COMMANDS)


def private_scheduler(crawler: Crawler) -> Scheduler:
    """Scrapy's own scheduler in memory, whatever is set: it hands back the identical requests."""
    settings = crawler.settings
    return Scheduler(
        RFPDupeFilter(fingerprinter=crawler.request_fingerprinter),
        mqclass=load_object(settings["SCHEDULER_MEMORY_QUEUE"]),
        pqclass=load_object(settings["SCHEDULER_PRIORITY_QUEUE"]),
        stats=crawler.stats,
        crawler=crawler,
    )
