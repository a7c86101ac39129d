"""The end of a crawl: another sweep if listings may have slipped past, else the verdict, and what is published."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

import orjson
from scrapy import signals
from scrapy.exceptions import DontCloseSpider

from carscraper.archive import Archive, Kept
from carscraper.config import Config
from carscraper.items import OddSpec, PageRead, SetAside
from carscraper.monitoring import dead_letters
from carscraper.monitoring.published import read_verdict, write_verdict
from carscraper.monitoring.schema_contract import FREEZE
from carscraper.monitoring.verdict import (
    GivenUp,
    Reading,
    Verdict,
    believable,
    cut_short,
    delivered,
    going_on,
    needs_another_sweep,
    reach_verdict,
)
from carscraper.pipelines.json_batches import JsonBatchesPipeline
from scrapy_durable.crawl_numbers import crawl_numbers, others_live
from scrapy_durable.exceptions import FrontierLost, FrontierUnavailable, cause
from scrapy_durable.identity import begin_time, crawl_clock
from scrapy_durable.plain import plain_json
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler
from scrapy_durable.stopping import is_stopping, why_stopped
from scrapy_durable.stores import durable_stores, remote_stores
from scrapy_durable.waiting import Spooled, as_seen_here, numbers, waiting_elsewhere

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.spiders.cars import CarsSpider
    from scrapy_durable.frontier.contract import Status

logger = logging.getLogger(__name__)

_LISTED = 1000
"""How many missing ids, listings set aside and requests given up `run.json` names at most, of each."""
_BY_SIGNAL = "shutdown"
"""Scrapy's finish reason of a crawl that a signal has stopped."""
_POLL = 0.3
"""Seconds between two looks for the verdict of the worker that closes the books."""


