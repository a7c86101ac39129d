"""What is written at once, in which order, and what becomes of it when the disk or the caller fails."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from unittest import mock

import pytest

from tests.item_log.logs import accepted, flushed, items, left_open, opened, segments
from tests.item_log.loops import in_loop
from tests.standin import ROOT

SECONDS = 60
"""Nothing waits so long, unless it would for ever."""


class Held:
    """A disk on which a flush waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flushes = 0
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self._flush = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, descriptor: int) -> None:
        self.flushes += 1
        self.begun.set()
        assert self.may_end.wait(SECONDS)
        self._flush(descriptor)


@in_loop
async def test_what_comes_during_a_flush_is_in_the_next(tmp_path: Path) -> None:
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        mock.patch.object(asyncio, "to_thread", side_effect=asyncio.to_thread) as in_thread,
    ):
        held = Held(monkeypatch)
        log = opened(tmp_path)
        log.append(1, "a")
        first = asyncio.create_task(log.write())
        assert await asyncio.to_thread(held.begun.wait, SECONDS)
        log.append(1, "b")
        others = [asyncio.create_task(log.write()) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        flushes = [call for call in in_thread.mock_calls if call.args[0] == log._flush]
        assert len(flushes) == 1
        assert (log.received, log.durable) == (2, 0)
        held.may_end.set()
        await first
        await asyncio.gather(*others)
        assert held.flushes == 2
    assert log.durable == 2
    log.close()
    log = opened(tmp_path)
    await accepted(log, 1)
    assert items(log) == ["a", "b"]
    log.close()


@in_loop
async def test_a_caller_that_is_cancelled_leaves_the_flush_to_end(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        held = Held(monkeypatch)
        log = opened(tmp_path)
        log.append(0, "a")
        write = asyncio.create_task(log.write())
        assert await asyncio.to_thread(held.begun.wait, SECONDS)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        log.append(0, "b")
        held.may_end.set()
        await log.write()
    assert items(log) == ["a", "b"]
    log.close()
    log = opened(tmp_path)
    assert items(log) == ["a", "b"]
    log.close()


@in_loop
async def test_nothing_is_written_when_nothing_has_come(tmp_path: Path) -> None:
    log = opened(tmp_path)
    before = segments(tmp_path)[0].read_bytes()
    await log.write()
    log.accept([5])
    await log.write()
    assert segments(tmp_path)[0].read_bytes() == before
    log.close()


@in_loop
async def test_a_disk_that_fails_is_tried_again_with_all_that_has_come(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await flushed(log, 1, "a")
    log.accept([1])
    log.append(2, "b")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            await log.write()
    assert (log.received, log.durable) == (2, 1)
    assert log.confirmed() == []
    assert items(log) == []
    log.append(2, "c")
    await accepted(log, 2)
    assert log.confirmed() == [1, 2]
    assert items(log) == ["a", "b", "c"]
    log.close()
    log = opened(tmp_path)
    assert items(log) == ["a", "b", "c"]
    log.close()


@in_loop
async def test_an_error_that_nobody_expects_ends_all_writing(tmp_path: Path) -> None:
    """What is on disk then is not known, and the next process finds it out."""
    log = opened(tmp_path)
    await flushed(log, 1, "a")

    def fail(descriptor: int) -> None:
        raise MemoryError

    log.append(1, "b")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(MemoryError):
            await log.write()
    with pytest.raises(ValueError, match="the item log is closed"):
        await log.write()
    assert log.durable == 1
    log.close()
    assert left_open(tmp_path) == [1]


@in_loop
async def test_nothing_is_written_to_a_log_that_was_closed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(0, "a")
    log.close()
    with pytest.raises(ValueError, match="the item log is closed"):
        await log.write()


@in_loop
async def test_a_log_that_is_removed_makes_no_segment_any_more(tmp_path: Path) -> None:
    log = opened(tmp_path / "items", segment_bytes=1)
    await accepted(log, 1, "a")
    (tmp_path / "items" / "of somebody else").touch()
    log.append(2, "b")
    log.remove()
    with pytest.raises(ValueError, match="the item log is closed"):
        await log.write()
    assert segments(tmp_path / "items") == []


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from tests.item_log.logs import items, opened

async def main():
    log = opened(Path(sys.argv[1]))
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, unlimited[1]))
    token = 0
    while True:
        token += 1
        log.append(token, [token, "x" * 7777])
        try:
            await log.write()
        except OSError as error:
            print(type(error).__name__, error.strerror)
            break
        log.accept([token])
    assert token > 5
    assert log.durable == log.received - 1
    assert len(items(log)) == token - 2  # the last acceptance was in the write that failed
    assert Path(sys.argv[1], "00000001.segment").stat().st_size == log.size
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    log.accept([token])
    await log.write()
    assert log.confirmed() == list(range(1, token + 1))
    assert [number for number, _ in items(log)] == list(range(1, token + 1))
    print(token)

asyncio.run(main())
"""


def test_a_full_disk_is_an_error_and_room_again_is_enough(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    error, count = done.stdout.split("\n")[:2]
    assert error == "OSError File too large"
    log = opened(tmp_path)
    assert len(items(log)) == int(count)
    log.close()


@in_loop
async def test_a_lease_may_have_more_than_one_piece_in_a_flush(tmp_path: Path) -> None:
    log = opened(tmp_path)
    long = ["x" * 100_000] * 10
    await flushed(log, 1, *long)
    await accepted(log, 1, "end")
    assert items(log, most=4) == [*long, "end"]
    assert segments(tmp_path)[0].read_bytes().count(b"\xff\xfeL\x01") == 5
    log.close()


@in_loop
async def test_a_large_item_is_not_in_memory_once_more_while_it_is_flushed(tmp_path: Path) -> None:
    log, large = opened(tmp_path), "x" * (16 << 20)
    for item in ("before", large, "behind"):
        log.append(0, item)
    tracemalloc.start()
    try:
        await log.write()
        assert tracemalloc.get_traced_memory()[1] < len(large) // 2
    finally:
        tracemalloc.stop()
    assert items(log) == ["before", large, "behind"]
    log.close()


def test_most_is_read_and_written_where_no_loop_runs(tmp_path: Path) -> None:
    """`scrapy queue` and the like."""
    log = opened(tmp_path)
    log.append(0, "a")
    asyncio.run(log.write())
    asyncio.run(log.write())
    assert items(log) == ["a"]
    log.close()
