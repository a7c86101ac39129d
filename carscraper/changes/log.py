"""`changes.jsonl` beside `cars.json`: appended to with each complete catalogue, erased from, cut.

    publish:   .changes.pending.jsonl  ──►  cars.json put in place  ──►  changes.jsonl appended to  ──►  pending removed

If the process dies: before `cars.json` is in place, what is pending leads to a catalogue that is not there, and is
dropped; after it, whoever comes next appends what is missing (`recover`). So readers see the lines of catalogues that
were published, all of them, in order; a line that was cut is completed. One process at a time works here
(`.changes.lock`).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
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

logger = logging.getLogger(__name__)

CHANGES_JSONL = "changes.jsonl"
PENDING = ".changes.pending.jsonl"
DRAFTS = ".*changes.*.tmp"
"""What a process that was killed may leave; nobody reads them."""
_LOCK = ".changes.lock"
_PIECE = 1 << 20


class Changes:
    """The changes of one output directory. Every method takes them for itself while it works."""

    def __init__(self, output_dir: Path) -> None:
        self.path = output_dir / CHANGES_JSONL
        self._cars = output_dir / CARS_JSON
        self._pending = output_dir / PENDING

    @contextlib.contextmanager
    def following(
        self, run: str, began: str, at: str, records: Iterable[tuple[str, bytes]], left_out: Collection[str]
    ) -> Iterator[None]:
        """Around the step that puts a `cars.json` of these records in place: have their changes follow it.

        Raises `OSError`; then neither has happened, or `recover` does the rest.
        """
        with self._held(wait=True):
            self._recover()
            self._prepare(run, began, at, records, left_out)
            yield
            self._append()

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
            found = {head.listing for _, head in self._ours() if head.listing in ids and head.kind != ERASED}
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
        last = orjson.loads(last_line) if last_line else {}
        with comparison(self._cars) as compared:
            if self._cars.exists():
                self._read(compared, erased)
            if last and last["after"] != compared.before:
                logger.warning(
                    "%s does not follow its last line: cars.json is not the one of run %s",
                    self.path,
                    last["run"],
                )
                last = {}
            step = Step(run, at, compared.before)
            write_atomically(self._pending, self._new(compared, step, began, last, records, left_out))

    def _read(self, compared: Comparison, erased: Collection[str]) -> None:
        try:
            compared.read_old(self._cars, erased)
        except ValueError as error:
            logger.warning("What has changed is not known: %s: %s", self._cars, error)
            return
        compared.note_gone(
            (head.listing, head.kind == REMOVED)
            for _, head in self._ours()
            if head.kind in (ADDED, REMOVED, RETURNED, ERASED)
        )

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

        def passing() -> Iterator[tuple[str, bytes, bytes]]:
            for listing, text in records:
                yield listing, text, snapshot.add(text)

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
        with self._pending.open("rb") as file:
            (last,) = deque(file, 1)
        after = orjson.loads(last).get("after")
        try:
            is_published = after is not None and digest_of(self._cars) == after
        except ValueError:
            is_published = False
        if is_published:
            self._append()
        else:
            self._pending.unlink()

    # What is there

    def _without(self, ids: Collection[str], new: Iterable[str], at: str) -> Iterator[bytes]:
        """The lines without those listings; the last run leads to a catalogue without them."""
        last, _ = self._last_run()
        last_run = ""
        for line in self._lines():
            head = head_of(line)
            if head and line == last:
                last_run = head.run
                yield self._leading_to(orjson.loads(line), ids)
            elif head is None or head.listing not in ids or head.kind == ERASED:
                yield line
        yield from (tombstone(listing, last_run, at) for listing in new)

    def _leading_to(self, run: dict[str, Any], without: Collection[str]) -> bytes:
        with contextlib.suppress(ValueError):
            if run["after"] == digest_of(self._cars):
                run["after"] = digest_of(self._cars, without)
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

    def _lines(self) -> Iterator[bytes]:
        """Those that are whole."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))

    def _end(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @contextlib.contextmanager
    def _held(self, *, wait: bool = False) -> Iterator[None]:
        """Raises `InUse` unless it may `wait`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InUse(f"a process works on {self.path}; try again") from error
            yield