class Completeness:
    """Holds the crawl open until its books are closed, and says whether anything is missing.

    When the frontier is empty for all workers, one of them claims the end: it reads the ledger, and either
    sends the spider over all pages again or writes what is published and leaves the verdict for the others, who
    wait for it. The crawl is then forgotten by the frontier, so that the next run starts afresh; one
    with dead letters is not, so that `scrapy queue retry-dead` and another run can complete it.

    `cars.json` is replaced by a complete catalogue only, and one that has not collapsed; what any other run has lies
    beside it, as `cars.incomplete.json`. Whatever fails on the way ends the crawl in one line, `failure`.

    `verdict` is there once the crawl has ended; the exit status hangs on both. Stats: `verdict/complete`,
    `verdict/kept`, `verdict/expected`, `verdict/missing`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._config = Config.from_settings(crawler.settings)
        self._closing_books: asyncio.Task[None] | None = None
        self._closed_books = False
        self._writing = False
        """True from when nothing is waited for any more: then the files are written, whoever stops the process."""
        self.verdict: Verdict | None = None
        self.failure: str | None = None
        """What failed while the crawl was finished, on one line."""
        self._requests = 0
        """Made by all workers of the crawl; 0 before that was looked up."""
        self._dead_letters = 0
        """Of a crawl that was stopped: the frontier's count, where not all of them are at hand."""
        crawler.signals.connect(self._on_idle, signals.spider_idle)
        crawler.signals.connect(self._on_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    # While the crawl runs

    def _on_idle(self) -> None:
        if self._closed_books or self.failure:
            return
        if self._closing_books is None or self._closing_books.done():
            self._closing_books = asyncio.create_task(self._guarded(self._close_books()))
        raise DontCloseSpider

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a part of the finish. Whatever it raises ends here: in one line, and in the end of the crawl."""
        try:
            await work
        except Exception as error:
            self.failure = cause(error)
            logger.critical("The crawl cannot be finished: %s", self.failure)
            logger.debug("It failed here", exc_info=error)
            self._crawler.stats.set_value("verdict/complete", False)
            if not is_stopping(self._crawler):
                self._stopping = asyncio.create_task(
                    self._crawler.engine.close_spider_async(reason="finish_failed")
                )

    async def _close_books(self) -> None:
        """Have the books closed, by this worker or another, or have the crawl go on."""
        scheduler = frontier_scheduler(self._crawler)
        try:
            await self._wait_for_databases()
            if scheduler is None:
                await self._close_books_alone()
            elif await self._claims_end(scheduler):
                await self._close_books_for_all(scheduler)
            elif (published := await scheduler.frontier.verdict()) is not None:
                verdict = await self._borne_out(read_verdict(published))
                self._adopt(delivered(verdict, self._undelivered()) if verdict.complete else verdict)
            else:
                await asyncio.sleep(_POLL)
        except (FrontierUnavailable, FrontierLost) as error:
            logger.warning("Cannot close the books yet: %s", error)
            await asyncio.sleep(_POLL)
        if (slot := getattr(self._crawler.engine, "_slot", None)) is not None:
            slot.nextcall.schedule()

    async def _claims_end(self, scheduler: FrontierScheduler) -> bool:
        try:
            return await scheduler.frontier.claim_end()
        except FrontierLost:
            return False  # forgotten by the worker that has closed the books; its verdict stays a while

    async def _close_books_alone(self) -> None:
        """Under a scheduler that knows of no stores: wait for what they still hold, then close the books."""
        while not all(store.durable >= store.received for store in durable_stores(self._crawler)):
            await asyncio.sleep(_POLL / 10)
        reading = await asyncio.to_thread(self._read_ledger)
        if not self._sweep_again(reading):
            await self._finish(reading, [], unfinished=0)

    async def _borne_out(self, verdict: Verdict) -> Verdict:
        """Another worker's verdict, when what lies in the output directory agrees: whoever can write to Redis can
        publish one.
        """
        if not verdict.complete:
            return verdict
        reading = await asyncio.to_thread(self._read_ledger)
        kept = await asyncio.to_thread(self._archive.kept)
        own = self._judge(reading, kept, [], unfinished=0)
        if own.complete and own.kept == verdict.kept:
            return verdict
        doubt = (
            f"another worker's verdict says that {verdict.kept} listings were kept, and {own.kept} are in "
            f"{self._archive.directory}"
        )
        return replace(verdict, complete=False, catalogue_complete=False, reasons=[doubt, *own.reasons])

    async def _close_books_for_all(self, scheduler: FrontierScheduler) -> None:
        reading = await asyncio.to_thread(self._read_ledger)
        if self._sweep_again(reading):
            return
        workers = await scheduler.frontier.workers()
        self._requests = crawl_numbers(workers, scheduler.worker, scheduler.own_numbers).requests
        given_up = await dead_letters.settle(self._crawler, scheduler.frontier)
        if given_up:
            await self._wait_for_databases()
        elsewhere = await self._wait_for_other_workers(scheduler)
        verdict = await self._finish(reading, given_up, unfinished=0, elsewhere=elsewhere)
        await scheduler.frontier.publish_verdict(write_verdict(verdict))
        if not verdict.given_up:
            await scheduler.frontier.forget()

    def _sweep_again(self, reading: Reading) -> bool:
        """Send the spider over all pages again when listings may have slipped past. Never with a `limit`."""
        spider = self._spider
        if spider.limit or not needs_another_sweep(reading, self._config.max_sweeps):
            return False
        sweep = reading.sweeps + 1
        logger.info("The catalogue moved while it was read; reading its pages again (sweep %d)", sweep)
        self._crawler.stats.set_value("catalogue/sweeps", sweep)
        self._crawler.engine.crawl(spider.page_request(0, self._config.page_size, sweep=sweep))
        return True

    async def _finish(
        self,
        reading: Reading,
        dead: list[GivenUp],
        unfinished: int,
        stopped: str | None = None,
        elsewhere: Mapping[Spooled, int] | None = None,
    ) -> Verdict:
        """Reach the verdict, publish what was kept, and end the crawl's archive unless the crawl can go on.

        `stopped` is the finish reason of a crawl that did not come to its end; `elsewhere` is what waits for
        databases on the disks of other workers.
        """
        kept = await asyncio.to_thread(self._archive.kept)
        verdict = self._judge(reading, kept, dead, unfinished)
        if verdict.catalogue_complete and self._is_whole_catalogue:
            before = await asyncio.to_thread(self._archive.published)
            verdict = believable(verdict, before or 0, self._config.min_kept_share)
        scheduler = frontier_scheduler(self._crawler)
        if stopped == _BY_SIGNAL:
            resumable = scheduler is not None and scheduler.identity.resumable
            verdict = going_on(verdict, unfinished) if resumable else cut_short(verdict)
        if verdict.complete and self._spider.reads_all:
            await self._mark_removed(reading, kept)
        verdict = delivered(verdict, self._undelivered(), elsewhere)
        self._writing = True
        complete = verdict.catalogue_complete
        published = await asyncio.to_thread(self._archive.publish, kept, complete=complete)
        status = "complete" if verdict.complete else "incomplete"
        why = stopped or ("api_changed" if verdict.api_changed else None)
        run = self._run(verdict, f"stopped: {why}" if why else status, published)
        await asyncio.to_thread(self._archive.report, run)
        can_go_on = (stopped or verdict.given_up) and scheduler and scheduler.identity.resumable
        for left_alone in [] if can_go_on else await asyncio.to_thread(self._archive.end):
            logger.warning("Left the batches of another crawl alone: %s", left_alone)
        self._adopt(verdict)
        return verdict

    def _adopt(self, verdict: Verdict) -> None:
        """Make the verdict known, once, to logs and stats."""
        self._closed_books = True
        self.verdict = verdict
        stats = self._crawler.stats
        stats.set_value("verdict/complete", verdict.complete)
        stats.set_value("verdict/kept", verdict.kept)
        stats.set_value("verdict/expected", verdict.expected)
        stats.set_value("verdict/missing", len(verdict.missing))
        if verdict.goes_on:
            logger.info("The crawl has %s", "; ".join(verdict.reasons))
        elif verdict.complete:
            logger.info("The catalogue is complete: %d of %d listings", verdict.kept, verdict.expected)
        else:
            logger.error("The catalogue is NOT complete: %s", "; ".join(verdict.reasons))

    # The databases

    async def _wait_for_databases(self) -> None:
        """Before the books are closed, everything on its way shall have arrived; a database that stands still is
        given up after `CARS_STORE_PATIENCE`.
        """
        await asyncio.gather(*(store.wait_until_delivered() for store in remote_stores(self._crawler)))

    async def _wait_for_other_workers(self, scheduler: FrontierScheduler) -> dict[Spooled, int]:
        """What waits on the disks of others in the end, by database and worker. Those that live are waited for as
        databases are; of those that are gone, what lies within reach is taken over and delivered.
        """
        before: dict[Spooled, int] = {}
        progress = time.monotonic()
        while True:
            status = await scheduler.frontier.status()
            if status.crawl_id != scheduler.identity.crawl_id:
                raise FrontierLost("another worker has ended the crawl meanwhile")
            stores = remote_stores(self._crawler)
            others = [worker for worker in status.workers if worker.worker != scheduler.identity.worker]
            alive_since = status.now - scheduler.lease_seconds
            gone, living = (
                [
                    as_seen_here(each.report, stores)
                    for each in others
                    if (each.last_seen >= alive_since) is lives
                ]
                for lives in (False, True)
            )
            elsewhere, awaited = waiting_elsewhere(here=map(numbers, stores), gone=gone, living=living)
            if not awaited or time.monotonic() > progress + self._config.store_patience:
                return elsewhere
            if awaited != before:
                before, progress = awaited, time.monotonic()
            await asyncio.sleep(_POLL)
            await self._wait_for_databases()

    async def _mark_removed(self, reading: Reading, kept: Kept) -> None:
        seen = {listing for page in reading.pages for listing in page.ids}.union(kept.newest)
        begun_at = begin_time(self._archive.crawl_id)
        for store in remote_stores(self._crawler):
            store.mark_removed(sorted(seen), begun_at, _utc(crawl_clock(self._crawler)()))
        await self._wait_for_databases()

    def _undelivered(self) -> dict[str, int]:
        return {store.name: store.undelivered for store in remote_stores(self._crawler)}

    # When it has been stopped before its end

    async def _on_closed(self, reason: str) -> None:
        if self._closing_books is not None:
            if self._writing:
                await self._closing_books
            else:
                self._closing_books.cancel()
        if self._closed_books or not self._has_archive:
            return
        if not self.failure:
            await self._guarded(self._on_stopped(reason))
        if self.failure:
            try:
                await asyncio.to_thread(self._archive.report, self._failed_run())
            except Exception as error:  # noqa: BLE001 (what failed first has been said, and counts)
                logger.debug("run.json says nothing of it: %s", cause(error))

    async def _on_stopped(self, reason: str) -> None:
        scheduler = frontier_scheduler(self._crawler)
        status = scheduler.last_status if scheduler else None
        if scheduler and status and self._others_live(scheduler, status):
            logger.warning("This worker has stopped; others go on with the crawl")
            self._crawler.stats.set_value("verdict/complete", False)
            return
        reading = await asyncio.to_thread(self._read_ledger)
        unfinished = status.total.queued + status.total.delayed + status.total.leased if status else 1
        dead = dead_letters.show(self._crawler, scheduler.last_dead if scheduler else [])
        if scheduler and status:
            self._dead_letters = status.total.dead
            self._requests = crawl_numbers(status.workers, scheduler.worker, scheduler.own_numbers).requests
        await self._finish(reading, dead, unfinished=max(unfinished, 1), stopped=reason)

    def _others_live(self, scheduler: FrontierScheduler, status: Status) -> bool:
        """Never with a frontier in a file: one process at a time has it, and whoever it names has died."""
        return bool(self._crawler.settings.get("REDIS_URL")) and others_live(
            status.workers, scheduler.worker, status.now, scheduler.lease_seconds
        )

    # What it all rests on

    def _judge(self, reading: Reading, kept: Kept, dead: list[GivenUp], unfinished: int) -> Verdict:
        verdict = reach_verdict(
            reading,
            kept.newest.keys(),
            kept.without_specs,
            dead,
            spec_missing=kept.spec_missing,
            limit=self._spider.limit,
            most=self._config.max_listings,
            unfinished=unfinished,
            dead_letters=self._dead_letters,
            unwritable=self._crawler.stats.get_value("frontier/unwritable", 0),
            max_drift=self._config.max_drift,
            freeze=self._config.schema_contract == FREEZE,
        )
        if why := why_stopped(self._crawler):
            reasons = [why, *verdict.reasons]
            return replace(verdict, complete=False, catalogue_complete=False, reasons=reasons)
        return verdict

    def _read_ledger(self) -> Reading:
        pages, aside, odd = [], [], []
        for entry in self._archive.ledger():
            match entry["kind"]:
                case "PageRead":
                    pages.append(PageRead(**entry["item"]))
                case "OddSpec":
                    odd.append(OddSpec(**entry["item"]))
                case _:
                    aside.append(SetAside(**entry["item"]))
        return Reading(pages, aside, odd)

    def _run(self, verdict: Verdict, status: str, published: str) -> bytes:
        """What `run.json` holds."""
        found = asdict(verdict)
        for name in ("missing", "set_aside", "given_up", "spec_missing"):
            found[f"{name}_count"] = len(found[name])
            found[name] = found[name][:_LISTED]
        found["given_up_count"] = max(found["given_up_count"], self._dead_letters)
        return self._described(status, {"published": published, **found})

    def _failed_run(self) -> bytes:
        """The same for a crawl that could not be finished: what it has is not known."""
        return self._described("failed", {"published": None, "complete": False, "reasons": [self.failure]})

    def _described(self, status: str, found: dict[str, Any]) -> bytes:
        run = {
            "crawl_id": self._archive.crawl_id,
            **self._origin(),
            "status": status,
            "started_at": begin_time(self._archive.crawl_id),
            "ended_at": _utc(crawl_clock(self._crawler)()),
            "arguments": self._spider.arguments,
            "requests": self._requests or self._crawler.stats.get_value("downloader/request_count", 0),
            **found,
        }
        return plain_json(run, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    def _origin(self) -> dict[str, Any]:
        """What `run.json` says of where the answers came from: nothing when it was the site."""
        return {}

    @property
    def _is_whole_catalogue(self) -> bool:
        """Whether what this run keeps can be compared with the last complete catalogue."""
        return self._spider.reads_all

    @property
    def _has_archive(self) -> bool:
        """False when the crawl was refused before anything was kept."""
        return hasattr(self._crawler.get_item_pipeline(JsonBatchesPipeline), "archive")

    @property
    def _archive(self) -> Archive:
        pipeline = self._crawler.get_item_pipeline(JsonBatchesPipeline)
        if pipeline is None:
            raise RuntimeError("JsonBatchesPipeline is not among the ITEM_PIPELINES")
        return pipeline.archive

    @property
    def _spider(self) -> CarsSpider:
        return cast("CarsSpider", self._crawler.spider)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
