"""Single listings erased wherever this project keeps them; a crawl that runs, or can go on, is never touched."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from carscraper.api.leave_out import leave_out_listings, listings_in
from carscraper.catalogue.searches import output_directories
from carscraper.changes.log import CHANGES_JSONL, DRAFTS, Changes
from carscraper.config import Config
from carscraper.core_settings import stored_responses, with_core_settings
from carscraper.erasure.files import erase_kept, erase_ledger, erase_records, erase_report
from carscraper.exceptions import InUse, StoreError
from carscraper.monitoring.report import utc
from carscraper.output.archive import CARS, CARS_JSON, CRAWLS, INCOMPLETE_JSON, LEDGER
from carscraper.output.occupancy import Quiet
from carscraper.responses.pages import PageName
from carscraper.stores.backlog import waiting_in
from carscraper.stores.build import SETTINGS, build_database
from scrapy_durable.exceptions import ConfigurationError, DurableError, ForeignFile, cause
from scrapy_durable.frontier.build import build_frontier, is_resumable, is_shared
from scrapy_durable.item_log import segments_in

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from carscraper.stores.contract import Database
    from scrapy_durable.responses.contract import ResponseStore

SPIDER = "cars"
_RUN_JSON = "run.json"
_UNREADABLE = (DurableError, OSError, ValueError, KeyError, TypeError)
"""What a file that is damaged or none of ours leads to."""


class Erasure:
    """Erases these listings; `say` is given a line for each place where one was found, or that cannot be reached."""

    def __init__(self, settings: BaseSettings, ids: Iterable[str], say: Callable[[str], None]) -> None:
        """Raises `ConfigurationError` for settings, and addresses of databases, that are refused."""
        self._settings = settings
        self._config = Config.from_settings(settings)
        self._ids = frozenset(ids)
        self._say = say
        self._databases = [found for key in SETTINGS if (found := build_database(settings, key)) is not None]
        self._places = output_directories(self._config.output_dir)
        self._quiet = Quiet(place / CRAWLS for place in self._places)
        self.found: set[str] = set()
        """The listings that were found anywhere."""
        self.failed = False
        """True when a place could not be reached, or what it has could not be read."""

    async def run(self) -> None:
        """Erase them. Raises `InUse` when a crawl runs here, or can go on, or what waits for a database names one of
        them; `FrontierError` and `ConfigurationError` when that cannot be found out. Nothing is erased then, unless
        a crawl began meanwhile.
        """
        with contextlib.closing(self._quiet):
            self._quiet.take()
            await self._refuse_unfinished()
            self._refuse_waiting()
            self._try(self._config.output_dir / CHANGES_JSONL, self._erase_changes, "removed")
            for place in self._places:
                self._erase_files(place)
            for directory in self._quiet.directories:
                self._erase_kept(directory)
            for settings, place_name in self._response_stores():
                await self._erase_responses(settings, place_name)
            for broken in sorted(self._config.output_dir.glob("responses.sqlite.broken-*[0-9]Z")):
                self._fail(f"{broken}: cannot be read; remove it")
            for database in self._databases:
                await self._erase_from(database)

    # What stands in the way

    async def _refuse_unfinished(self) -> None:
        """Raise `InUse` when the frontier holds a crawl: it can go on, and its requests and dead letters carry
        listings.
        """
        if not is_resumable(self._settings):
            return
        if (
            not is_shared(self._settings)
            and not (Path(self._settings["JOBDIR"]) / "frontier.sqlite").exists()
        ):
            return
        frontier = build_frontier(self._settings, worker="scrapy-erase", spider=SPIDER)
        try:
            status = await frontier.status()
        finally:
            await frontier.close()
        if status.crawl_id is not None:
            raise InUse(
                f"crawl {status.crawl_id} has not ended, and its requests may hold the listing: finish it "
                "(`scrapy queue retry-dead`, and the same command again), or `scrapy queue forget`"
            )

    def _refuse_waiting(self) -> None:
        """Raise `InUse` when a record of them waits for a database, which would bring it back."""
        wanted = [f'"{listing}"'.encode() for listing in self._ids]
        for key in SETTINGS:
            for waiting in waiting_in(self._config.output_dir, key):
                if waiting.names(wanted):
                    raise InUse(
                        f"{waiting.directory} names the listing, and waits for a database: `scrapy deliver` first"
                    )

    # Files

    def _erase_files(self, place: Path) -> None:
        for name in (CARS_JSON, INCOMPLETE_JSON):
            self._try(place / name, lambda path: erase_records(path, self._ids, self._quiet.take), "removed")
        self._try(place / _RUN_JSON, lambda path: erase_report(path, self._ids), "its reason removed")
        for name in (CARS_JSON, INCOMPLETE_JSON, _RUN_JSON):
            self._remove_drafts(place, f".{name}.*.tmp")

    def _erase_changes(self, path: Path) -> list[str]:
        """Before `cars.json`: whoever compares with that leaves out what has a tombstone."""
        found = Changes(path.parent).erase(self._ids, utc(time.time()))
        self._remove_drafts(path.parent, DRAFTS)
        return found

    def _erase_kept(self, directory: Path) -> None:
        for kind, erase, what in (
            (CARS, erase_kept, "removed"),
            (LEDGER, erase_ledger, "its reason removed"),
        ):
            for log in sorted(directory.glob(f"[!.]*/{kind}")):
                for path in segments_in(log):
                    self._try(path, lambda path, erase=erase: erase(path, self._ids), what)  # type: ignore[misc]
                self._remove_drafts(log, ".*.tmp")

    def _remove_drafts(self, directory: Path, pattern: str) -> None:
        """Of a process that was killed: nobody reads them, and nobody works here now."""
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)

    def _try(self, path: Path, erase: Callable[[Path], list[str]], what: str) -> None:
        try:
            self._note(str(path), erase(path), what)
        except FileNotFoundError:
            return
        except _UNREADABLE as error:
            why = cause(error) if isinstance(error, OSError) else str(error)
            self._fail(f"{path} is left alone: {why}")

    # The response store

    def _response_stores(self) -> list[tuple[BaseSettings, str]]:
        """The settings that lead to each, and its name; a file that is left of crawls without Redis is one too."""
        path = self._config.output_dir / "responses.sqlite"
        stores = [(self._settings, "the response store on Redis")] if is_shared(self._settings) else []
        if path.exists():
            alone = self._settings.copy()
            alone.set("REDIS_URL", None, priority="cmdline")
            stores.append((alone, str(path)))
        return stores

    async def _erase_responses(self, settings: BaseSettings, name: str) -> None:
        store = stored_responses(with_core_settings(settings), spider=SPIDER)
        try:
            await store.open()
            if why := await store.unreadable():
                self._fail(f"{name}: {why}")
                return
            for crawl in await store.crawls():
                place = f"{name}: pages of crawl {crawl.crawl_id}"
                await self._erase_pages(store, crawl.crawl_id, crawl.keys, place)
        except (ConfigurationError, ForeignFile, ValueError) as error:
            self._fail(f"{name}: {error}")
        finally:
            await store.close()

    async def _erase_pages(self, store: ResponseStore, crawl_id: str, keys: list[str], place: str) -> None:
        """All pages of a pass that has one of them, since each page tells how many listings there are. One who is
        killed on the way leaves pages that differ in that, so that the crawl, reparsed, cannot be called complete.
        """
        found: Counter[str] = Counter()
        passes: dict[int, set[str]] = {}
        unread = set(keys)
        async for stored in store.iterate(crawl_id):
            unread.discard(stored.key)
            if named := listings_in(stored.body, self._ids):
                found.update(named)
                passes.setdefault(PageName.parse(stored.key).pass_number, set()).update(named)
        if unread:
            self._fail(f"{place}: {len(unread)} cannot be read")
        lost = 0
        async for stored in store.iterate(crawl_id):
            if gone := passes.get(PageName.parse(stored.key).pass_number):
                # One that cannot be written again is no page any more: the crawl, reparsed, lacks it and says so.
                body = leave_out_listings(stored.body, gone) or b""
                lost += not await store.rewrite(crawl_id, stored.key, body)
        self._note(place, found.elements(), "removed")
        if lost:
            self._fail(f"{place}: {lost} could not be written again")

    # Databases

    async def _erase_from(self, database: Database) -> None:
        place = f"{database.name} at {database.target}"
        try:
            await database.open()
            found = [listing for listing in sorted(self._ids) if await database.erase([listing])]
            self._note(place, found, "removed with its prices")
        except StoreError as error:
            self._fail(f"{database.name}: {error}")
        finally:
            await database.close()

    # What is said

    def _note(self, place: str, found: Iterable[str], what: str) -> None:
        counts = Counter(found)
        self.found.update(counts)
        if counts:
            listings = ", ".join(
                listing if number == 1 else f"{listing} ({number} times)"
                for listing, number in sorted(counts.items())
            )
            self._say(f"{place}: {what}: {listings}")

    def _fail(self, line: str) -> None:
        self.failed = True
        self._say(f"NOT erased there: {line}")
