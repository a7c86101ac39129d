"""The end of a crawl: another pass if listings may have slipped past, else the verdict, and what is published."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from scrapy.exceptions import NotConfigured

from carscraper.catalogue.searches import reads_cars, search_of
from carscraper.config import Config
from carscraper.memory import trim
from carscraper.monitoring import dead_letters
from carscraper.monitoring.deliveries import Deliveries
from carscraper.monitoring.publication import Publication
from carscraper.monitoring.report import read_ledger, utc
from carscraper.monitoring.schema_contract import FREEZE
from carscraper.monitoring.spread import Gathered, Spread
from carscraper.monitoring.summary import summary
from carscraper.monitoring.verdict import (
    GivenUp,
    Reading,
    Verdict,
    believable,
    cut_short,
    delivered,
    doubted,
    going_on,
    needs_another_pass,
    reach_verdict,
)
from carscraper.output.archive import Kept
from carscraper.pipelines.item_log import ItemLogPipeline
from scrapy_durable.any_project import AnyProject
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.identity import begin_time, crawl_clock
from scrapy_durable.lifecycle import POLL, Lifecycle
from scrapy_durable.published import read_published
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler
from scrapy_durable.stopping import why_stopped
from scrapy_durable.stores import durable_stores
from scrapy_durable.waiting import Undelivered

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from scrapy.crawler import Crawler

    from carscraper.spiders.cars import CarsSpider
    from scrapy_durable.frontier.contract import Status

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
        self._publication = Publication(crawler, self._config)
        self.run_report = self._publication.report
        self._spread = Spread(crawler)

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
        reading = await asyncio.to_thread(read_ledger, self._spread.archive)
        return None if self._read_again(reading) else await self._conclude(reading, [], unfinished=0)

    async def _read(self, published: bytes) -> Verdict:
        verdict = read_published(Verdict, published)
        scheduler, gathered = frontier_scheduler(self._crawler), None
        if scheduler is not None and verdict.spread:
            try:
                gathered = await self._spread.read(scheduler, verdict.spread)
            except FrontierLost as error:
                why = f"this worker's share is not published: {error}"
                return replace(verdict, complete=False, catalogue_complete=False, reasons=[why])
        if verdict.complete:
            # Whoever can write to Redis can publish one: it counts when what was kept agrees.
            if gathered is None:
                reading = await asyncio.to_thread(read_ledger, self._spread.archive)
                kept = await asyncio.to_thread(self._spread.archive.kept)
            else:
                reading, kept = gathered.reading, gathered.whole.kept
            verdict = doubted(verdict, self._judge(reading, kept, [], unfinished=0))
            verdict = delivered(verdict, self._deliveries.undelivered)
        if scheduler is not None and gathered is not None:
            await self._publication.put_in_place(verdict, await self._spread.share(gathered))
            await self._spread.confirm(scheduler, verdict.spread)
        return verdict

    async def _leave_parts(self, scheduler: FrontierScheduler) -> None:
        await self._spread.leave(scheduler)

    async def _wait_for_publication(self, scheduler: FrontierScheduler, verdict: Verdict) -> list[str]:
        if not verdict.spread or self._keeps_crawl(verdict):
            return []
        return await self._spread.wait_for_publication(scheduler, verdict.spread)

    async def _finish(self, scheduler: FrontierScheduler, status: Status) -> Verdict | None:
        _cars_spider(self._crawler).known_specs.clear()  # what comes now needs memory, and rarely any of them
        trim()
        reading = await asyncio.to_thread(read_ledger, self._spread.archive)
        if (gathered := await self._spread.gather(scheduler, status.workers)) is not None:
            reading = gathered.reading
        if not (gathered and gathered.lacking) and self._read_again(reading):
            return None
        given_up = list[GivenUp]()
        if status.total.dead:
            given_up = await dead_letters.settle(self._crawler, scheduler.frontier)
            await self._deliveries.wait()
            status = await scheduler.frontier.status()
        elsewhere = await self._deliveries.wait_for_other_workers(scheduler, status)
        self._publication.count_requests(scheduler, status.workers)
        verdict = await self._conclude(
            reading, given_up, unfinished=0, elsewhere=elsewhere, gathered=gathered
        )
        if gathered is not None:
            await self._spread.confirm(scheduler, gathered.parts)
        return verdict

    def _keeps_crawl(self, verdict: Verdict) -> bool:
        return bool(verdict.given_up or verdict.unseen)

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
        elsewhere: Mapping[Undelivered, int] | None = None,
        gathered: Gathered | None = None,
    ) -> Verdict:
        """Reach the verdict, publish what was kept, and end the crawl's archive unless the crawl can go on.

        `stopped` is the finish reason of a crawl that did not come to its end; `elsewhere` is what waits for
        databases on the disks of other workers, `gathered` what is kept in other directories than this one's too.
        """
        kept = gathered.whole.kept if gathered else await asyncio.to_thread(self._spread.archive.kept)
        verdict = self._judge(reading, kept, dead, unfinished)
        if gathered is not None:
            verdict = gathered.spread(verdict)
        if verdict.catalogue_complete and search_of(self._crawler.spider).reads_all:
            before = await asyncio.to_thread(self._spread.archive.published) or 0
            before = max(before, gathered.before) if gathered else before
            verdict = believable(verdict, before, self._config.min_kept_share)
        scheduler = frontier_scheduler(self._crawler)
        if stopped == _BY_SIGNAL:
            resumable = scheduler is not None and scheduler.identity.resumable
            verdict = going_on(verdict, unfinished) if resumable else cut_short(verdict)
        if verdict.complete and _cars_spider(self._crawler).reads_all:
            # All that was named was kept: else it would not be complete.
            began, now = begin_time(self._spread.archive.crawl_id), utc(crawl_clock(self._crawler)())
            await self._deliveries.mark_removed(kept.listings, began, now)
            trim()
        verdict = delivered(verdict, self._deliveries.undelivered, elsewhere)
        self._writing = True
        share = await self._spread.share(gathered) if gathered else kept
        await self._publication.put_in_place(verdict, share, stopped)
        return verdict

    async def _report_stored(self) -> None:
        """Once more in `run.json`: it was written before the feeds were."""
        await self.run_report.write_stored(self._stored.missing)

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
        await self._publication.report_failure(self.failure)

    async def _stopped(self, reason: str) -> Verdict | None:
        scheduler = frontier_scheduler(self._crawler)
        status = scheduler.last_status if scheduler else None
        if scheduler and status and self._others_live(scheduler, status):
            logger.warning("This worker has stopped; others go on with the crawl")
            return None
        reading = await asyncio.to_thread(read_ledger, self._spread.archive)
        unfinished = status.total.queued + status.total.delayed + status.total.leased if status else 1
        dead = dead_letters.show(self._crawler, scheduler.last_dead if scheduler else [])
        if scheduler and status:
            self._publication.dead_letters = status.total.dead
            self._publication.count_requests(scheduler, status.workers)
        return await self._conclude(reading, dead, unfinished=max(unfinished, 1), stopped=reason)

    # What it all rests on

    def _judge(self, reading: Reading, kept: Kept, dead: list[GivenUp], unfinished: int) -> Verdict:
        verdict = reach_verdict(
            reading,
            kept.listings,
            kept.without_specs,
            dead,
            spec_missing=kept.spec_missing,
            limit=_cars_spider(self._crawler).limit,
            most=self._config.max_listings,
            unfinished=unfinished,
            dead_letters=self._publication.dead_letters,
            unserializable=self._crawler.stats.get_value("frontier/unserializable", 0),
            max_drift=self._config.max_drift,
            freeze=self._config.schema_contract == FREEZE,
        )
        if why := why_stopped(self._crawler):
            reasons = [why, *verdict.reasons]
            return replace(verdict, complete=False, catalogue_complete=False, reasons=reasons)
        return verdict

    @property
    def _has_begun(self) -> bool:
        return hasattr(self._crawler.get_item_pipeline(ItemLogPipeline), "archive")


def _cars_spider(crawler: Crawler) -> CarsSpider:
    return cast("CarsSpider", crawler.spider)
