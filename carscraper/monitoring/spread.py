"""A crawl whose workers keep their records in directories that they do not all see: what they tell each other."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from carscraper.monitoring.report import reading_of
from carscraper.monitoring.verdict import Reading, Verdict
from carscraper.output.parts import (
    MOST_PROCESSES,
    Part,
    Whole,
    ledger_of,
    part_of,
    pieces_of,
    put_together,
    read_part,
)
from carscraper.pipelines.item_log import item_log
from scrapy_durable.crawl_numbers import LEFT
from scrapy_durable.exceptions import FrontierDamaged, FrontierLost, FrontierUnavailable
from scrapy_durable.frontier.build import is_shared
from scrapy_durable.lifecycle import POLL
from scrapy_durable.scheduler import FrontierScheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from carscraper.output.archive import Archive, Kept
    from scrapy_durable.frontier.contract import WorkerStatus

logger = logging.getLogger(__name__)

ENTRIES = "entries"
"""What a worker reports (`DURABLE_REPORTED_STATS`): how many entries it has in its item logs, on disk. It stands in the
frontier by the time that anything is acknowledged which rests on them.
"""
_MOST_PIECES = 1000
"""Of a part."""
_AT_ONCE = 8
"""Pieces that are read at once."""
_MOST_ENTRIES = 100_000_000
"""Of all parts, and listings of a catalogue."""
_HEAD = {"entries": _MOST_ENTRIES, "pieces": _MOST_PIECES, "before": _MOST_ENTRIES}
"""What is left of a part beside its pieces, and how much each may be at most."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What all workers have kept, as far as they have told."""

    parts: dict[str, int]
    """Up to how many entries of each worker."""
    whole: Whole
    reading: Reading
    lacking: dict[str, int]
    """Workers that are gone and have not told, and how many entries each has kept."""
    before: int = 0
    """The most listings of a last complete catalogue that any of them has told."""

    def spread(self, verdict: Verdict) -> Verdict:
        """The verdict on a catalogue that lies in several directories."""
        verdict = replace(verdict, spread=self.parts)
        if not self.lacking:
            return verdict
        names = ", ".join(f"{worker} ({entries} entries)" for worker, entries in self.lacking.items())
        reason = (
            f"what is kept in a directory that no other worker sees is not known of {names}: start it again in that "
            "directory, or give the crawl up with 'scrapy queue forget'"
        )
        return replace(
            verdict,
            complete=False,
            catalogue_complete=False,
            unseen=list(self.lacking),
            reasons=[reason, *verdict.reasons],
        )


