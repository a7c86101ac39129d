"""Items of leases that were accepted are read in the order of acceptance, once, whatever was closed in between."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from scrapy_durable.exceptions import ItemLogInUse
from scrapy_durable.item_log import BEGINNING, ItemLog
from scrapy_durable.stores import DurableStore
from tests.item_log.logs import CODEC, CRAWL, accepted, end, flushed, items, left_open, opened, segments
from tests.item_log.loops import in_loop


@in_loop
async def test_items_are_read_once_their_lease_is_accepted(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await flushed(log, 1, {"a": 1}, {"a": 2})
    await flushed(log, 2, {"a": 3})
    assert items(log) == []
    log.accept([2])
    assert items(log) == []
    await log.write()
    assert items(log) == [{"a": 3}]
    log.accept([1])
    await log.write()
    assert items(log) == [{"a": 3}, {"a": 1}, {"a": 2}]
    log.close()


@in_loop
async def test_items_of_a_lease_that_is_discarded_are_never_read(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await flushed(log, 1, "flushed before")
    log.append(1, "flushed never")
    log.append(2, "flushed never")
    log.discard([1, 2])
    await accepted(log, 3, "counts")
    assert items(log) == ["counts"]
    log.close()
    assert b"never" not in segments(tmp_path)[0].read_bytes()
    assert left_open(tmp_path) == []


@in_loop
async def test_items_under_no_lease_count_as_they_are_flushed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(0, "one")
    log.append(1, "leased")
    log.append(0, "two")
    assert log.unaccounted == 2
    await log.write()
    assert items(log) == ["one", "two"]
    log.close()
    log = opened(tmp_path)
    assert items(log) == ["one", "two"]
    log.close()


@in_loop
async def test_it_is_a_durable_store(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert isinstance(log, DurableStore)
    log.append(1, {})
    log.append(1, {})
    assert (log.received, log.durable) == (2, 0)
    await log.write()
    assert (log.received, log.durable) == (2, 2)
    log.append(2, {})
    log.discard([2])
    await log.write()
    assert (log.received, log.durable) == (3, 3)
    log.close()


@in_loop
async def test_an_item_is_kept_as_it_was_when_it_was_appended(tmp_path: Path) -> None:
    log = opened(tmp_path)
    item = {"price": 1}
    log.append(1, item)
    item["price"] = 2
    await accepted(log, 1)
    assert items(log) == [{"price": 1}]
    log.close()


@in_loop
async def test_the_next_process_is_told_which_leases_are_open(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, "a")
    await flushed(log, 3, "c")
    await flushed(log, 2, "b")
    log.append(4, "not flushed")
    name = log.name
    log.close()
    log = ItemLog(tmp_path, CODEC)
    assert log.open(CRAWL) == [2, 3]
    assert log.name == name
    log.accept([3])
    log.discard([2])
    await log.write()
    assert items(log) == ["a", "c"]
    log.close()
    assert left_open(tmp_path) == []


@in_loop
async def test_an_acceptance_is_confirmed_once_it_is_flushed_and_whenever_it_is_said_again(
    tmp_path: Path,
) -> None:
    log = opened(tmp_path)
    await flushed(log, 1, "a")
    log.accept([1, 2])
    assert log.confirmed() == []
    await log.write()
    assert log.confirmed() == [1, 2]
    assert log.confirmed() == []
    log.close()
    log = opened(tmp_path)
    log.accept([1])
    await log.write()
    assert log.confirmed() == [1]
    assert items(log) == ["a"]
    log.close()


@in_loop
async def test_a_log_of_another_crawl_is_emptied_and_has_another_name(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await accepted(log, 1, "a")
    await accepted(log, 2, "b")
    name = log.name
    log.close()
    log = opened(tmp_path, crawl="shop-2")
    assert log.name != name
    assert items(log) == []
    assert len(segments(tmp_path)) == 1
    log.close()


@in_loop
async def test_a_removed_log_leaves_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path / "items", segment_bytes=1)
    await accepted(log, 1, "a")
    log.remove()
    assert list(tmp_path.iterdir()) == []
    log = opened(tmp_path / "items")
    assert items(log) == []
    log.close()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    program = "import sys; from pathlib import Path; from tests.item_log.logs import opened; opened(Path(sys.argv[1]))"
    other = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
    assert other.returncode == 1
    assert f"ItemLogInUse: {tmp_path} is in use: another process has the item log in it" in other.stderr
    with pytest.raises(ItemLogInUse):
        opened(tmp_path)
    log.close()
    opened(tmp_path).close()


def test_a_lock_on_a_log_that_is_removed_meanwhile_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two steps of taking a lock, its owner deletes the file, as `remove` does."""
    flock = fcntl.flock

    def remove_first(file: Any, operation: int) -> None:
        monkeypatch.undo()
        (tmp_path / ".lock").unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    log = opened(tmp_path)
    with pytest.raises(ItemLogInUse):
        opened(tmp_path)
    log.close()


