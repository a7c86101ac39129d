"""The item logs of a crawl in a SQLite file, and what is remembered for them.

The file is locked by one process, so a log that this frontier has joined is nobody else's while it is open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from scrapy_durable.exceptions import FrontierError, LogAbandoned
from scrapy_durable.frontier.contract import LogStatus, Outbox
from scrapy_durable.frontier.log_names import MOST_LOGS, checked_log_name, too_many_logs
from scrapy_durable.frontier.sqlite_change import Change
from scrapy_durable.frontier.sqlite_crawl import SqliteCrawl
from scrapy_durable.frontier.sqlite_statements import load_statements

LOGS = load_statements("logs")


def read_logs(db: sqlite3.Connection) -> list[LogStatus]:
    """Those that have joined the crawl, by name."""
    return [
        LogStatus(name, worker, unconfirmed, bool(closed), bool(abandoned), last_seen)
        for name, worker, unconfirmed, closed, abandoned, last_seen in db.execute(LOGS.list)
    ]


class SqliteLogs(SqliteCrawl):
    """What `SqliteFrontier` does for item logs; see the contract."""

    async def join_log(self, log: str) -> list[int]:
        """Take the log over, and return what is remembered for it."""
        name = checked_log_name(log)
        with self._transaction() as db:
            self._joined(db)
            found = db.execute(LOGS.find, (name,)).fetchone()
            if found is None and db.execute(LOGS.count).fetchone()[0] >= MOST_LOGS:
                raise too_many_logs(name, self._file.place)
            if found is not None and found[2]:
                raise LogAbandoned(name)
            db.execute(LOGS.join, (name, self._worker))
            tokens = [token for (token,) in db.execute(LOGS.tokens, (name,))]
        self._log = name
        return tokens

    async def claim_items(self, keys: Sequence[str]) -> list[bool]:
        """All of them: nobody else crawls here."""
        with self._transaction(write=False) as db:
            self._joined(db)
            if not self._has_log(db):
                raise FrontierError(f"worker {self._worker} has no item log")
        return [True] * len(keys)

    async def close_log(self) -> None:
        """Note that this worker's log is done with."""
        with self._transaction() as db:
            self._joined(db)
            name = self._log
            if name is None or not self._has_log(db):
                raise FrontierError(f"worker {self._worker} has no item log")
            (unconfirmed,) = db.execute(LOGS.unconfirmed, (name,)).fetchone()
            if unconfirmed:
                raise FrontierError(f"the item log {name} has {unconfirmed} leases unconfirmed")
            db.execute(LOGS.close, (name,))

    async def logs(self) -> list[LogStatus]:
        """Those that have joined the crawl, by name."""
        if self._file.is_absent():
            return []
        with self._transaction(write=False) as db:
            return read_logs(db)

    async def abandon_log(self, name: str) -> int | None:
        """Give the log up; returns how many leases were unconfirmed."""
        if self._file.is_absent():
            return None
        with self._transaction() as db:
            if db.execute(LOGS.find, (name,)).fetchone() is None:
                return None
            db.execute(LOGS.abandon, (name,))
            return db.execute(LOGS.drop, (name,)).rowcount

    def _note_logged(self, db: sqlite3.Connection, change: Change, outbox: Outbox) -> None:
        """Acknowledge and remember what is logged, and forget what is confirmed."""
        if not self._has_log(db, raising=False):
            change.stale += outbox.logged
            return
        if accepted := change.finish(outbox.logged):
            db.executemany(LOGS.remember, [(token, self._log) for token in accepted])
            db.execute(LOGS.reopen, (self._log,))
        db.executemany(LOGS.confirm, [(token, self._log) for token in outbox.confirmed])

    def _has_log(self, db: sqlite3.Connection, *, raising: bool = True) -> bool:
        """Whether the log that this worker has joined is still its own. `raising`: `LogAbandoned` for one given up."""
        found = None if self._log is None else db.execute(LOGS.find, (self._log,)).fetchone()
        if found is None or found[0] != self._worker:
            return False
        if found[2] and raising:
            raise LogAbandoned(self._log or "")
        return not found[2]
