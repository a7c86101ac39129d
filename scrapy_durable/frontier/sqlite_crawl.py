"""A worker on a crawl in a SQLite file: its transactions, its clock, and whether it has joined."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scrapy_durable.exceptions import FrontierLost
from scrapy_durable.frontier.contract import SlotLimit, counted_on
from scrapy_durable.frontier.sqlite_change import Change
from scrapy_durable.frontier.sqlite_file import FrontierFile
from scrapy_durable.frontier.sqlite_statements import CRAWL, EXCHANGE


class SqliteCrawl:
    """What all methods of `SqliteFrontier` stand on; its docstring tells the arguments."""

    def __init__(
        self,
        path: Path | None,
        *,
        worker: str,
        lease_seconds: float = 60,
        max_attempts: int = 5,
        limits: Mapping[str, SlotLimit],
        default_limit: SlotLimit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = FrontierFile(path)
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._limits = limits
        self._default_limit = default_limit
        self._clock = clock
        self._crawl_id: str | None = None
        self._log: str | None = None
        self._ahead = 0.0

    async def time(self) -> float:
        """The machine's clock."""
        return self._clock()

    async def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()
        self._log = None

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        with self._file.transaction(write=write) as db:
            yield db

    def _change(self, db: sqlite3.Connection, now: float) -> Change:
        return Change(
            db,
            now=now,
            worker=self._worker,
            lease_seconds=self._lease_seconds,
            max_attempts=self._max_attempts,
            limits=self._limits,
            default_limit=self._default_limit,
        )

    def _joined(self, db: sqlite3.Connection) -> Change:
        """The change of a worker that has joined the crawl that is there; raises `FrontierLost` otherwise."""
        row = db.execute(EXCHANGE.read_crawl).fetchone()
        if self._crawl_id is None or row is None or row[0] != self._crawl_id:
            raise FrontierLost(f"crawl {self._crawl_id} is no longer in {self._file.place}")
        now, self._ahead = self._keep_time(db)
        change = self._change(db, now)
        db.execute(EXCHANGE.sign_of_life, (self._worker, change.now))
        return change

    def _time(self, db: sqlite3.Connection) -> tuple[float, float]:
        """The crawl's time, and by how much it is ahead of the machine's."""
        return counted_on(self._clock(), *(db.execute(CRAWL.clock).fetchone() or (0.0, 0.0)))

    def _keep_time(self, db: sqlite3.Connection) -> tuple[float, float]:
        """The same, kept with the crawl; whoever sets a time by it has to."""
        now, ahead = self._time(db)
        db.execute(CRAWL.keep_clock, (now, ahead))
        return now, ahead
