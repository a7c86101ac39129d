"""The extension that leaves a line at a run's start, and one at its end."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_durable.config import Config
from scrapy_durable.engine import is_at_a_command
from scrapy_durable.exceptions import cause
from scrapy_durable.identity import crawl_clock, crawl_identity, new_crawl_id
from scrapy_durable.running import exit_status, lifecycle_of
from scrapy_durable.runs.file import BEGUN, ENDED, append_run

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Self

    from scrapy.crawler import Crawler

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

    A site adds what it knows in a class of its own that derives from this one. `shape_of` is asked for each item that
    was passed on, `filled_in` for each shape once in a while.
    """

    def __init__(self, crawler: Crawler, path: Path) -> None:
        self._crawler = crawler
        self._path = path
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

    def status(self) -> int:
        """The exit status that the process will have."""
        return exit_status(self._crawler)

    # What holds for every site

    def _on_opened(self) -> None:
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
            "begun": _utc(now),
            "host": socket.gethostname(),
            "pid": os.getpid(),
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

    def _on_stopped(self) -> None:
        """Once the verdict is there and the feeds are stored."""
        if self._begun:
            self._append({**self._begun, "state": ENDED, **self._numbers(), **self.details()})
            self._begun = {}

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
        return {
            "ended": _utc(crawl_clock(self._crawler)()),
            "seconds": round(time.monotonic() - self._started, 1),
            "reason": self._reason,
            "verdict": _verdict(status, self._reason, known=verdict is not None),
            "reasons": [str(reason)[:_LONGEST_REASON] for reason in reasons[:_MOST_REASONS]],
            "exit_status": status,
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
