"""What a run leaves in its output directory: the catalogue, or what there is of it, and `run.json`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from carscraper.catalogue.searches import search_of
from carscraper.changes.log import Changes
from carscraper.monitoring.report import RunReport, reported, utc
from carscraper.pipelines.item_log import item_log
from scrapy_durable.crawl_numbers import crawl_numbers
from scrapy_durable.identity import begin_time, crawl_clock
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.crawler import Crawler

    from carscraper.config import Config
    from carscraper.monitoring.verdict import Verdict
    from carscraper.output.archive import Archive, Kept
    from scrapy_durable.frontier.contract import WorkerStatus

logger = logging.getLogger(__name__)


class Publication:
    """Puts in place what follows from a verdict, on the worker that has reached it, and on each whose directory that
    one does not see.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self.report = RunReport(crawler)
        self.about: dict[str, Any] = {}
        """What `run.json` says of this run beside its verdict, by name."""
        self.dead_letters = 0
        """Of a crawl that was stopped: the frontier's count, where not all of them are at hand."""

    def count_requests(self, scheduler: FrontierScheduler, workers: Collection[WorkerStatus]) -> None:
        """Have `run.json` tell how many requests all workers of the crawl have made."""
        numbers = crawl_numbers(workers, scheduler.worker.name, scheduler.worker.own_numbers)
        if numbers.requests:
            self.about["requests"] = numbers.requests

    async def put_in_place(self, verdict: Verdict, kept: Kept, stopped: str | None = None) -> None:
        """Publish what was kept, report the verdict, and end the crawl's archive unless the crawl can go on.

        `stopped` is the finish reason of a crawl that did not come to its end.
        """
        archive = item_log(self._crawler).archive
        published = await asyncio.to_thread(self._publish, archive, kept, verdict)
        if verdict.spread:
            self.about["kept_here"] = len(kept.listings)
        status = "complete" if verdict.complete else "incomplete"
        why = stopped or ("api_changed" if verdict.api_changed else None)
        found = self.about | {"published": published, **reported(verdict, self.dead_letters)}
        await self.report.write(archive, f"stopped: {why}" if why else status, found)
        scheduler = frontier_scheduler(self._crawler)
        can_go_on = (
            (stopped or verdict.given_up or verdict.unseen) and scheduler and scheduler.identity.resumable
        )
        for left_alone in [] if can_go_on else await asyncio.to_thread(archive.end):
            logger.warning("Left what another crawl has kept alone: %s", left_alone)

    async def report_failure(self, failure: str | None) -> None:
        """Report that the crawl could not be finished. Raises `OSError`."""
        found = self.about | {"published": None, "complete": False, "reasons": [failure]}
        await self.report.write(item_log(self._crawler).archive, "failed", found)

    def _publish(self, archive: Archive, kept: Kept, verdict: Verdict) -> str:
        """Put the file in place; where that is a whole catalogue, with what has changed since the last one."""
        complete = verdict.catalogue_complete
        if verdict.spread:
            return archive.publish(kept, complete=complete, listings=verdict.kept)
        if not complete or not search_of(self._crawler.spider).reads_all:
            return archive.publish(kept, complete=complete)
        now = utc(crawl_clock(self._crawler)())
        began, left_out = begin_time(archive.crawl_id), self._config.leave_out
        changes = Changes(archive.output_dir)
        with changes.following(archive.crawl_id, began, now, archive.records(kept), left_out):
            return archive.publish(kept, complete=True)
