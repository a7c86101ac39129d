"""What is noted of each feed, in `feeds.json` beside the item log: how far it is, so that a killed crawl goes on.

    {"version": 1, "log": "5f0c…", "released": [3, 4096, 0], "feeds": {"cars.jsonl": {…}, …}}

`log` is the name of the log that the notes are about, which no other crawl has. `released` is the position up to which
items may have been deleted. A feed is known by its address as the settings have it, without user and password.

If the process dies between two notes, the file is the earlier one: what each feed does then stands in its module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from scrapy_durable.disk import write_atomically
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.item_log import BEGINNING, Position

NAME = "feeds.json"
UNKNOWN = -1
"""In place of a batch's `base`, while its address is not filled in yet."""
_VERSION = 1
_USER = re.compile(r"^([a-z][a-z0-9+.-]*://)([^/?#]*@)?", re.IGNORECASE)


@dataclass(slots=True)
class Growth:
    """What is about to be written to a growing feed, and what is noted of it once that is there."""

    length: int
    checksum: int
    position: Position
    items: int
    lacking: int
    columns: list[str] | dict[str, str] | None


@dataclass(slots=True)
class Note:
    """What is noted of one feed. Sizes are in bytes; what does not concern a kind of feed stays as it is here."""

    kind: str
    format: str
    uri: str = ""
    """The address with its parameters filled in, without user and password; of batches, that of the next one."""
    path: str = ""
    """The file that the feed ends in; empty when it is none of this machine."""
    overwrite: bool = False
    """It takes the place of what has its name."""
    position: Position = BEGINNING
    """The feed has what is before."""
    stored: bool = False
    """The feed is where it belongs, with all items of the crawl."""
    items: int = 0
    lacking: int = 0
    """Items that could not be written."""
    damaged: bool = False
    """Items that were in it are lost, and no longer in the log."""
    base: int = 0
    """What was in the file before the crawl: it is never cut below that."""
    size: int = 0
    """How much of the file is known to be as it should."""
    tail: tuple[int, int] = (0, 0)
    """How much at the end of that was summed up, and its CRC-32."""
    can_be_cut: bool = True
    """False when there is something of others behind what the crawl has written first."""
    made: bool = False
    """The file was not there before."""
    columns: list[str] | dict[str, str] | None = None
    """Of CSV, once its header is there."""
    next: Growth | None = None
    placing: bool = False
    """The file is about to be put in place, or is in place."""
    batch_id: int = 1
    batch_time: float = 0.0
    """Seconds since the epoch."""


@dataclass(slots=True)
class Notes:
    """The notes of all feeds of one worker. `released` is what the file says; see `save`."""

    path: Path
    log: str
    begun_at: float
    released: Position = BEGINNING
    feeds: dict[str, Note] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    """Puts on disk what has to be there before the notes are. Raises `OSError`."""
    _used: list[Note] = field(default_factory=list)
    _saved: bytes = b""

    @property
    def has_begun(self) -> bool:
        """Whether a feed has anything, or is about to."""
        return self.released != BEGINNING or any(
            note.position != BEGINNING or note.next is not None for note in self.feeds.values()
        )

    def use(self, template: str, note: Note) -> None:
        """The note of a feed of this run; others are kept, in case that their feed comes back."""
        self.feeds[known_as(template)] = note
        self._used.append(note)

    def save(self, *, at_most: Position | None = None) -> None:
        """Write what has changed; no feed needs what is before `released` any more, nor does whoever says `at_most`.

        Raises `OSError`; then the file, and `released`, are as they were.
        """
        needed = [note.position for note in self._used if not note.stored]
        if at_most is not None:
            needed.append(at_most)
        released = max(self.released, min(needed, default=self.released))
        document = {
            "version": _VERSION,
            "log": self.log,
            "released": released,
            "feeds": self.feeds,
        }
        data = orjson.dumps(document)
        if data != self._saved:
            self.before()
            write_atomically(self.path, [data])
            self._saved, self.released = data, released


def load(directory: Path, log: str, begun_at: float) -> Notes:
    """The notes about the log of that name; new ones when there are none, or those about another.

    `begun_at`: when its crawl began, in seconds since the epoch.

    Raises `ConfigurationError` for a file that cannot be read, and `OSError`.
    """
    path = directory / NAME
    try:
        document = orjson.loads(path.read_bytes())
        version = document["version"]
        if version == _VERSION and document["log"] == log:
            feeds = {name: _note(values) for name, values in document["feeds"].items()}
            return Notes(path, log, begun_at, _position(document["released"]), feeds)
    except FileNotFoundError:
        return Notes(path, log, begun_at)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    if version != _VERSION:
        raise ConfigurationError(
            f"{path} is of another release (version {version!r}, not {_VERSION}): finish the crawl with that one"
        )
    return Notes(path, log, begun_at)


def known_as(uri: str) -> str:
    """An address without user and password."""
    return _USER.sub(r"\1", uri)


def with_user_of(uri: str, fresh: str) -> str:
    """A noted address, with the user and password that the settings have for it."""
    user = _USER.match(fresh)
    return _USER.sub(lambda match: match[1] + (user[2] or "" if user else ""), uri)


def _note(values: dict[str, Any]) -> Note:
    note = Note(**values)
    note.position = _position(note.position)
    note.tail = (int(note.tail[0]), int(note.tail[1]))
    if (growth := values["next"]) is not None:
        note.next = Growth(**growth)
        note.next.position = _position(note.next.position)
    return note


def _position(value: Any) -> Position:
    segment, offset, passed = map(int, value)
    return segment, offset, passed