@in_loop
async def test_a_lease_is_read_in_parts_when_it_has_more_items_than_are_asked_for(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await flushed(log, 1, 0, 1, 2)
    await flushed(log, 1, 3)
    await accepted(log, 1, 4)
    [first] = log.read(BEGINNING, 2)
    assert first.items == [0, 1]
    assert first.position[2] == 2
    [second] = log.read(first.position, 2)
    assert second.items == [2, 3]
    [third] = log.read((*second.position[:2], 3), 10)
    assert third.items == [3, 4]
    assert third.position == end(log)
    log.close()


@in_loop
async def test_segments_that_every_consumer_has_passed_are_deleted(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await flushed(log, 1, "open")
    await accepted(log, 2, "a")
    await accepted(log, 3, "b")
    log.let_go(end(log))
    await log.write()
    await accepted(log, 4, "c")
    left = [path.name for path in segments(tmp_path)]
    assert left[0] == "00000001.segment"
    assert len(left) == 3
    assert log.size == sum(path.stat().st_size for path in segments(tmp_path))
    log.accept([1])
    await log.write()
    log.close()
    log = opened(tmp_path, segment_bytes=1)
    assert items(log) == ["c", "open"]
    log.let_go(end(log))
    await log.write()
    assert len(segments(tmp_path)) == 2  # the one that was the last, and the one that says so
    log.close()


@in_loop
async def test_a_lease_that_is_settled_stays_so_when_only_its_items_are_left(tmp_path: Path) -> None:
    """An open lease holds the segment with the items; the one with the acceptance is deleted."""
    log = opened(tmp_path, segment_bytes=1)
    log.append(1, "open")
    log.append(2, "passed")
    await flushed(log, 3, "discarded")
    log.discard([3])
    log.accept([2])
    await log.write()
    await accepted(log, 4, "more")
    log.let_go(end(log))
    await log.write()
    assert [path.stem[-1] for path in segments(tmp_path)] == ["1", "4", "5"]
    for token in (5, 6):  # what says so is carried on, from segment to segment
        await accepted(log, token, "more")
        log.let_go(end(log))
        await log.write()
        log.close()
        log = ItemLog(tmp_path, CODEC, segment_bytes=1)
        assert log.open(CRAWL) == [1]
    assert len(segments(tmp_path)) < 5
    log.accept([1])
    await log.write()
    assert items(log) == ["open"]
    log.close()


@in_loop
async def test_a_position_stays_valid_when_its_segment_is_gone(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await accepted(log, 1, "a")
    position = end(log)
    log.let_go(position)
    await log.write()
    assert log.read(position, 1) == []
    assert log.read(BEGINNING, 1) == []
    await accepted(log, 2, "b")
    log.close()
    log = opened(tmp_path, segment_bytes=1)
    assert segments(tmp_path)[0].name > f"{position[0]:08d}"
    assert items(log, position) == items(log) == ["b"]
    log.close()


@in_loop
async def test_a_part_of_a_lease_that_is_passed_does_not_let_it_go(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await accepted(log, 1, "a", "b")
    await accepted(log, 2, "c")
    [part] = log.read(BEGINNING, 1)
    log.let_go(part.position)
    await log.write()
    assert items(log) == ["a", "b", "c"]
    assert items(log, part.position) == ["b", "c"]
    log.close()


@in_loop
async def test_what_could_not_be_deleted_goes_with_the_next_write_of_any_process(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await accepted(log, 1, "a")
    log.let_go(end(log))
    log.append(2, "b")
    with mock.patch.object(Path, "unlink", side_effect=PermissionError):
        await log.write()
        await log.write()
    assert log.durable == 2
    assert len(segments(tmp_path)) == 4
    assert log.size == sum(path.stat().st_size for path in segments(tmp_path))
    log.close()
    log = opened(tmp_path)
    await log.write()
    assert [path.stem[-1] for path in segments(tmp_path)] == ["3", "4"]
    log.accept([2])
    await log.write()
    assert items(log) == ["b"]
    log.close()


@in_loop
async def test_what_was_let_go_is_not_looked_for_where_its_acceptance_is_left(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await flushed(log, 1, "gone")
    log.append(2, "open")
    log.accept([1])
    await log.write()
    log.let_go(end(log))
    await log.write()
    assert segments(tmp_path)[0].name == "00000002.segment"
    assert items(log) == []
    log.close()
    log = opened(tmp_path, segment_bytes=1)
    assert items(log) == []
    log.accept([2])
    await log.write()
    assert items(log) == ["open"]
    log.close()
