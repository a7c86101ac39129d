"""The end of a reparse: judged as a crawl is, from what was stored of it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from carscraper.monitoring.completeness import Completeness
from carscraper.reparse.spider import reparse_spider

if TYPE_CHECKING:
    from carscraper.monitoring.verdict import GivenUp, Reading, Verdict
    from carscraper.output.archive import Kept

logger = logging.getLogger(__name__)

_NAMED = 5
"""How many absent pages a reason names."""


class ReparseCompleteness(Completeness):
    """Writes `cars.json` and `run.json`, and says whether anything is missing.

    The verdict follows from the same rules; what the store does not have any more makes it incomplete too. Nothing
    is asked for again, and nothing is marked as removed: what was stored is not what is on the site today. One that
    is stopped leaves all files as they were, since it can be had again.
    """

    async def _reach_end(self) -> bool:
        spider = reparse_spider(self._crawler)
        self._publication.about["reparsed_from"] = spider.crawl_id
        return not spider.finished or await super()._reach_end()

    async def _stopped(self, reason: str) -> Verdict | None:
        logger.error("The crawl was not reparsed (%s); cars.json is as it was", reason)
        return None

    def _read_again(self, reading: Reading) -> bool:
        return False

    def _judge(self, reading: Reading, kept: Kept, dead: list[GivenUp], unfinished: int) -> Verdict:
        absent, refused = reparse_spider(self._crawler).absent, reparse_spider(self._crawler).refused
        dead = [*dead, *reparse_spider(self._crawler).without_specs()]
        verdict = super()._judge(reading, kept, dead, unfinished)
        reasons = list(verdict.reasons)
        if absent:
            some = "; ".join(absent[:_NAMED]) + ("; …" if len(absent) > _NAMED else "")
            reasons.append(f"{len(absent)} pages of the crawl cannot be had from the response store: {some}")
        if refused:
            reasons.append(f"{len(refused)} pages of the crawl are no answers to this release")
        return replace(
            verdict,
            complete=not reasons,
            catalogue_complete=verdict.catalogue_complete and not (absent or refused),
            given_up=[*verdict.given_up, *refused],
            reasons=reasons,
        )
