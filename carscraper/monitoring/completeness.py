"""The end of a crawl: another sweep if listings may have slipped past, else the verdict, and what is published."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

import orjson
from scrapy.exceptions import NotConfigured

from carscraper.catalogue.searches import reads_cars, search_of
from carscraper.config import Config
from carscraper.items import OddSpec, PageRead, SetAside
from carscraper.monitoring import dead_letters
from carscraper.monitoring.schema_contract import FREEZE
from carscraper.monitoring.summary import summary
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
from carscraper.output.archive import Archive, Kept
from carscraper.pipelines.json_batches import JsonBatchesPipeline
from scrapy_durable.any_project import AnyProject
from scrapy_durable.crawl_numbers import crawl_numbers
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.identity import begin_time, crawl_clock
from scrapy_durable.lifecycle import POLL, Lifecycle
from scrapy_durable.plain import plain_json
from scrapy_durable.published import read_published
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler
from scrapy_durable.stopping import why_stopped
from scrapy_durable.stores import durable_stores, remote_stores
from scrapy_durable.waiting import Spooled, as_seen_here, numbers, waiting_elsewhere

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.spiders.cars import CarsSpider

logger = logging.getLogger(__name__)

_LISTED = 1000
"""How many missing ids, listings set aside and requests given up `run.json` names at most, of each."""
_BY_SIGNAL = "shutdown"
"""Scrapy's finish reason of a crawl that a signal has stopped."""


class Completeness(Lifecycle[Verdict]):
    """Says whether anything of the catalogue is missing, and publishes what there is.

    The elected worker reads the ledger, and either sends the spider over all pages again or writes what is published. A
    crawl with dead letters is kept in the frontier, so that `scrapy queue retry-dead` and another run can complete it.

    `cars.json` is replaced by a complete catalogue only, and one that has not collapsed; what any other run has lies
    beside it, as `cars.incomplete.json`.

    The spider of another site is ended as that of any project. Stats: `verdict/kept`, `verdict/expected`,
    `verdict/missing`.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._config = Config.from_settings(crawler.settings)
        self._writing = False
        """True from when nothing is waited for any more: then the files are written, whoever stops the process."""
        self._requests = 0
        """Made by all workers of the crawl; 0 before that was looked up."""
        self._dead_letters = 0
        """Of a crawl that was stopped: the frontier's count, where not all of them are at hand."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for `scrapy fetch` and the like."""
        if is_at_a_command(crawler):
            raise NotConfigured
        if not reads_cars(crawler):
            return cast("Self", AnyProject(crawler))
        return cls(crawler)

    # While the crawl runs

    def _takes_part(self) -> bool:
        return True

    async def _prepare(self) -> None:
        await self._wait_for_databases()

    async def _finish_alone(self) -> Verdict | None:
        """Under a scheduler that knows of no stores: wait for what they still hold first."""
        while not all(store.durable >= store.received for store in durable_stores(self._crawler)):
            await asyncio.sleep(POLL / 10)
        reading = await asyncio.to_thread(self._read_ledger)
        return None if self._sweep_again(reading) else await self._conclude(reading, [], unfinished=0)

    async def _read(self, published: bytes) -> Verdict:
        verdict = read_published(Verdict, published)
        if not verdict.complete:
            return verdict
        return delivered(await self._borne_out(verdict), self._undelivered())

    async def _borne_out(self, verdict: Verdict) -> Verdict:
        """Another worker's verdict, when what lies in the output directory agrees: whoever can write to Redis can
        publish one.
        """
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

    async def _finish(self, scheduler: FrontierScheduler) -> Verdict | None:
        reading = await asyncio.to_thread(self._read_ledger)
        if self._sweep_again(reading):
            return None
        workers = await scheduler.frontier.workers()
        self._requests = crawl_numbers(workers, scheduler.worker.name, scheduler.worker.own_numbers).requests
        given_up = await dead_letters.settle(self._crawler, scheduler.frontier)
        if given_up:
            await self._wait_for_databases()
        elsewhere = await self._wait_for_other_workers(scheduler)
        return await self._conclude(reading, given_up, unfinished=0, elsewhere=elsewhere)

    def _serialize(self, verdict: Verdict) -> bytes:
        return orjson.dumps(asdict(verdict))

    def _keeps_crawl(self, verdict: Verdict) -> bool:
        return bool(verdict.given_up)

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

    async def _conclude(
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
        return verdict

    def _say(self, verdict: Verdict) -> None:
        stats = self._crawler.stats
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
            alive_since = status.now - scheduler.worker.lease_seconds
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
            await asyncio.sleep(POLL)
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

    async def _end_finishing(self, finishing: asyncio.Task[None]) -> None:
        if self._writing:
            await finishing
        else:
            finishing.cancel()

    def summary(self) -> list[str]:
        """The verdict in words; of a search, that it found nothing, and where its records are."""
        if self.verdict is None or self.failure is not None:
            return super().summary()
        said = summary(self.verdict)
        search = search_of(self._spider)
        if search.reads_all:
            return said
        directory = search.directory(self._config.output_dir)
        if self.verdict.complete and not self.verdict.kept:
            said.append(f"no listing matches {search.words}")
        return [*said, f"this search is in {directory}; the whole catalogue is left as it was"]

    async def _report_failure(self) -> None:
        await asyncio.to_thread(self._archive.report, self._failed_run())

    async def _stopped(self, reason: str) -> Verdict | None:
        scheduler = frontier_scheduler(self._crawler)
        status = scheduler.last_status if scheduler else None
        if scheduler and status and self._others_live(scheduler, status):
            logger.warning("This worker has stopped; others go on with the crawl")
            return None
        reading = await asyncio.to_thread(self._read_ledger)
        unfinished = status.total.queued + status.total.delayed + status.total.leased if status else 1
        dead = dead_letters.show(self._crawler, scheduler.last_dead if scheduler else [])
        if scheduler and status:
            self._dead_letters = status.total.dead
            self._requests = crawl_numbers(
                status.workers, scheduler.worker.name, scheduler.worker.own_numbers
            ).requests
        return await self._conclude(reading, dead, unfinished=max(unfinished, 1), stopped=reason)

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
            unserializable=self._crawler.stats.get_value("frontier/unserializable", 0),
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
    def _has_begun(self) -> bool:
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
