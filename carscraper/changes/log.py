"""`changes.jsonl` beside `cars.json`: appended to with each complete catalogue, erased from, cut.

    publish:   .changes.pending.jsonl  ──►  cars.json put in place  ──►  changes.jsonl appended to  ──►  pending removed

If the process dies: before `cars.json` is in place, what is pending leads to a catalogue that is not there, and is
dropped; after it, whoever comes next appends what is missing (`recover`). So readers see the lines of catalogues that
were published, all of them, in order; a line that was cut is completed. One process at a time works here
(`.changes.lock`). Nothing that is wrong with any of it keeps `cars.json` from being put in place.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from carscraper.changes.comparison import Comparison, Snapshot, comparison, digest_of
from carscraper.changes.lines import (
    ADDED,
    ERASED,
    FOUND,
    REMOVED,
    RETURNED,
    RUN,
    Head,
    Step,
    head_of,
    tombstone,
)
from carscraper.exceptions import InUse
from carscraper.output.cars_json import CARS_JSON, published_lines
from scrapy_durable.disk import flush_directory, write_atomically
from scrapy_durable.exceptions import cause

logger = logging.getLogger(__name__)

CHANGES_JSONL = "changes.jsonl"
PENDING = ".changes.pending.jsonl"
DRAFTS = ".*changes.*.tmp"
"""What a process that was killed may leave; nobody reads them."""
_LOCK = ".changes.lock"
_PIECE = 1 << 20
_TRY_AGAIN = 0.1
"""Seconds until somebody else's lock is tried again."""
_FAULTS = (InUse, OSError, ValueError, KeyError, TypeError, AttributeError, sqlite3.Error)
"""What a file that is damaged or none of ours, a disk that refuses, and another process lead to."""


