"""Whatever is appended, accepted, discarded, let go, refused by the disk, torn by a kill or a loss of power: each
consumer reads what counts, once, in the order of acceptance.

That the machine can fail is shown with mutants: each breaks one rule, and the machine has to find it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log import BEGINNING, ItemLog, Position, flush, recovery, scanning, writer
from scrapy_durable.item_log.ledger import Ledger
from scrapy_durable.item_log.records import Place
from tests.item_log.logs import CODEC, CRAWL, segments
from tests.item_log.model import Model

SECTOR = 512
CONSUMERS = 2
SEGMENT_BYTES = 250
"""Two or three flushes."""
TOKENS = st.integers(1, 6)
ITEMS = st.one_of(
    st.integers(), st.text(max_size=3), st.just("long" * 100), st.builds(dict, a=st.tuples(st.integers()))
)


class LogMachine(RuleBasedStateMachine):
    """One worker's log, restarted on its directory, and two consumers that remember their positions."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="item-log-"))
        self.runner = asyncio.Runner()
        self.model = Model()
        self.lease = 0
        self.tokens: dict[int, int] = {}
        self.positions: list[Position] = [BEGINNING] * CONSUMERS
        self.read: list[list[Any]] = [[] for _ in range(CONSUMERS)]
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch.object(writer, "FileIO", Disk))
        self.patches.enter_context(mock.patch.object(asyncio, "to_thread", in_this_thread))
        self.log = ItemLog(self.directory, CODEC, segment_bytes=SEGMENT_BYTES)
        assert self.log.open(CRAWL) == []
        self.name = self.log.name

    def teardown(self) -> None:
        self.log.close()
        self.patches.close()
        self.runner.close()
        shutil.rmtree(self.directory)

    def token(self, slot: int) -> int:
        """The lease under way at one of six places; a token is never used again once its lease is settled."""
        if slot not in self.tokens:
            self.lease += 1
            self.tokens[slot] = self.lease
        return self.tokens[slot]

    def write(self) -> None:
        self.runner.run(self.log.write())

    @rule(slot=TOKENS, items=st.lists(ITEMS, min_size=1, max_size=4))
    def append(self, slot: int, items: list[Any]) -> None:
        for item in items:
            self.log.append(self.token(slot), item)
            self.model.append(self.token(slot), item)

    @rule(slots=st.sets(TOKENS, min_size=1, max_size=3), item=ITEMS)
    def append_and_flush(self, slots: set[int], item: Any) -> None:
        for slot in slots:
            self.append(slot, [item])
        self.flush()

    @rule(slot=TOKENS)
    def accept_and_flush(self, slot: int) -> None:
        self.accept(slot)
        self.flush()

    @rule(item=ITEMS)
    def append_under_no_lease(self, item: Any) -> None:
        self.log.append(0, item)
        self.model.append(0, item)

    @rule(slot=TOKENS)
    def accept(self, slot: int) -> None:
        token = self.token(slot)
        self.log.accept([token])
        self.model.accepting.append(token)
        del self.tokens[slot]

    @rule(slot=TOKENS)
    def discard(self, slot: int) -> None:
        token = self.token(slot)
        self.log.discard([token])
        self.model.discarding.append(token)
        del self.tokens[slot]

    @rule()
    def flush(self) -> None:
        accepted = set(self.model.accepting)
        self.write()
        self.model.write()
        assert self.log.durable == self.log.received
        assert set(self.log.confirmed()) == accepted
        assert self.log.size == sum(path.stat().st_size for path in segments(self.directory))

    @rule(call=st.sampled_from(["write", "fdatasync", "fsync"]), share=st.floats(0, 1, exclude_max=True))
    def flush_on_a_disk_that_fails(self, call: str, share: float) -> None:
        """A part of it is written and cannot be cut off, or all and the disk says no, or no segment can be made."""
        durable = self.log.durable
        with failing_disk(call, share):
            try:
                self.write()
            except OSError:
                assert self.log.durable == durable
                assert self.log.confirmed() == []
                return
        self.model.write()
        self.log.confirmed()

    @rule(consumer=st.integers(0, CONSUMERS - 1), most=st.integers(1, 7))
    def consume(self, consumer: int, most: int) -> None:
        got = self.log.read(self.positions[consumer], most)
        items = [item for part in got for item in part.items]
        assert len(items) <= most
        self.read[consumer] += items
        assert [part.position for part in got] == sorted({part.position for part in got})
        if got:
            self.positions[consumer] = got[-1].position

    @rule()
    def let_go(self) -> None:
        self.log.let_go(min(self.positions))
        self.flush()

    @rule()
    def catch_up_and_let_go(self) -> None:
        self.flush()
        self.all_that_counts_is_read()
        self.let_go()

    @rule(is_accepted=st.booleans())
    def restart(self, is_accepted: bool) -> None:
        self.log.close()
        self.begin_again(is_accepted)

    @rule(share=st.floats(0, 1), is_accepted=st.booleans())
    def kill_in_a_write(self, share: float, is_accepted: bool) -> None:
        """A prefix of what is flushed is there."""
        self.tear(lambda size, data: data[: size + int(share * (len(data) - size))], is_accepted)

    @rule(holes=st.sets(st.integers(0, 5), min_size=1), is_accepted=st.booleans())
    def lose_power_in_a_write(self, holes: set[int], is_accepted: bool) -> None:
        """Some sectors of what is flushed are there, and the others are zeros."""

        def with_holes(size: int, data: bytes) -> bytes:
            torn = bytearray(data)
            for hole in holes:
                begin = max(size, (size // SECTOR + hole) * SECTOR)
                end = min((size // SECTOR + hole + 1) * SECTOR, len(data))
                if end - begin >= 16:
                    torn[begin:end] = bytes(end - begin)
            return bytes(torn) if torn != data else data[:size]

        self.tear(with_holes, is_accepted)

    def tear(self, torn: Callable[[int, bytes], bytes], is_accepted: bool) -> None:
        """A flush, and then only `torn(size before, all bytes)` of its segment."""
        *others, last = segments(self.directory)
        flushed = self.log.size - sum(path.stat().st_size for path in others)
        with mock.patch.object(Ledger, "unneeded", return_value=[]):  # what is deleted was flushed before
            self.write()
        self.log.close()
        path = segments(self.directory)[-1]
        data = path.read_bytes()
        size = max(flushed if path == last else 0, data.find(b"\n") + 1)
        if len(data) > size:
            kept = torn(size, data)
            path.write_bytes(kept if kept != data else data[:size])
            self.model.lose_waiting()
        else:
            self.model.write()
        self.begin_again(is_accepted)

    def begin_again(self, is_accepted: bool) -> None:
        """The next process; the frontier has accepted all leases that are open, or none."""
        self.model.lose_waiting()
        self.tokens.clear()
        self.log = ItemLog(self.directory, CODEC, segment_bytes=SEGMENT_BYTES)
        found = self.log.open(CRAWL)
        assert found == sorted(self.model.open)
        assert self.log.name == self.name
        if is_accepted:
            self.log.accept(found)
            self.model.accepting += found
        else:
            self.log.discard(found)
            self.model.discarding += found

    @invariant()
    def each_consumer_has_read_the_beginning_of_what_counts(self) -> None:
        counted = self.model.items
        for consumer in range(CONSUMERS):
            assert self.read[consumer] == counted[: len(self.read[consumer])]

    @precondition(lambda self: not self.model.waiting)
    @rule()
    def all_that_counts_is_read(self) -> None:
        for consumer in range(CONSUMERS):
            while got := self.log.read(self.positions[consumer], 10):
                self.read[consumer] += [item for part in got for item in part.items]
                self.positions[consumer] = got[-1].position
            assert self.read[consumer] == self.model.items


async def in_this_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Thousands of threads would take most of the time."""
    return function(*arguments)


class Disk(FileIO):
    """A file whose methods can be replaced."""


@contextmanager
def failing_disk(call: str, share: float) -> Iterator[None]:
    """A disk on which that call fails; `write` writes a share of what it is given."""

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write_share(file: FileIO, data: Any) -> None:
        FileIO.write(file, memoryview(data)[: int(share * len(data))])
        fail()

    with contextlib.ExitStack() as patches:
        if call == "write":
            patches.enter_context(mock.patch.object(Disk, "write", write_share))
            patches.enter_context(mock.patch.object(Disk, "truncate", fail))
        else:
            patches.enter_context(mock.patch.object(os, call, fail))
        yield


def check(phases: list[Phase], examples: int = 150) -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
            phases=phases,
            derandomize=True,
            database=None,
        ),
    )


def test_each_consumer_reads_what_counts_once() -> None:
    check([Phase.generate, Phase.shrink])


def forget_earlier(batch: flush.Batch, earlier: flush.Batch) -> None: ...


def those_that_are_passed(ledger: Ledger, passed: Place) -> list[int]:
    *others, _ = ledger.segments.items()
    return [number for number, segment in others if segment.until <= passed]


def those_without_open_leases(ledger: Ledger, passed: Place) -> list[int]:
    *others, _ = ledger.segments.items()
    return [number for number, segment in others if not segment.open]


def with_the_torn_flush(path: Path, number: int, begin: int) -> Iterator[tuple[list[scanning.Found], int]]:
    for found, end in flushes(path, number, begin):
        yield found, end
        begin = end
    with path.open("rb") as file:
        file.seek(begin)
        while (record := scanning._read(file, begin, path.stat().st_size)) is not None:
            found = [scanning._understood(path, number, begin, *record)]
            begin = found[0][0].end[1]
            yield found, begin


flushes = scanning.flushes

MUTANTS: dict[str, tuple[object, str, object]] = {
    "what a failed write held is gone": (flush.Batch, "put_in_front", forget_earlier),
    "a torn flush is not cut off": (writer.SegmentWriter, "_cut_back", lambda writer: None),
    "segments go that a consumer has not passed": (Ledger, "unneeded", those_without_open_leases),
    "segments go with items of open leases": (Ledger, "unneeded", those_that_are_passed),
    "a settled lease is forgotten with its segment": (ItemLog, "_carried", lambda log, unneeded: ()),
    "an uncommitted record counts": (recovery, "flushes", with_the_torn_flush),
    "sectors that were not written are damage": (scanning, "_has_hole", lambda data, offset: False),
    "a torn end stays": (recovery, "_cut", lambda directory, number, size: None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_machine_finds_each_mutant(mutant: str) -> None:
    owner, name, broken = MUTANTS[mutant]
    with (
        mock.patch.object(owner, name, broken),
        pytest.raises((AssertionError, ItemLogDamaged, ExceptionGroup)),
    ):
        check([Phase.generate], 1000)
