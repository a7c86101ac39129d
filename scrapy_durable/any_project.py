"""What holds for the crawl of any project: it is complete when each request was done, and none is a dead letter."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_durable.frontier.codec import is_declared
from scrapy_durable.lifecycle import Lifecycle
from scrapy_durable.published import read_published
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler
from scrapy_durable.stopping import why_stopped

if TYPE_CHECKING:
    from scrapy_durable.frontier.contract import Status

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a crawl has lost anything."""

    complete: bool
    reasons: list[str]
    """Why it is not complete."""
    done: int
    """Requests acknowledged, of all workers and runs of the crawl."""
    dead_letters: int

    @property
    def may_replace(self) -> bool:
        """Only what is complete does."""
        return self.complete


def judge(status: Status, *, stopped: str | None, refused: int, start_failure: str | None = None) -> Verdict:
    """The verdict on a crawl that the frontier describes so.

    `stopped` says why it was stopped before its end; `refused` counts the requests of this run that could not be
    serialized, and were not made; `start_failure` is what `start()` has raised.
    """
    total = status.total
    reasons = [reason for reason in (stopped, start_failure) if reason]
    if unfinished := total.queued + total.delayed + total.leased:
        reasons.append(f"{unfinished} requests are not done yet")
    if total.dead:
        reasons.append(f"{total.dead} requests are dead letters (scrapy queue dead, retry-dead)")
    if refused:
        reasons.append(f"{refused} requests could not be serialized, and were not made")
    return Verdict(not reasons, reasons, total.done, total.dead)


class AnyProject(Lifecycle[Verdict]):
    """The end of a crawl of which nothing is known but what its requests came to."""

    async def _finish(self, scheduler: FrontierScheduler, status: Status) -> Verdict | None:
        return self._judge(status, why_stopped(self._crawler))

    def _judge(self, status: Status, stopped: str | None) -> Verdict:
        spider = self._crawler.spider
        refused = self._crawler.stats.get_value("frontier/unserializable", 0)
        scheduler = frontier_scheduler(self._crawler)
        return judge(
            status,
            stopped=stopped,
            refused=refused if spider and is_declared(spider) else 0,
            start_failure=scheduler.start.failure if scheduler else None,
        )

    async def _read(self, published: bytes) -> Verdict:
        return read_published(Verdict, published)

    def _keeps_crawl(self, verdict: Verdict) -> bool:
        return verdict.dead_letters > 0

    async def _stopped(self, reason: str) -> Verdict | None:
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is None:
            return None
        status = scheduler.last_status
        why = why_stopped(self._crawler) or f"stopped ({reason})"
        if status is None:
            return Verdict(False, [why, "the frontier did not answer in the end"], 0, 0)
        if self._others_live(scheduler, status):
            logger.info("This worker has stopped; others go on with the crawl")
            return None
        resumable = scheduler.identity.resumable
        return self._judge(status, f"{why}; the same command goes on with it" if resumable else why)

    def _say(self, verdict: Verdict) -> None:
        if verdict.complete:
            logger.info("The crawl is complete: %d requests were done", verdict.done)
        else:
            logger.warning("The crawl is NOT complete: %s", "; ".join(verdict.reasons))
