"""The different texts that have come to a process, on disk: they become as many as a catalogue has listings."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA cache_size = -2048; BEGIN;
CREATE TABLE met (text TEXT PRIMARY KEY, round INTEGER NOT NULL) WITHOUT ROWID;
"""


class Distinct:
    """In a temporary file without a name, of which 2 MB are in memory, and which is gone with the process."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(_SCHEMA)
        self._round = 0
        self._count = 0

    def __len__(self) -> int:
        """How many different ones have come."""
        return self._count

    def add(self, texts: Collection[str]) -> list[str]:
        """Returns those that have not come before, each once, in their order. Raises `sqlite3.Error`."""
        self._round += 1
        rows = [(text, self._round) for text in texts]
        added = self._db.executemany("INSERT OR IGNORE INTO met VALUES (?, ?)", rows).rowcount
        self._count += added
        if added == len(texts):
            return list(texts)
        return [text for text in dict.fromkeys(texts) if self._came_now(text)] if added else []

    def _came_now(self, text: str) -> bool:
        found = self._db.execute("SELECT round FROM met WHERE text = ?", (text,)).fetchone()
        return bool(found == (self._round,))
