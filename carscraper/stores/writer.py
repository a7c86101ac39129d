"""One database as the delivery writes to it: opened again when it did not answer, with a word when that changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from carscraper.catalogue.ids import PackedIds
from carscraper.exceptions import StoreUnavailable
from carscraper.items import Removal
from carscraper.stores.contract import Database, Refused
from carscraper.stores.record import SHAPELESS, Draft, Record

logger = logging.getLogger(__name__)


class Writer:
    """Writes what it is given in its order. What the database cannot hold is set aside before it counts as written."""

    def __init__(self, database: Database, on_set_aside: Callable[[Refused], Awaitable[None]]) -> None:
        self.written = 0
        """Records that reached the database."""
        self.problem = ""
        """What the database said, or the system for it, when it did not answer last; empty while it does."""
        self.is_down = False
        self._database = database
        self._on_set_aside = on_set_aside
        self._connected = False

    async def open(self) -> None:
        """Connect, unless that is done. Raises `StoreUnavailable` and `StoreRefused`."""
        if not self._connected:
            await self._database.open()
            self._connected = True

    async def write(self, elements: Sequence[Draft | Removal]) -> None:
        """Raises `StoreUnavailable` and `StoreRefused`; the same call may be made again."""
        drafts: list[Draft] = []
        for element in elements:
            if isinstance(element, Draft):
                drafts.append(element)
                continue
            await self._upsert(drafts)
            drafts = []
            seen = PackedIds.from_texts(element.seen)
            gone = await self._database.mark_removed(seen, element.begun_at, element.removed_at)
            logger.info("%s: %d listings are marked as removed", self._database.name, gone)
        await self._upsert(drafts)

    async def _upsert(self, drafts: list[Draft]) -> None:
        records: list[Record] = []
        refused: list[Refused] = []
        for draft in drafts:
            try:
                records.append(draft.record)
            except SHAPELESS as error:
                refused.append(Refused(draft.id, draft.url, f"no row can be made of it: {error!r}"))
        if records:
            refused += await self._database.upsert(records)
        for one in refused:
            await self._on_set_aside(one)
        self.written += len(drafts) - len(refused)

    def note_down(self, error: StoreUnavailable) -> None:
        """It does not answer, and has to be opened again."""
        self._connected = False
        self.problem = str(error)
        if not self.is_down:
            self.is_down = True
            logger.warning(
                "%s does not answer (%s); records wait on disk until it does", self._database.name, error
            )

    def note_up(self, waiting: int) -> None:
        """It has taken something; so many records wait for it."""
        self.problem = ""
        if self.is_down:
            self.is_down = False
            logger.info("%s answers again; %d records wait for it", self._database.name, waiting)

    def trim(self) -> None:
        """Nothing comes for now."""
        self._database.trim()

    async def close(self) -> None:
        """Let go of the database."""
        await self._database.close()
