"""What a feed is to become: its address, its options, and what is noted of it."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.extensions.feedexport import FileFeedStorage

from scrapy_durable.engine.feeds import FeedParts, Slot
from scrapy_durable.exceptions import cause
from scrapy_durable.feeds.files import incomplete
from scrapy_durable.feeds.notes import Note, known_as
from scrapy_durable.plain import without_secrets

if TYPE_CHECKING:
    from scrapy_durable.feeds.reading import Position

logger = logging.getLogger(__name__)


_NO_ANSWER = 2
"""Beside True and False: the filter has failed."""


@dataclass(slots=True)
class Plan:
    """One feed of the settings, in this crawl."""

    parts: FeedParts
    template: str
    """The address as the settings have it."""
    options: dict[str, Any]
    note: Note
    uri: str
    """The address with its parameters filled in."""
    is_new: bool
    """The crawl has no note of it yet."""
    save: Callable[[], None]
    """Saves the notes. Raises `OSError`."""
    log_is_whole: Callable[[], bool]
    """True while no item of the crawl has been deleted from the log."""
    begun_at: float
    """When the crawl began, in seconds since the epoch."""

    def rename(self) -> None:
        """Fill in the address, for the batch that is noted. Raises whatever the project's `uri_params` raises."""
        self.uri = self.address()
        self.note.uri = known_as(self.uri)
        if self.note.path:
            self.note.path = local_path(self.uri)

    def address(self, **fixed: Any) -> str:
        """The address, with `fixed` in place of what holds for this worker."""
        values = {
            "time": _written(self.begun_at, "seconds"),
            "batch_time": _written(self.note.batch_time, "microseconds"),
            "batch_id": self.note.batch_id,
            **fixed,
        }
        return self.parts.address(self.template, self.options, **values)

    @property
    def name(self) -> str:
        """As logs have it."""
        return without_secrets(self.uri)

    @property
    def path(self) -> Path | None:
        """The file of this machine that it ends in."""
        return Path(self.note.path) if self.note.path else None

    @property
    def overwrite(self) -> bool:
        """Whether it takes the place of what has its name."""
        return self.note.overwrite

    @property
    def store_empty(self) -> bool:
        """Whether a file without items is wanted."""
        return bool(self.options["store_empty"])

    def slot(self) -> Slot:
        """What writes the file. Raises whatever a storage raises."""
        return self.parts.slot(self.template, self.options, self.uri, self.note.batch_id)

    async def tell_stored(self, slot: Slot) -> None:
        """Say that a file is stored, as Scrapy does.

        Stat: `feedexport/success_count/<Storage>`. Signal: `feed_slot_closed`.
        """
        crawler = self.parts.crawler
        logger.info(
            "Stored %s feed (%d items) in: %s",
            slot.format,
            slot.itemcount,
            self.name,
            extra={"spider": crawler.spider},
        )
        crawler.stats.inc_value(f"feedexport/success_count/{type(slot.storage).__name__}")
        await crawler.signals.send_catch_log_async(signals.feed_slot_closed, slot=slot)


def local_path(uri: str) -> str:
    """The file that an address of Scrapy's file storage names, behind all symbolic links."""
    return os.path.realpath(FileFeedStorage(uri).path)


def _written(seconds: float, precision: str) -> str:
    """A time as Scrapy writes it into addresses."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec=precision).replace(":", "-")


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a feed is."""

    feed: str
    """Its address, without secrets."""
    stored: bool
    """It is there, with all items of the crawl."""
    at: str | None
    """The file with what there is of it; None when there is none on this machine."""


class Feed(ABC):
    """One feed of the item log."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.note = plan.note
        self.has_failed = False
        """Not to be tried again for now."""
        self._trouble = ""
        self._answers = bytearray()
        """What the filter has said of the items behind the position that is noted."""
        self._asked = 0
        self._has_named_item = False

    @property
    @abstractmethod
    def reads_from(self) -> Position:
        """What it takes next comes after that position."""

    @property
    def made_at(self) -> Path | None:
        """The file of this machine that it is made in."""
        return incomplete(self.plan.path) if self.plan.path is not None else None

    @property
    def whereabouts(self) -> Whereabouts:
        """Where it is, or what there is of it."""
        at = self.plan.path if self.note.stored else self.made_at
        return Whereabouts(self.plan.name, self.note.stored, str(at) if at and at.exists() else None)

    @property
    def is_at_its_end(self) -> bool:
        """Whether it should have read all of the log before `finish`."""
        return True

    @abstractmethod
    def open(self) -> None:
        """Take hold of its file, before the crawl begins. Raises `ConfigurationError` and `OSError`."""

    def withdraw(self) -> None:
        """The crawl is refused before it has begun: let go of the file, and leave no trace of it."""
        self.close()

    @abstractmethod
    async def finish(self, complete: bool) -> bool:
        """The crawl has ended, and the feed has read the log to its end, if it reads it at all before."""

    @abstractmethod
    def close(self) -> None:
        """Let go of its file; `open` or the next step takes hold of it again."""

    def put(self, slot: Slot, item: Any) -> bool:
        """Write the next item of the log, if the feed's filter accepts it; False when it could not be written.

        Stat: `feeds/not_exported`. Raises `OSError` when it is the file that refuses.
        """
        try:
            if self._accepts(slot, item):
                slot.put(item)
                slot.itemcount += 1
        except Exception as error:
            if isinstance(error, OSError) and slot.sink is None:
                raise
            self.plan.parts.crawler.stats.inc_value("feeds/not_exported")
            if not self._has_named_item:
                self._has_named_item = True
                logger.error(
                    "An item cannot be written to %s, which lacks it; more such items are counted, and not named",
                    self.plan.name,
                    exc_info=True,
                )
            return False
        return True

    def start_over(self) -> None:
        """What comes next is what stands behind the position that is noted. The filter has answered for some of it
        already, and is not asked twice: it may be one that lets everything pass once.
        """
        self._asked = 0

    def keep(self) -> None:
        """The position that is noted is behind all that was put."""
        self._asked = 0
        self._answers.clear()

    def _accepts(self, slot: Slot, item: Any) -> bool:
        place, self._asked = self._asked, self._asked + 1
        if place == len(self._answers):
            self._answers.append(_NO_ANSWER)
        if self._answers[place] == _NO_ANSWER:
            self._answers[place] = bool(slot.filter.accepts(item))
        return bool(self._answers[place])

    def fail(self, error: Exception) -> None:
        """Something that concerns this feed alone went wrong: it is tried again, from what is noted."""
        self.close()
        self.has_failed = True
        if (reason := cause(error)) != self._trouble:
            self._trouble = reason
            logger.error("The feed %s cannot be written for now: %s", self.plan.name, reason)
            logger.debug("It failed here", exc_info=error)

    def tell_incomplete(self, made_at: Path | None) -> None:
        """Say where that is which a crawl has that is not complete; `made_at` is None when it is nowhere."""
        if made_at is None:
            logger.warning("The crawl is not complete: %s is not stored", self.plan.name)
        else:
            logger.warning("The crawl is not complete: what it has for %s is in %s", self.plan.path, made_at)

    def recovered(self) -> None:
        """It works again."""
        self._trouble = ""
