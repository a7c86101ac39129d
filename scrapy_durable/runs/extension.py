"""The extension that leaves a line at a run's start, and one at its end."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_durable.config import Config
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.exceptions import cause
from scrapy_durable.identity import crawl_clock, crawl_identity, new_crawl_id
from scrapy_durable.running import arguments_of, exit_status, lifecycle_of
from scrapy_durable.runs.file import BEGUN, ENDED, append_run
from scrapy_durable.runs.findings import find
from scrapy_durable.runs.monitors import MEASURED
from scrapy_durable.runs.processes import process_mark
from scrapy_durable.runs.telling import Telling
from scrapy_durable.scheduler import frontier_scheduler

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Self

    from scrapy.crawler import Crawler

    from scrapy_durable.lifecycle import Lifecycle
    from scrapy_durable.runs.monitors import Monitor

logger = logging.getLogger(__name__)

RUNS_JSONL = "runs.jsonl"
_MOST_FIELDS = 200
"""Fields whose shares are told; a spider that makes up names must not fill the file."""
_MOST_SHAPES = 2_000
"""Shapes that are counted before their fields are."""
_MOST_REASONS, _LONGEST_REASON = 20, 500
_STATUS = "downloader/response_status_count/"


def runs_file(settings: Any) -> Path | None:
    """Where the history is: `DURABLE_RUNS_FILE`, else in `JOBDIR`; None where there is neither."""
    file = Config.from_settings(settings).runs_file
    if file is not None:
        return file
    return Path(settings["JOBDIR"]).absolute() / RUNS_JSONL if settings["JOBDIR"] else None


class RunHistory:
    """Has each run leave a line in the file that the next does not overwrite. What cannot be written is warned about,
    and fails nothing.

    The run that ends a crawl is compared with those before it; people are told (`DURABLE_NOTIFY`) when that finds
    something, when a run is not complete, and of one before it that was killed.

    A site adds what it knows in a class of its own that derives from this one. `shape_of` is asked for each item that
    was passed on, `filled_in` for each shape once in a while.
    """

    def __init__(self, crawler: Crawler, path: Path) -> None:
        self._crawler = crawler
        self._path = path
        self._config = Config.from_settings(crawler.settings)
        self._shares = True
        """False under a scheduler that keeps no leases."""
        self._telling = Telling(crawler)
        self._begun: dict[str, Any] = {}
        self._started = 0.0
        self._items = 0
        self._shapes: Counter[Hashable] = Counter()
        self._filled: Counter[str] = Counter()
        self._reason = ""
        crawler.signals.connect(self._on_opened, signals.spider_opened)
        crawler.signals.connect(self._on_item, signals.item_scraped)
        crawler.signals.connect(self._on_closed, signals.spider_closed)
        crawler.signals.connect(self._on_stopped, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` for `scrapy fetch` and the like, and where there is no file."""
        path = cls.file(crawler)
        if path is None or is_at_a_command(crawler):
            raise NotConfigured
        return cls(crawler, path)

    # What a site says

    @classmethod
    def file(cls, crawler: Crawler) -> Path | None:
        """Where the history of this spider is."""
        return runs_file(crawler.settings)

    def shape_of(self, item: Any) -> Hashable:
        """What is equal for items that hold something in the same fields; of what `ItemAdapter` does not know, those
        are none.
        """
        if not ItemAdapter.is_item(item):
            return ()
        return tuple(name for name, value in ItemAdapter(item).items() if not _is_empty(value))

    def filled_in(self, shape: Any) -> Iterable[str]:
        """The names of the fields in which items of that shape hold something."""
        names: tuple[str, ...] = shape
        return names

    def items_of(self, item: Any) -> Iterable[Any]:
        """What an item is made of, where a site passes on several as one."""
        return (item,)

    def details(self) -> dict[str, Any]:
        """What a site's own verdict tells beyond what holds for any."""
        return {}

    def measured(self, crawl: str) -> dict[str, Any]:
        """What a site's monitors compare, beside what those of any do; `crawl` is the id of the crawl."""
        return {}

    def monitors(self) -> list[tuple[str, Monitor]]:
        """A site's own, by name."""
        return []

    async def report(self, findings: list[dict[str, Any]]) -> None:
        """Have them stand in a site's own report, too. Raises `OSError`."""

    def status(self) -> int:
        """The exit status that the process will have."""
        return exit_status(self._crawler)

    # What holds for every site

    def _on_opened(self) -> None:
        self._shares = frontier_scheduler(self._crawler) is not None
        self._telling.begin(self._path)
        now = crawl_clock(self._crawler)()
        self._started = time.monotonic()
        self._begun = {
            "run": new_crawl_id(now),
            "state": BEGUN,
            "crawl": crawl_identity(self._crawler).crawl_id,
            "spider": self._crawler.spider.name if self._crawler.spider else "",
            "arguments": {
                str(name): str(value)
                for name, value in getattr(self._crawler.spider, "arguments", {}).items()
            },
            "command": _digest(self._crawler),
            "begun": _utc(now),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process": process_mark(os.getpid()) or "",
        }
        self._append(self._begun)

    def _on_item(self, item: Any) -> None:
        shapes = list(map(self.shape_of, self.items_of(item)))
        self._items += len(shapes)
        self._shapes.update(shapes)
        if len(self._shapes) > _MOST_SHAPES:
            self._count_fields()

    def _count_fields(self) -> None:
        for shape, count in self._shapes.items():
            for name in self.filled_in(shape):
                self._filled[name] += count
            while len(self._filled) > _MOST_FIELDS:
                self._filled.popitem()  # the one that came last
        self._shapes.clear()

    def _on_closed(self, reason: str) -> None:
        self._reason = reason

    async def _on_stopped(self) -> None:
        """Once the verdict is there and the feeds are stored."""
        if not self._begun:
            return
        run = {**self._begun, "state": ENDED, **self._numbers(), **self.details()}
        self._begun = {}
        if numbers := _measured(lifecycle_of(self._crawler), run):
            run[MEASURED] = numbers | self.measured(run["crawl"])
            run["findings"] = await asyncio.to_thread(find, run, self._path, self._config, self.monitors())
            await self._report(run["findings"])
        self._append(run)
        await self._telling.end(run, concludes=self._concludes())

    def _concludes(self) -> bool:
        """Whether this run ends the crawl for all its workers, and not another."""
        lifecycle = lifecycle_of(self._crawler)
        if lifecycle is None or lifecycle.numbers or not self._shares:
            return True
        return self._reason != "finished" and lifecycle.verdict is not None

    async def _report(self, findings: list[dict[str, Any]]) -> None:
        try:
            await self.report(findings)
        except OSError as error:
            logger.warning("What is unusual about this run is not in its report: %s", cause(error))

    def _numbers(self) -> dict[str, Any]:
        self._count_fields()
        stats = self._crawler.stats.get_stats()
        lifecycle = lifecycle_of(self._crawler)
        verdict = lifecycle.verdict if lifecycle else None
        reasons = [lifecycle.failure] if lifecycle and lifecycle.failure else getattr(verdict, "reasons", [])
        statuses = {
            name.removeprefix(_STATUS): count for name, count in stats.items() if name.startswith(_STATUS)
        }
        status = self.status()
        own = lifecycle is not None and (lifecycle.failure or (verdict and verdict.complete and status))
        return {
            "ended": _utc(crawl_clock(self._crawler)()),
            "seconds": round(time.monotonic() - self._started, 1),
            "reason": self._reason,
            "verdict": _verdict(status, self._reason, known=verdict is not None),
            "reasons": [str(reason)[:_LONGEST_REASON] for reason in reasons[:_MOST_REASONS]],
            "exit_status": status,
            "failed": bool(own) or self._reason not in ("finished", "shutdown"),
            "items": self._items,
            "requests": stats.get("downloader/request_count", 0),
            "statuses": dict(sorted(statuses.items())),
            "retries": stats.get("retry/count", 0),
            "dead_letters": getattr(verdict, "dead_letters", 0),
            "bytes": stats.get("downloader/response_bytes", 0),
            "fill": {name: round(count / self._items, 4) for name, count in sorted(self._filled.items())},
        }

    def _append(self, run: dict[str, Any]) -> None:
        try:
            append_run(self._path, run)
        except OSError as error:
            logger.warning("The history of runs cannot be written: %s", cause(error))


def _measured(lifecycle: Lifecycle[Any] | None, run: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the whole crawl, on the worker that has finished it."""
    if lifecycle is None or lifecycle.numbers is None:
        return {}
    numbers = lifecycle.numbers
    return {
        "kept": run.get("kept", numbers.kept),
        "requests": numbers.requests,
        "seconds": run["seconds"],
        "failed": numbers.failed,
        "dead": run["dead_letters"],
    }


def _digest(crawler: Crawler) -> str:
    """What tells runs of one spider apart that are asked for different things; the values may be secret."""
    spider = crawler.spider
    arguments = getattr(spider, "arguments", None) or arguments_of(crawler)
    asked = {str(name): str(value) for name, value in arguments.items() if name != "_job"}  # scrapyd's
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def _is_empty(value: object) -> bool:
    """By its type: an array, for one, is neither equal nor unequal to anything."""
    return value is None or (isinstance(value, str | list | dict | tuple) and len(value) == 0)


def _verdict(status: int, reason: str, *, known: bool) -> str:
    """In one word."""
    if reason != "finished":
        return "stopped"
    if status:
        return "incomplete"
    return "complete" if known else "unknown"


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
