"""The end of a crawl: another pass if listings may have slipped past, else the verdict, and what is published."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from scrapy.exceptions import NotConfigured

from carscraper.catalogue.searches import reads_cars, search_of
from carscraper.changes.log import Changes
from carscraper.config import Config
from carscraper.monitoring import dead_letters
from carscraper.monitoring.deliveries import Deliveries
from carscraper.monitoring.report import RunReport, read_ledger, reported, utc
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
    needs_another_pass,
    reach_verdict,
)
from carscraper.output.archive import Archive, Kept
from carscraper.pipelines.json_batches import JsonBatchesPipeline
from scrapy_durable.any_project import AnyProject
from scrapy_durable.crawl_numbers import crawl_numbers
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.identity import begin_time, crawl_clock
from scrapy_durable.lifecycle import POLL, Lifecycle
from scrapy_durable.published import read_published
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler
from scrapy_durable.stopping import why_stopped
from scrapy_durable.stores import durable_stores
from scrapy_durable.waiting import Spooled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.spiders.cars import CarsSpider

logger = logging.getLogger(__name__)

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
        self._deliveries = Deliveries(crawler, self._config.store_timeout)
        self._writing = False
        """True from when nothing is waited for any more: then the files are written, whoever stops the process."""
        self._requests = 0
        """Made by all workers of the crawl; 0 before that was looked up."""
        self.run_report = RunReport(crawler)
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
        await self._deliveries.wait()

    async def _finish_alone(self) -> Verdict | None:
        """Under a scheduler that knows of no stores: wait for what they still hold first."""
        while not all(store.durable >= store.received for store in durable_stores(self._crawler)):
            await asyncio.sleep(POLL / 10)
        reading = await asyncio.to_thread(read_ledger, self._archive)
        return None if self._read_again(reading) else await self._conclude(reading, [], unfinished=0)

    async def _read(self, published: bytes) -> Verdict:
        verdict = read_published(Verdict, published)
        if not verdict.complete:
            return verdict
        # Whoever can write to Redis can publish one: it counts when what lies in the output directory agrees.
        reading = await asyncio.to_thread(read_ledger, self._archive)
        kept = await asyncio.to_thread(self._archive.kept)
        own = self._judge(reading, kept, [], unfinished=0)
        if not own.complete or own.kept != verdict.kept:
            doubt = (
                f"another worker's verdict says that {verdict.kept} listings were kept, and {own.kept} are in "
                f"{self._archive.directory}"
            )
            reasons = [doubt, *own.reasons]
            verdict = replace(verdict, complete=False, catalogue_complete=False, reasons=reasons)
        return delivered(verdict, self._deliveries.undelivered)

    async def _finish(self, scheduler: FrontierScheduler) -> Verdict | None:
        reading = await asyncio.to_thread(read_ledger, self._archive)
        if self._read_again(reading):
            return None
        workers, given_up, elsewhere = await asyncio.gather(
            scheduler.frontier.workers(),
            dead_letters.settle(self._crawler, scheduler.frontier),
            self._deliveries.wait_for_other_workers(scheduler),
        )
        self._requests = crawl_numbers(workers, scheduler.worker.name, scheduler.worker.own_numbers).requests
        if given_up:
            await self._deliveries.wait()
            elsewhere = await self._deliveries.wait_for_other_workers(scheduler)
        return await self._conclude(reading, given_up, unfinished=0, elsewhere=elsewhere)

    def _keeps_crawl(self, verdict: Verdict) -> bool:
        return bool(verdict.given_up)

    def _read_again(self, reading: Reading) -> bool:
        """Send the spider over all pages again when listings may have slipped past. Never with a `limit`."""
        spider = _cars_spider(self._crawler)
        if spider.limit or not needs_another_pass(reading, self._config.max_passes):
            return False
        pass_number = reading.passes + 1
        logger.info("The catalogue moved while it was read; reading its pages again (pass %d)", pass_number)
        self._crawler.stats.set_value("catalogue/passes", pass_number)
        self._crawler.engine.crawl(spider.page_request(0, self._config.page_size, pass_number=pass_number))
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
        if verdict.catalogue_complete and search_of(self._crawler.spider).reads_all:
            before = await asyncio.to_thread(self._archive.published)
            verdict = believable(verdict, before or 0, self._config.min_kept_share)
        scheduler = frontier_scheduler(self._crawler)
        if stopped == _BY_SIGNAL:
            resumable = scheduler is not None and scheduler.identity.resumable
            verdict = going_on(verdict, unfinished) if resumable else cut_short(verdict)
        if verdict.complete and _cars_spider(self._crawler).reads_all:
            seen = chain(kept.newest, chain.from_iterable(page.ids for page in reading.pages))
            began, now = begin_time(self._archive.crawl_id), utc(crawl_clock(self._crawler)())
            await self._deliveries.mark_removed(seen, began, now)
        verdict = delivered(verdict, self._deliveries.undelivered, elsewhere)
        self._writing = True
        complete = verdict.catalogue_complete
        published = await asyncio.to_thread(_publish, self._crawler, self._archive, kept, complete=complete)
        status = "complete" if verdict.complete else "incomplete"
        why = stopped or ("api_changed" if verdict.api_changed else None)
        found = self._of_run | {"published": published, **reported(verdict, self._dead_letters)}
        await self.run_report.write(self._archive, f"stopped: {why}" if why else status, found)
        can_go_on = (stopped or verdict.given_up) and scheduler and scheduler.identity.resumable
        for left_alone in [] if can_go_on else await asyncio.to_thread(self._archive.end):
            logger.warning("Left the batches of another crawl alone: %s", left_alone)
        return verdict

    async def _report_stored(self) -> None:
        """Once more in `run.json`: it was written before the feeds were."""
        await self.run_report.write_stored(self._archive, self._stored.missing)

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
        said = summary(self.verdict, self._stored.missing, self.run_report.feeds)
        search = search_of(_cars_spider(self._crawler))
        if search.reads_all:
            return said
        directory = search.directory(self._config.output_dir)
        if self.verdict.complete and not self.verdict.kept:
            said.append(f"no listing matches {search.words}")
        return [*said, f"this search is in {directory}; the whole catalogue is left as it was"]

    async def _report_failure(self) -> None:
        found = self._of_run | {"published": None, "complete": False, "reasons": [self.failure]}
        await self.run_report.write(self._archive, "failed", found)

    async def _stopped(self, reason: str) -> Verdict | None:
        scheduler = frontier_scheduler(self._crawler)
        status = scheduler.last_status if scheduler else None
        if scheduler and status and self._others_live(scheduler, status):
            logger.warning("This worker has stopped; others go on with the crawl")
            return None
        reading = await asyncio.to_thread(read_ledger, self._archive)
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
            limit=_cars_spider(self._crawler).limit,
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

    @property
    def _of_run(self) -> dict[str, Any]:
        """What `run.json` says of this run alone."""
        return {"requests": self._requests} if self._requests else {}

    @property
    def _has_begun(self) -> bool:
        return hasattr(self._crawler.get_item_pipeline(JsonBatchesPipeline), "archive")

    @property
    def _archive(self) -> Archive:
        pipeline = self._crawler.get_item_pipeline(JsonBatchesPipeline)
        if pipeline is None:
            raise RuntimeError("JsonBatchesPipeline is not among the ITEM_PIPELINES")
        return pipeline.archive


def _cars_spider(crawler: Crawler) -> CarsSpider:
    return cast("CarsSpider", crawler.spider)


def _publish(crawler: Crawler, archive: Archive, kept: Kept, *, complete: bool) -> str:
    """Put the file in place; where that is a whole catalogue, with what has changed since the last one."""
    if not complete or not search_of(crawler.spider).reads_all:
        return archive.publish(kept, complete=complete)
    now, left_out = utc(crawl_clock(crawler)()), Config.from_settings(crawler.settings).leave_out
    changes = Changes(archive.output_dir)
    with changes.following(
        archive.crawl_id, begin_time(archive.crawl_id), now, archive.records(kept), left_out
    ):
        return archive.publish(kept, complete=True)
