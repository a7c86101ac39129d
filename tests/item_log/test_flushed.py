"""What is flushed of a log is read and changed from outside, and a segment that is missing or short is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log import change_items, flushed_items, segments_from, whole_log
from tests.item_log.logs import CODEC, flushed, items, opened, segments
from tests.item_log.loops import in_loop

WORDS = ["one", "two", "three", "four", "five", "six"]


async def make(directory: Path, *, segment_bytes: int = 64 << 20) -> None:
    """A log in which each word was flushed by itself, under no lease."""
    log = opened(directory, segment_bytes=segment_bytes)
    for word in WORDS:
        await flushed(log, 0, word)
    log.close()


def read(path: Path, content: bytes | None = None) -> list[Any]:
    content = path.read_bytes() if content is None else content
    return [CODEC.decode(content[begin:end]) for begin, end in flushed_items(path, content)]


def read_all(directory: Path) -> list[Any]:
    return [word for path in whole_log(directory) for word in read(path)]


def shouted(entry: bytes) -> bytes:
    """The same word in capitals."""
    word = CODEC.decode(entry)
    return entry.replace(word.encode(), word.upper().encode())


@in_loop
async def test_what_is_flushed_is_read_while_the_log_is_written(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert read_all(tmp_path) == []
    for number, word in enumerate(WORDS, start=1):
        log.append(0, word)
        assert read_all(tmp_path) == WORDS[: number - 1]
        await log.write()
        assert read_all(tmp_path) == WORDS[:number]
    log.close()
    assert read_all(tmp_path) == WORDS


@in_loop
async def test_items_of_one_flush_and_of_several_leases_are_read_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    log = opened(tmp_path)
    for token, word in ((0, "a"), (0, "b"), (7, "c")):
        log.append(token, word)
    await log.write()
    log.accept([7])
    await flushed(log, 0, "d")
    log.close()
    assert read_all(tmp_path) == ["a", "b", "c", "d"]


@in_loop
async def test_of_a_file_that_ends_anywhere_only_whole_flushes_are_read(tmp_path: Path) -> None:
    await make(tmp_path)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    first = next(begin for begin, _ in flushed_items(path, data))
    lengths = set()
    for end in range(first, len(data)):
        path.write_bytes(data[:end])
        found = read(path)
        assert found == WORDS[: len(found)]
        lengths.add(len(found))
    assert lengths == set(range(len(WORDS)))


@in_loop
async def test_what_was_flushed_since_the_file_was_mapped_is_not_looked_for(tmp_path: Path) -> None:
    await make(tmp_path)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    begins = [begin for begin, _ in flushed_items(path, data)]
    assert read(path, data[: begins[3]]) == WORDS[:3]


@in_loop
async def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """Of any byte of an item that is not the last flush: behind it stand whole ones, so it is no torn end."""
    await make(tmp_path)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    for begin, end in list(flushed_items(path, data))[:-1]:
        for at in range(begin, end):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises(ItemLogDamaged, match=path.name):
                read(path)


@in_loop
async def test_a_log_is_whole_with_all_of_its_segments_and_damaged_without_any_but_the_last(
    tmp_path: Path,
) -> None:
    await make(tmp_path, segment_bytes=1)
    paths = segments(tmp_path)
    assert len(paths) > 2
    assert whole_log(tmp_path) == paths
    assert read_all(tmp_path) == WORDS
    for missing in paths[:-1]:
        data = missing.read_bytes()
        missing.unlink()
        with pytest.raises(ItemLogDamaged, match="the segment before it is missing"):
            whole_log(tmp_path)
        missing.write_bytes(data)
    assert whole_log(tmp_path) == paths


@in_loop
async def test_a_segment_that_others_follow_and_is_shorter_than_it_was_is_damaged(tmp_path: Path) -> None:
    await make(tmp_path, segment_bytes=1)
    for path in segments(tmp_path)[:-1]:
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        with pytest.raises(
            ItemLogDamaged, match=f"{path.name}.*the file ends here, and had {len(data)} bytes"
        ):
            whole_log(tmp_path)
        path.write_bytes(data)


def test_no_log_has_no_segments(tmp_path: Path) -> None:
    assert whole_log(tmp_path / "nowhere") == []
    assert whole_log(tmp_path) == []


@in_loop
async def test_changed_items_are_read_by_whoever_opens_the_log(tmp_path: Path) -> None:
    """It checks every checksum."""
    await make(tmp_path, segment_bytes=200)
    sizes = [path.stat().st_size for path in segments(tmp_path)]
    for path in segments(tmp_path):
        change_items(path, shouted)
    assert [path.stat().st_size for path in segments(tmp_path)] == sizes
    assert read_all(tmp_path) == [word.upper() for word in WORDS]
    log = opened(tmp_path)
    assert items(log) == [word.upper() for word in WORDS]
    await flushed(log, 0, "seven")
    log.close()
    assert read_all(tmp_path)[-1] == "seven"


@in_loop
async def test_a_file_of_which_nothing_changes_is_not_written(tmp_path: Path) -> None:
    await make(tmp_path)
    (path,) = segments(tmp_path)
    before = path.stat()
    change_items(path, lambda entry: entry)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@in_loop
async def test_an_item_of_another_length_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    await make(tmp_path)
    (path,) = segments(tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"4 bytes in the place of 5"):
        change_items(path, lambda entry: shouted(entry) if entry != CODEC.encode("two") else entry[:-1])
    assert path.read_bytes() == before


@in_loop
@pytest.mark.parametrize("step", ["fsync", "replace"])
async def test_a_change_that_ends_before_its_time_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    await make(tmp_path)
    (path,) = segments(tmp_path)
    before = path.read_bytes()

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "fsync":
            patch.setattr(os, "fsync", end)
        else:
            patch.setattr(Path, "replace", end)
        with pytest.raises(KeyboardInterrupt):
            change_items(path, shouted)
    assert path.read_bytes() == before
    change_items(path, shouted)
    assert read_all(tmp_path) == [word.upper() for word in WORDS]


@in_loop
async def test_a_damaged_segment_is_not_changed(tmp_path: Path) -> None:
    """Its checksums would be right afterwards."""
    await make(tmp_path)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    begin, _ = next(flushed_items(path, data))
    damaged = data[:begin] + bytes([data[begin] ^ 1]) + data[begin + 1 :]
    path.write_bytes(damaged)
    with pytest.raises(ItemLogDamaged, match=path.name):
        change_items(path, lambda entry: entry[:-1] + b"x")
    assert path.read_bytes() == damaged


@in_loop
@pytest.mark.parametrize("whole", [True, False], ids=["nothing changes", "something changes"])
async def test_what_a_killed_process_has_left_of_a_flush_is_removed(tmp_path: Path, *, whole: bool) -> None:
    await make(tmp_path)
    (path,) = segments(tmp_path)
    flushed_bytes = path.read_bytes()
    log = opened(tmp_path)
    await flushed(log, 0, "secret")
    log.close()
    torn = path.read_bytes()[:-1]
    path.write_bytes(torn)
    assert b"secret" in torn
    change_items(path, (lambda entry: entry) if whole else shouted)
    assert b"secret" not in path.read_bytes().lower()
    assert len(path.read_bytes()) == len(flushed_bytes)
    assert [word.lower() for word in read_all(tmp_path)] == WORDS


@in_loop
async def test_a_log_is_read_from_a_segment_on_without_those_before_it(tmp_path: Path) -> None:
    await make(tmp_path, segment_bytes=1)
    paths = segments(tmp_path)
    assert len(paths) > 2
    assert list(segments_from(tmp_path, 2)) == paths[1:]
    paths[0].unlink()
    assert list(segments_from(tmp_path, 2)) == paths[1:]
    with pytest.raises(ItemLogDamaged, match="missing"):
        list(segments_from(tmp_path, 1))
    with pytest.raises(ItemLogDamaged, match="missing"):
        list(segments_from(tmp_path, len(paths) + 1))
