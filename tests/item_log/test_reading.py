"""However long the log is: little memory, and no byte read twice by who asks for what is new."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from scrapy_durable.item_log import BEGINNING
from tests.item_log.logs import accepted, end, flushed, items, opened
from tests.item_log.loops import in_loop

MEGABYTE = 1 << 20


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the bytes that are read of segments."""
    read: Counter[str] = Counter()
    pread = os.pread

    def count(descriptor: int, length: int, offset: int) -> bytes:
        data = pread(descriptor, length, offset)
        read["bytes"] += len(data)
        return data

    with mock.patch.object(os, "pread", count):
        yield read


async def fill(directory: Path, megabytes: int) -> None:
    """Leases in the order in which they were begun, and one that goes through all of it."""
    log = opened(directory, segment_bytes=4 * MEGABYTE)
    for token in range(2, 2 + megabytes * 10):
        log.append(1, {"of": 1, "text": "y" * 1000})
        for number in range(10):
            log.append(token, {"of": token, "number": number, "text": "x" * 10_000})
        log.accept([token - 1] if token > 2 else [])
        await log.write()
    log.accept([1])
    await log.write()
    log.close()


@in_loop
async def test_a_long_log_is_opened_and_read_in_little_memory(tmp_path: Path) -> None:
    await fill(tmp_path, 30)
    tracemalloc.start()
    log = opened(tmp_path, segment_bytes=4 * MEGABYTE)
    count, position = 0, BEGINNING
    while accepted := log.read(position, 20):
        count += sum(len(part.items) for part in accepted)
        position = accepted[-1].position
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 299 * 10 + 300
    assert log.size > 29 * MEGABYTE
    assert peak < 4 * MEGABYTE
    log.close()


@in_loop
async def test_who_has_read_all_reads_only_what_is_new(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, *range(100))
    for _ in range(20):
        await flushed(log, 2, "x" * 100_000)
    position = end(log)
    with counted() as read:
        for _ in range(100):
            assert log.read(position, 10) == []
        assert read.total() == 0
        await flushed(log, 3, "new")
        assert log.read(position, 10) == []
        assert 0 < read.total() < 10_000
    log.close()


@in_loop
async def test_a_lease_that_is_read_in_parts_is_read_once(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(200):
        log.append(1, [number, "x" * 100])
        await flushed(log, 2, "y" * 1000)
    await accepted(log, 1)
    position, found = BEGINNING, []
    with counted() as read:
        while parts := log.read(position, 3):
            found += [number for part in parts for number, _ in part.items]
            position = parts[-1].position
    assert read.total() < 3 * log.size
    assert found == list(range(200))
    log.close()


def open_files() -> list[Path]:
    return list(Path("/proc/self/fd").iterdir())


@in_loop
async def test_of_many_segments_few_are_open(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    for token in range(1, 41):
        await accepted(log, token, token)
    before = len(open_files())
    assert items(log) == list(range(1, 41))
    assert len(open_files()) < before + 10
    log.close()
    assert len(open_files()) < before


@in_loop
async def test_what_the_system_reads_in_parts_is_put_together(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, "x" * 1000)
    pread = os.pread
    with mock.patch.object(os, "pread", lambda file, length, offset: pread(file, min(length, 7), offset)):
        assert items(log) == ["x" * 1000]
    log.close()


@in_loop
async def test_two_consumers_read_at_their_own_pace(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=500)
    for token in range(1, 30):
        await accepted(log, token, token, -token)
    expected = [number for token in range(1, 30) for number in (token, -token)]
    positions, found = [BEGINNING, BEGINNING], [[], []]  # type: ignore[var-annotated]
    while len(found[1]) < len(expected):
        for consumer, most in ((0, 5), (1, 1)):
            for part in log.read(positions[consumer], most):
                found[consumer] += part.items
                positions[consumer] = part.position
    assert found == [expected, expected]
    log.close()