class Spread:
    """Leaves in the frontier what others need of the directories that this worker sees, and reads what they have left.

    While every worker sees all directories, nothing is left. What was left goes with the crawl. A part is named by its
    worker and the number of entries that it holds: logs only grow, so what has that name never changes, and all workers
    that are told these names put the same together.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._left: dict[str, int] = {}
        """Up to how many entries a worker's part was left by this one."""

    @property
    def archive(self) -> Archive:
        """What the crawl has kept in this worker's directory."""
        return item_log(self._crawler).archive

    async def leave(self, scheduler: FrontierScheduler) -> None:
        """Leave the parts of all directories here, if there is a worker whose directory is not. Raises as the frontier,
        `Archive.kept` and `Archive.ledger`.

        It asks nobody who the workers are: they were read a few seconds ago, and this is called again.
        """
        await self._leave(scheduler, scheduler.worker.peers or [])

    async def _leave(self, scheduler: FrontierScheduler, workers: Collection[WorkerStatus]) -> None:
        directories = await asyncio.to_thread(self.archive.workers)
        if all(one.worker in directories for one in workers if ENTRIES in one.report):
            return
        for one in workers:
            entries = one.report.get(ENTRIES, 0)
            if one.worker in directories and entries > self._left.get(one.worker, 0):
                part = await asyncio.to_thread(read_part, directories[one.worker])
                try:
                    await self._leave_part(scheduler, one.worker, part)
                except FrontierLost:
                    return  # forgotten by the worker that was elected; its verdict stays a while
                self._left[one.worker] = part.entries

    async def _leave_part(self, scheduler: FrontierScheduler, worker: str, part: Part) -> None:
        pieces, number = pieces_of(part), 0
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            await scheduler.frontier.leave_part(f"kept:{worker}:{part.entries}:{number}", piece)
            number += 1
        before = await asyncio.to_thread(self.archive.published)
        head = {"entries": part.entries, "pieces": number, "before": before or 0}
        await scheduler.frontier.leave_part(f"kept:{worker}:{part.entries}", orjson.dumps(head))
        await scheduler.frontier.leave_part(f"kept:{worker}", orjson.dumps(head))

    async def gather(
        self, scheduler: FrontierScheduler, workers: Collection[WorkerStatus]
    ) -> Gathered | None:
        """What these workers, which are all, have kept, once each that lives has told; None when the directories of all
        are seen from here, for which it is enough that one which has kept nothing is gone. Raises as `leave`, and
        `FrontierDamaged`.
        """
        while True:
            kept = {one.worker: one.report[ENTRIES] for one in workers if one.report.get(ENTRIES, 0) > 0}
            live = {
                one.worker for one in workers if ENTRIES in one.report and not self._is_gone(one, scheduler)
            }
            if kept.keys() | live <= (await asyncio.to_thread(self.archive.workers)).keys():
                return None
            await self._leave(scheduler, workers)
            found = await asyncio.gather(
                *(self._head(scheduler, f"kept:{worker}") for worker in sorted(kept))
            )
            heads = dict(zip(sorted(kept), found, strict=True))
            told = {worker: head for worker, head in heads.items() if head["entries"] >= kept[worker]}
            lacking = {worker: kept[worker] for worker in heads if worker not in told}
            if not any(one.worker in lacking and not self._is_gone(one, scheduler) for one in workers):
                parts = {worker: head["entries"] for worker, head in told.items()}
                gathered = await self.read(scheduler, parts)
                before = max((head["before"] for head in told.values()), default=0)
                return replace(gathered, lacking=lacking, before=before)
            await asyncio.sleep(POLL)
            workers = await scheduler.frontier.workers()

    async def read(self, scheduler: FrontierScheduler, parts: Mapping[str, int]) -> Gathered:
        """Put these parts together. Raises what the frontier raises, and `FrontierDamaged`."""
        if len(parts) > MOST_PROCESSES or sum(parts.values()) > _MOST_ENTRIES:
            raise FrontierDamaged(
                f"{len(parts)} parts of {sum(parts.values())} entries are more than a crawl has"
            )
        found = {}
        names = {worker: f"kept:{worker}:{entries}" for worker, entries in parts.items()}
        heads = await asyncio.gather(*(self._head(scheduler, name) for name in names.values()))
        for (worker, entries), head in zip(parts.items(), heads, strict=True):
            pieces = await self._pieces(scheduler, names[worker], head["pieces"])
            if not pieces or None in pieces:
                raise FrontierLost(f"what worker {worker} has kept is not in the frontier (any more)")
            found[worker] = await asyncio.to_thread(
                part_of, worker, entries, [piece or b"" for piece in pieces]
            )
        whole = await asyncio.to_thread(put_together, found)
        reading = await asyncio.to_thread(lambda: reading_of(ledger_of(found)))
        return Gathered(dict(parts), whole, reading, {})

    async def _pieces(self, scheduler: FrontierScheduler, name: str, number: int) -> list[bytes | None]:
        """Some at a time: each has up to a megabyte."""
        pieces = list[bytes | None]()
        for first in range(0, number, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, number))
            pieces += await asyncio.gather(*(scheduler.frontier.part(f"{name}:{each}") for each in some))
        return pieces

    async def share(self, gathered: Gathered) -> Kept:
        """What is published in this worker's directory. Raises as `Archive.kept`."""
        kept = await asyncio.to_thread(self.archive.kept)
        return gathered.whole.share(kept, await asyncio.to_thread(self.archive.workers))

    async def confirm(self, scheduler: FrontierScheduler, parts: Mapping[str, int]) -> None:
        """Let the others know that this worker's share is published, and so that of those that were here before."""
        workers = await scheduler.frontier.workers()
        directories = await asyncio.to_thread(self.archive.workers)
        for one in workers:
            is_own = one.worker == scheduler.worker.name
            if one.worker in directories and (is_own or self._is_gone(one, scheduler)):
                await scheduler.frontier.leave_part(f"published:{one.worker}", _stamp(parts))

    async def wait_for_publication(self, scheduler: FrontierScheduler, parts: Mapping[str, int]) -> list[str]:
        """Until each worker that lives has published its share; a sentence for each that is gone and has not."""
        while True:
            try:
                workers = await scheduler.frontier.workers()
                if scheduler.worker.name not in {one.worker for one in workers}:
                    return []  # forgotten, which nobody does before
                have_to = await asyncio.gather(
                    *(self._has_to_publish(scheduler, one, parts) for one in workers)
                )
                lacking = [one for one, has_to in zip(workers, have_to, strict=True) if has_to]
            except FrontierLost:
                return []
            except FrontierUnavailable as error:
                logger.warning("The crawl cannot be finished yet: %s", error)
            else:
                if all(self._is_gone(one, scheduler) for one in lacking):
                    return [
                        f"the share of worker {one.worker} is not published: start it again in its directory"
                        for one in lacking
                        if one.report[ENTRIES]
                    ]
            await asyncio.sleep(POLL)

    async def _has_to_publish(
        self, scheduler: FrontierScheduler, one: WorkerStatus, parts: Mapping[str, int]
    ) -> bool:
        if ENTRIES not in one.report or one.worker == scheduler.worker.name:
            return False
        return await scheduler.frontier.part(f"published:{one.worker}") != _stamp(parts)

    def _is_gone(self, one: WorkerStatus, scheduler: FrontierScheduler) -> bool:
        if one.worker == scheduler.worker.name:
            return False
        silent = scheduler.clock() - one.last_seen
        is_alone = not is_shared(self._crawler.settings)
        return is_alone or bool(one.report.get(LEFT)) or silent >= scheduler.worker.lease_seconds

    async def _head(self, scheduler: FrontierScheduler, name: str) -> dict[str, int]:
        """What a part is made of; zeros when there is none."""
        found = await scheduler.frontier.part(name)
        if found is None:
            return dict.fromkeys(_HEAD, 0)
        with contextlib.suppress(ValueError):
            head = orjson.loads(found)
            if type(head) is dict and all(_is_count(head.get(key), most) for key, most in _HEAD.items()):
                return {key: head[key] for key in _HEAD}
        raise FrontierDamaged(f"the part {name} that somebody has left cannot be read")


def _is_count(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def _stamp(parts: Mapping[str, int]) -> bytes:
    """Tells one division of a catalogue from another."""
    return hashlib.sha256(orjson.dumps(dict(parts), option=orjson.OPT_SORT_KEYS)).digest()
