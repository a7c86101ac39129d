"""What one database has not got yet of the records that one process has logged.

Beside the log of the process stand, for each database that is meant to have its records:

    <directory of the process>/<key>.position    how far the database is; absent when nothing waits for it
    <directory of the process>/.<key>.lock       held by whoever delivers: the process itself, later one that adopts it

The position is JSON: the database (`target`), the number of a segment of the log, and how many of its items the
database has; it has all of those before. It is written behind what it says, so records are delivered at least once.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import orjson

from carscraper.exceptions import BacklogDamaged
from carscraper.output.archive import CARS, LogPosition, crawls_in, mapped
from carscraper.output.occupancy import POSITION, join
from scrapy_durable.disk import write_atomically
from scrapy_durable.exceptions import DurableError
from scrapy_durable.item_log import flushed_items, segments_from

_READ_BYTES = 4 << 20
"""How much is read at once: about a thousand cars."""


BEGINNING = LogPosition(0, 0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A log of which something waits for a database, as it looks from outside."""

    directory: Path
    """Of the process that has written it."""
    target: str | None
    """The database that it waits for; None when that cannot be read."""
    in_use: bool
    """A process has it, and delivers what is in it."""
    position: LogPosition
    """Behind what was delivered; the beginning when that cannot be read."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, which the process that has written it could not say any more. Raises as `names`."""
        try:
            return next(entries_behind(self.directory, self.position), None) is None
        except (BacklogDamaged, OSError):
            if self.directory.exists():
                raise
            return True  # somebody has delivered and removed it meanwhile

    def names(self, texts: list[bytes]) -> bool:
        """Whether one of these is in what waits. Raises `BacklogDamaged` and `OSError`."""
        entries = entries_behind(self.directory, self.position)
        return any(text in entry for _, entry in entries for text in texts)


class Backlog:
    """The log of one process, on its way to one database; held by one process until `close`."""

    def __init__(self, directory: Path, key: str, target: str, locks: list[IO[bytes]]) -> None:
        """`directory` is that of the process; `locks` are closed with it."""
        self.directory = directory
        self.position = BEGINNING
        """Behind what was delivered."""
        self.waiting = 0
        """How many entries waited when they were counted last."""
        self._file = directory / f"{key}{POSITION}"
        self._target = target
        self._locks = locks
        self._read: list[LogPosition] = []
        """Behind each entry that was read last."""

    @classmethod
    def begin(cls, directory: Path, key: str, target: str) -> Backlog:
        """That of this process, which begins to log. Raises `OSError`."""
        lock = _lock(directory, key)
        if lock is None:
            raise OSError(f"{directory} is in use by another process")
        backlog = cls(directory, key, target, [lock])
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(lock.close)
            backlog.note()
            on_failure.pop_all()
        return backlog

    @classmethod
    def adopt(cls, directory: Path, key: str, target: str) -> Backlog | None:
        """What a process has left that is gone; None when it is not, or somebody else has it, or nothing waits.

        Raises `BacklogDamaged` when it cannot be read, or waits for another database, and `OSError`.
        """
        with contextlib.ExitStack() as on_failure:
            crawl = join(directory.parent)
            if crawl is None:
                return None
            on_failure.callback(crawl.close)
            lock = _lock(directory, key)
            if lock is None:
                return None
            on_failure.callback(lock.close)
            backlog = cls(directory, key, target, [lock, crawl])
            if not backlog._file.exists():
                return None
            found, backlog.position = _read_position(backlog._file)
            if found != target:
                raise BacklogDamaged(f"{directory}: waits for {found}")
            on_failure.pop_all()
        return backlog

    @property
    def name(self) -> str:
        """Of the process that has written it."""
        return process_of(self.directory)

    def count(self) -> None:
        """Find out how many entries wait. Raises `BacklogDamaged` and `OSError`."""
        self.waiting = sum(1 for _ in entries_behind(self.directory, self.position))

    def read(self, most: int) -> list[bytes]:
        """The first of them, some megabytes at most but one whatever its size. Raises as `count`."""
        entries: list[bytes] = []
        self._read = []
        size = 0
        for position, entry in entries_behind(self.directory, self.position):
            size += len(entry)
            if entries and size > _READ_BYTES:
                break
            entries.append(entry)
            self._read.append(position)
            if len(entries) >= most:
                break
        return entries

    def drop(self, entries: int) -> None:
        """So many of those that were read last are delivered. Where that cannot be noted they are delivered again, with
        no harm.
        """
        if entries:
            self.position = self._read[entries - 1]
            with contextlib.suppress(OSError):
                self.note()

    def note(self) -> None:
        """Have the position outlive this process. Raises `OSError`."""
        found = {"target": self._target, "segment": self.position.segment, "items": self.position.items}
        write_atomically(self._file, [orjson.dumps(found), b"\n"])

    def remove(self) -> None:
        """Nothing waits any more. Raises `OSError`."""
        self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have it."""
        for lock in self._locks:
            lock.close()


def waiting_in(output_dir: Path, key: str) -> list[Waiting]:
    """The logs of which something waits for a database, the oldest crawl first; nothing is taken over or changed.

    Raises `OSError`.
    """
    found = []
    for crawl in crawls_in(output_dir):
        for position in sorted(crawl.glob(f"[!.]*/{key}{POSITION}")):
            target, at = None, BEGINNING
            try:
                lock = _lock(position.parent, key)
            except FileNotFoundError:
                continue  # somebody has delivered and removed it meanwhile
            try:
                target, at = _read_position(position)
            except BacklogDamaged:
                pass
            except FileNotFoundError:
                continue
            finally:
                if lock is not None:
                    lock.close()
            found.append(Waiting(position.parent, target, lock is None, at))
    return found


def entries_behind(directory: Path, after: LogPosition) -> Iterator[tuple[LogPosition, bytes]]:
    """What the log of a process has behind a position, and the position behind each. Raises `BacklogDamaged` and
    `OSError`.
    """
    try:
        for path in segments_from(directory / CARS, after.segment):
            number = int(path.stem)
            passed = after.items if number == after.segment else 0
            with mapped(path) as content:
                for items, (begin, end) in enumerate(flushed_items(path, content), 1):
                    if items > passed:
                        yield LogPosition(number, items), content[begin:end]
    except DurableError as error:
        raise BacklogDamaged(str(error)) from error


def process_of(directory: Path) -> str:
    """The name of the process whose log is in that directory."""
    return directory.name.partition("-")[2]


def _read_position(path: Path) -> tuple[str, LogPosition]:
    """Raises `BacklogDamaged` and `OSError`."""
    try:
        match orjson.loads(path.read_bytes()):
            case {"target": str(target), "segment": int(segment), "items": int(items)}:
                return target, LogPosition(segment, items)
    except orjson.JSONDecodeError:
        pass
    raise BacklogDamaged(f"{path}: is no position in a log")


def _lock(directory: Path, key: str) -> IO[bytes] | None:
    """Until the file is closed, however that comes; None when another has it. Raises `OSError`."""
    file = (directory / f".{key}.lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