class Changes:
    """The changes of one output directory. Every method takes them for itself while it works."""

    def __init__(self, output_dir: Path, wait: float = 30.0) -> None:
        """`wait` is how many seconds a catalogue waits for another process before it goes without its changes."""
        self._wait = wait
        self.path = output_dir / CHANGES_JSONL
        self._cars = output_dir / CARS_JSON
        self._pending = output_dir / PENDING

    @contextlib.contextmanager
    def following(
        self, run: str, began: str, at: str, records: Iterable[tuple[str, bytes]], left_out: Collection[str]
    ) -> Iterator[None]:
        """Around the step that puts a `cars.json` of these records in place: have their changes follow it.

        Whatever stands in their way is warned about, and that step goes on without them: the next run finds another
        catalogue than it would follow, and says so. What cannot be appended is left to `recover`.
        """
        with contextlib.ExitStack() as held:
            is_prepared = False
            try:
                held.enter_context(self._held(self._wait))
                self._recover()
                self._prepare(run, began, at, records, left_out)
                is_prepared = True
            except _FAULTS as error:
                logger.warning("What has changed is not written to %s: %s", self.path, _cause(error))
            yield
            if not is_prepared:
                return
            try:
                self._append()
            except _FAULTS as error:
                logger.warning("What has changed waits to be appended to %s: %s", self.path, _cause(error))

    def recover(self) -> bool:
        """Append what was published by a process that died before it could; False while another works here."""
        try:
            with self._held():
                self._recover()
        except InUse:
            return False
        return True

    def erase(self, ids: Collection[str], at: str) -> list[str]:
        """Take listings out of all lines, and leave a tombstone for each that was there, or is in `cars.json`.

        Returns those that lines were taken out of, sorted. `cars.json` has to be erased from next; until it is, nobody
        takes them for being there. Raises `InUse` and `OSError`.
        """
        if not self.path.exists() and not self._pending.exists():
            return []
        with self._held():
            self._recover()
            _, erased = self._last_run()
            found = {listing for line in self._lines(torn=True) for listing in _named(line, ids)}
            new = sorted((found | self._present(ids)) - erased)
            if found or new:
                write_atomically(self.path, self._without(ids, new, at))
        return sorted(found)

    def drop_before(self, at: str) -> int:
        """Cut all lines that are older, but for the last of a run, which the next one follows. Returns how many went.

        `at` is written as in the lines. Raises `InUse` and `OSError`.
        """
        dropped = 0

        def kept() -> Iterator[bytes]:
            nonlocal dropped
            for line in self._lines():
                head = head_of(line)
                if head is None or head.at >= at or line == last:
                    yield line
                else:
                    dropped += 1

        with self._held():
            self._recover()
            last, _ = self._last_run()
            if self.path.exists():
                write_atomically(self.path, kept())
        return dropped

    # The steps

    def _prepare(
        self, run: str, began: str, at: str, records: Iterable[tuple[str, bytes]], left_out: Collection[str]
    ) -> None:
        last_line, erased = self._last_run()
        last = _run_of(last_line) or {}
        if last_line and not last:
            logger.warning("The last run in %s is damaged: the next follows none", self.path)
        with comparison(self._cars) as compared:
            if self._cars.exists() and not self._read(compared, erased):
                last = {}
            follows = not last or last["after"] == compared.before
            step, previous = Step(run, at, compared.before), last if follows else {}
            write_atomically(self._pending, self._new(compared, step, began, previous, records, left_out))
        if not follows:
            logger.warning(
                "%s does not follow its last line: cars.json is not the one of run %s", self.path, last["run"]
            )

    def _read(self, compared: Comparison, erased: Collection[str]) -> bool:
        """False when the old catalogue is none."""
        try:
            compared.read_old(erased)
        except ValueError as error:
            logger.warning("What has changed is not known: %s: %s", self._cars, error)
            return False
        compared.note_gone(
            (head.listing, head.kind == REMOVED)
            for _, head in self._ours()
            if head.kind in (ADDED, REMOVED, RETURNED, ERASED)
        )
        return True

    def _new(
        self,
        compared: Comparison,
        step: Step,
        began: str,
        last: dict[str, Any],
        records: Iterable[tuple[str, bytes]],
        left_out: Collection[str],
    ) -> Iterator[bytes]:
        """Where they belong, the lines of a run, and the one that ends them."""
        yield orjson.dumps({"offset": self._end()}, option=orjson.OPT_APPEND_NEWLINE)
        snapshot, counts = Snapshot(), Counter[str]()

        def passing() -> Iterator[tuple[str, bytes]]:
            for listing, text in records:
                snapshot.add(text)
                yield listing, text

        if step.before is None:
            for _ in passing():
                pass
        else:
            for line in compared.lines(step, passing(), left_out):
                if head := head_of(line):
                    counts[head.kind] += 1
                yield line
        if not counts and (last.get("run"), last.get("after")) == (step.run, snapshot.digest):
            return  # this run has published the same before, and did not come to its end
        yield step.line(
            RUN,
            "",
            began=began,
            previous=last.get("run"),
            before=step.before,
            after=snapshot.digest,
            listings=snapshot.listings,
            **{kind: counts[kind] for kind in FOUND},
        )

    def _append(self) -> None:
        """Append what is pending, or the rest of it, and forget that it was."""
        with self._pending.open("rb") as pending:
            offset = orjson.loads(pending.readline())["offset"]
            begin = pending.tell()
            with self.path.open("a+b") as file:
                size = file.seek(0, os.SEEK_END)
                there = self._already(file, pending, min(offset, size))
                if not there and size:
                    file.seek(size - 1)
                    file.write(b"" if file.read() == b"\n" else b"\n")
                pending.seek(begin + there)
                while piece := pending.read(_PIECE):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        flush_directory(self.path.parent)
        self._pending.unlink()

    @staticmethod
    def _already(file: IO[bytes], pending: IO[bytes], offset: int) -> int:
        """How many bytes of what is pending stand at the end already, as a process that died has left them."""
        size = file.seek(0, os.SEEK_END)
        file.seek(offset)
        while piece := file.read(_PIECE):
            if pending.read(len(piece)) != piece:
                return 0
        return size - offset

    def _recover(self) -> None:
        self._pending.parent.mkdir(parents=True, exist_ok=True)
        if not self._pending.exists():
            return
        try:
            after = self._pending_leads_to()
        except (ValueError, KeyError, TypeError):
            logger.warning("%s is damaged, and dropped: what has changed is not known", self._pending)
            self._pending.unlink()
            return
        try:
            is_published = after is not None and digest_of(self._cars) == after
        except ValueError:
            is_published = False
        if is_published:
            self._append()
        else:
            self._pending.unlink()

    def _pending_leads_to(self) -> str | None:
        """The digest of that catalogue; None where no line is pending. Raises `ValueError`, `KeyError` and `TypeError`
        when it is no file of ours.
        """
        with self._pending.open("rb") as file:
            first = file.readline()
            last = b"".join(deque(file, 1))
        offset = orjson.loads(first)["offset"]
        if type(offset) is not int or offset < 0:
            raise ValueError("no place in a file")
        if not last:
            return None
        run = _run_of(last)
        if run is None or not last.endswith(b"\n"):
            raise ValueError("it does not end in a run")
        return str(run["after"])

    # What is there

    def _without(self, ids: Collection[str], new: Iterable[str], at: str) -> Iterator[bytes]:
        """The lines without those listings; the last run leads to a catalogue without them."""
        last, erased = self._last_run()
        last_run = ""
        for line in self._lines():
            head, run = head_of(line), _run_of(line) if line == last else None
            if head and run:
                last_run = head.run
                yield self._leading_to(run, ids, erased)
            elif not _named(line, ids):
                yield line
        yield from (tombstone(listing, last_run, at) for listing in new)

    def _leading_to(self, run: dict[str, Any], without: Collection[str], erased: Collection[str]) -> bytes:
        """The run, as leading to a catalogue without those listings; those `erased` before may still be in
        `cars.json`.
        """
        with contextlib.suppress(ValueError):
            if run["after"] == digest_of(self._cars, erased):
                run["after"] = digest_of(self._cars, {*erased, *without})
        return orjson.dumps(run, option=orjson.OPT_APPEND_NEWLINE)

    def _present(self, ids: Collection[str]) -> set[str]:
        """Which of them are in `cars.json`, as far as that can be read."""
        found: set[str] = set()
        with contextlib.suppress(FileNotFoundError, ValueError):
            found.update(line.listing for line in published_lines(self._cars) if line.listing in ids)
        return found

    def _last_run(self) -> tuple[bytes, set[str]]:
        """The last line of a run, empty if there is none, and what was erased since."""
        last = b""
        erased: set[str] = set()
        for line, head in self._ours():
            if head.kind == RUN:
                last, erased = line, set()
            elif head.kind == ERASED:
                erased.add(head.listing)
        return last, erased

    def _ours(self) -> Iterator[tuple[bytes, Head]]:
        for line in self._lines():
            if head := head_of(line):
                yield line, head

    def _lines(self, *, torn: bool = False) -> Iterator[bytes]:
        """Those that are whole, and one that is `torn` at the end."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            yield from (line for line in file if torn or line.endswith(b"\n"))

    def _end(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @contextlib.contextmanager
    def _held(self, wait: float = 0.0) -> Iterator[None]:
        """Raises `InUse` when another process has it for that many seconds."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + wait
        with (self.path.parent / _LOCK).open("ab") as lock:
            while not _is_locked(lock):
                if time.monotonic() >= until:
                    raise InUse(f"a process works on {self.path}; try again")
                time.sleep(_TRY_AGAIN)
            yield


def _is_locked(file: IO[bytes]) -> bool:
    """Take the lock; False when another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _run_of(line: bytes) -> dict[str, Any] | None:
    """The line of a run; None when it is none, or damaged."""
    head = head_of(line)
    if head is None or head.kind != RUN:
        return None
    try:
        run: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return run if type(run.get("after")) is str and type(run.get("run")) is str else None


def _named(line: bytes, ids: Collection[str]) -> set[str]:
    """Which of these listings the line tells of; a tombstone, of none. What is damaged may tell of all it quotes."""
    quoted = {listing for listing in ids if f'"{listing}"'.encode() in line}
    head = head_of(line)
    if not quoted:
        return quoted
    if head is None or not _is_json(line):
        return quoted
    return quoted & {head.listing} if head.kind != ERASED else set()


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _cause(error: Exception) -> str:
    """In words; the name of the class where the error has none of its own."""
    return cause(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
