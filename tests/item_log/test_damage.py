"""What a kill leaves is cut off; whatever else departs from what was flushed is an error that names the place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_durable.exceptions import ItemLogDamaged, OtherRelease
from scrapy_durable.item_log import ItemLog, records, scanning
from tests.item_log.logs import CODEC, CRAWL, accepted, end, flushed, items, opened, segments
from tests.item_log.loops import in_loop

Told = tuple[str, list[int], list[object]]
"""Name, open leases, and what counts."""


async def make(directory: Path) -> None:
    """A log with all kinds of records, in several segments."""
    log = opened(directory, segment_bytes=1)
    await accepted(log, 1, "gone")
    log.let_go(end(log))
    await log.write()
    log.close()
    log = opened(directory, segment_bytes=500)
    log.append(0, {"without": "lease"})
    log.append(2, {"a": 1})
    log.append(3, {"b": 2})
    await log.write()
    log.discard([3])
    await flushed(log, 4, "open")
    await accepted(log, 2, {"a": 2})
    await flushed(log, 5, "x" * 200)
    await accepted(log, 5, {"a": 3})
    await flushed(log, 4, "still open", "z")
    log.close()


def told(directory: Path) -> Told:
    log = ItemLog(directory, CODEC, segment_bytes=500)
    try:
        open_leases = log.open(CRAWL)
        return log.name, open_leases, items(log)
    finally:
        log.close()


@contextlib.contextmanager
def instead(path: Path, data: bytes) -> Iterator[None]:
    """A file that holds other bytes for a while."""
    kept = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(kept)


def flipped(data: bytes, offset: int) -> bytes:
    """With other bits in one byte: one of them, or several."""
    return data[:offset] + bytes([data[offset] ^ (1 << offset % 8 | offset % 3)]) + data[offset + 1 :]


@in_loop
async def test_a_byte_that_is_not_what_was_flushed_is_an_error_wherever_it_is(tmp_path: Path) -> None:
    await make(tmp_path)
    files = segments(tmp_path)
    assert len(files) > 2
    for path in files:
        data = path.read_bytes()
        for offset in range(len(data)):
            with (
                instead(path, flipped(data, offset)),
                pytest.raises((ItemLogDamaged, OtherRelease)) as caught,
            ):
                told(tmp_path)
            assert str(path if isinstance(caught.value, ItemLogDamaged) else tmp_path) in str(caught.value)
    assert told(tmp_path)[1] == [4]


@in_loop
async def test_a_byte_that_changes_after_that_is_never_a_silent_loss(tmp_path: Path) -> None:
    await make(tmp_path)
    expected = told(tmp_path)[2]
    damaged = 0
    for path in segments(tmp_path):
        data = path.read_bytes()
        for offset in range(len(data)):
            log = opened(tmp_path, segment_bytes=500)
            with instead(path, flipped(data, offset)):
                try:
                    assert items(log) == expected
                except ItemLogDamaged:
                    damaged += 1
            log.close()
    assert damaged > 500


@in_loop
async def test_a_flush_that_was_cut_off_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    await make(tmp_path)
    before = told(tmp_path)
    path = segments(tmp_path)[-1]
    size = path.stat().st_size
    log = opened(tmp_path, segment_bytes=5000)
    log.append(6, {"new": 1})
    log.append(0, {"new": 2})
    log.accept([4])
    await log.write()
    log.close()
    data = path.read_bytes()
    after = told(tmp_path)
    assert after[1:] == ([6], [*before[2], {"new": 2}, "open", "still open", "z"])
    for length in range(size, len(data)):
        path.write_bytes(data[:length])
        assert told(tmp_path) == before, length
        assert path.stat().st_size == size


@in_loop
async def test_a_segment_that_ends_too_early_is_an_error_when_another_follows(tmp_path: Path) -> None:
    await make(tmp_path)
    for path in segments(tmp_path)[:-1]:
        data = path.read_bytes()
        for length in range(len(data)):
            with instead(path, data[:length]), pytest.raises(ItemLogDamaged, match=path.name):
                told(tmp_path)
        with instead(path, data + b"\0"), pytest.raises(ItemLogDamaged, match=path.name):
            told(tmp_path)


@in_loop
async def test_it_is_so_too_when_the_segment_that_followed_is_deleted(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await flushed(log, 1, "open")
    await accepted(log, 2, "passed")
    log.let_go(end(log))
    await log.write()
    log.close()
    first, second, *_ = segments(tmp_path)
    assert second.name != "00000002.segment"
    data = first.read_bytes()
    with instead(first, data[:-1]), pytest.raises(ItemLogDamaged, match=first.name):
        told(tmp_path)


@in_loop
async def test_a_flush_that_is_missing_between_others_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    sizes = []
    for token in (1, 2, 3):
        await accepted(log, token, "a")
        sizes.append(log.size)
    log.close()
    path = segments(tmp_path)[0]
    data = path.read_bytes()
    with (
        instead(path, data[: sizes[0]] + data[sizes[1] :]),
        pytest.raises(ItemLogDamaged, match="a flush before this one is missing"),
    ):
        told(tmp_path)


@in_loop
async def test_a_segment_that_is_missing_is_an_error_when_its_items_count(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=1)
    await flushed(log, 1, "a")
    await flushed(log, 2, "b")
    await flushed(log, 1, "c")
    log.accept([2])
    await log.write()
    log.close()
    first, second, *_ = segments(tmp_path)
    data = first.read_bytes()
    first.unlink()
    with pytest.raises(ItemLogDamaged, match=r"00000003\.segment.* items of lease 1"):
        opened(tmp_path)
    first.write_bytes(data)
    second.unlink()
    log = opened(tmp_path)
    with pytest.raises(ItemLogDamaged, match=r"00000002\.segment.* missing"):
        items(log)
    log.close()


@in_loop
async def test_a_lease_that_leads_back_to_itself_or_to_another_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await flushed(log, 1, "a")
    other = log.size
    await flushed(log, 2, "of another")
    place = log.size
    await flushed(log, 1, "b")
    log.accept([1])
    await log.write()
    path = segments(tmp_path)[0]
    begin = place + records.PREFIX_BYTES
    for previous, problem in ((place, "contradicts the next items of"), (other, "is no piece of")):
        data = bytearray(path.read_bytes())
        data[begin : begin + 12] = records.pack_place((1, previous))
        with instead(path, bytes(data)), pytest.raises(ItemLogDamaged, match=f"{problem} lease 1"):
            items(log)
    log.close()


def test_a_piece_that_does_not_follow_the_one_before_is_an_error(tmp_path: Path) -> None:
    opened(tmp_path).close()
    path = segments(tmp_path)[0]
    pieces = (records.Piece(records.NOWHERE, 0, 1), records.Piece((1, 5), 3, 1))
    for piece in pieces:
        record = records.pack(records.PIECE, 1, b"".join(records.pack_piece(piece, [b"1"])))
        commit = records.pack(records.COMMIT, 0, records.pack_commit(path.stat().st_size))
        path.write_bytes(path.read_bytes() + record + commit)
    with pytest.raises(ItemLogDamaged, match="contradicts the items of lease 1"):
        opened(tmp_path)


def test_a_record_of_a_kind_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    opened(tmp_path).close()
    path = segments(tmp_path)[0]
    path.write_bytes(path.read_bytes() + records.pack(9, 1, b"") + records.pack(records.COMMIT, 0, bytes(8)))
    with pytest.raises(ItemLogDamaged, match="there is no record of kind 9"):
        opened(tmp_path)


@in_loop
async def test_a_file_that_gets_shorter_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, "a")
    path = segments(tmp_path)[0]
    with (
        instead(path, path.read_bytes()[:-1]),
        pytest.raises(ItemLogDamaged, match="the file ends here"),
    ):
        items(log)
    log.close()


@in_loop
async def test_a_segment_is_not_deleted_when_what_it_says_cannot_be_read(tmp_path: Path) -> None:
    """The leases that it settles have items in another segment."""
    for damaged_at in (-4, -50, -60):
        directory = tmp_path / str(damaged_at)
        log = opened(directory, segment_bytes=1)
        log.append(1, "open")
        await accepted(log, 2, "a")
        await accepted(log, 3, "b")
        log.let_go(end(log))
        path = directory / "00000002.segment"
        path.write_bytes(flipped(path.read_bytes(), path.stat().st_size + damaged_at))
        with contextlib.suppress(ItemLogDamaged):
            await log.write()
            assert damaged_at == -4  # in the commit, which is not read
        assert path.exists() == (damaged_at != -4)
        log.close()


@in_loop
async def test_a_position_that_the_log_does_not_have_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, "a")
    number, offset, _ = end(log)
    for position in (
        (number, offset + 1, 0),
        (number, offset + 1000, 0),
        (number + 1, 0, 0),
        (number, 1, 0),
        (0, 0, 2),
    ):
        with pytest.raises(ItemLogDamaged):
            log.read(position, 1)
    log.close()


@in_loop
async def test_a_segment_of_another_log_is_an_error(tmp_path: Path) -> None:
    for name in ("one", "two"):
        log = opened(tmp_path / name, segment_bytes=1)
        await accepted(log, 1, "a")
        log.close()
    stray = tmp_path / "one" / "00000002.segment"
    with instead(stray, (tmp_path / "two" / stray.name).read_bytes()), pytest.raises(ItemLogDamaged):
        told(tmp_path / "one")
    with (
        instead(stray, (tmp_path / "one" / "00000001.segment").read_bytes()),
        pytest.raises(ItemLogDamaged, match="another place"),
    ):
        told(tmp_path / "one")


@in_loop
async def test_a_segment_of_another_crawl_among_ours_is_an_error_and_empties_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path / "ours", segment_bytes=1)
    await accepted(log, 1, "a")
    log.close()
    log = opened(tmp_path / "other", crawl="other", segment_bytes=1)
    await accepted(log, 1, "a")
    await accepted(log, 2, "b")
    log.close()
    (tmp_path / "other" / "00000004.segment").rename(tmp_path / "ours" / "00000004.segment")
    for crawl in (CRAWL, "other"):
        with pytest.raises(ItemLogDamaged, match="another place"):
            opened(tmp_path / "ours", crawl=crawl)
    assert len(segments(tmp_path / "ours")) == 3


@in_loop
async def test_a_sector_of_zeros_is_damage_when_a_flush_was_made_behind_it(tmp_path: Path) -> None:
    """In the last flush it is what lost power leaves."""
    log = opened(tmp_path)
    for text in ("x" * 2000, "y" * 2000):
        await accepted(log, 1 if text[0] == "x" else 2, text)
    log.close()
    path = segments(tmp_path)[0]
    data = path.read_bytes()
    with instead(path, data[:1024] + bytes(512) + data[1536:]), pytest.raises(ItemLogDamaged):
        told(tmp_path)


def test_another_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    opened(tmp_path).close()
    path = segments(tmp_path)[0]
    data = path.read_bytes().replace(b"item log 1 ", b"item log 2 ")
    path.write_bytes(data)
    for crawl in (CRAWL, "another"):
        with pytest.raises(OtherRelease, match=r"a newer release .* move it away to begin anew"):
            opened(tmp_path, crawl=crawl)
    assert path.read_bytes() == data


@in_loop
async def test_files_of_a_damaged_log_stay_as_they_are(tmp_path: Path) -> None:
    await make(tmp_path)
    path = segments(tmp_path)[0]
    path.write_bytes(flipped(path.read_bytes(), path.stat().st_size - 1))
    before = {file: file.read_bytes() for file in segments(tmp_path)}
    with pytest.raises(ItemLogDamaged):
        opened(tmp_path)
    assert before == {file: file.read_bytes() for file in segments(tmp_path)}


def test_a_segment_that_was_being_made_is_forgotten(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (draft := tmp_path / "00000002.draft").write_bytes(b"scrapy_dur")
    opened(tmp_path).close()
    assert not draft.exists()


def test_the_marks_of_a_record_are_in_no_hole() -> None:
    """A sector of zeros is what lost power leaves; shorter runs of zeros are in many records."""
    assert scanning._has_hole(b"a" * 12 + bytes(512) + b"a", 500)
    assert not scanning._has_hole(b"a" * 13 + bytes(511) + b"a", 500)
    assert scanning._has_hole(bytes(16) + b"a", 496)
    assert not scanning._has_hole(bytes(15) + b"a", 497)
