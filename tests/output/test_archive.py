"""What is flushed counts, and `cars.json` is made from it one record at a time."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.items import Car, OddSpec, PageRead, Removal, SetAside
from carscraper.output import archive as module
from carscraper.output.archive import CARS, Archive
from carscraper.output.entries import decode, encode_car
from carscraper.stores.backlog import entries_behind
from scrapy_durable import disk
from scrapy_durable.disk import write_atomically
from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log import segments_in


def car(listing_id: str, price: int = 1, specs: bool = True, at: int = 0, url: str = "") -> Car:
    """Read at that millisecond."""
    groups = [{"title": "Summary", "attrs": []}] if specs else []
    return Car(listing_id, url, f"2026-11-20T10:15:00.{at:03d}Z", {"price": price}, groups)


def keep(archive: Archive, *cars: Car) -> None:
    """Have them flushed."""
    for one in cars:
        archive.keep(one)
    asyncio.run(archive.write())


def record_in(one: Car) -> bytes:
    """As it is published."""
    return one.record_parts[1]


@contextmanager
def worker(output_dir: Path, name: str, **options: Any) -> Iterator[Archive]:
    """Another process of the crawl."""
    other = Archive(output_dir, "crawl-1", name, **options)
    other.open(resumable=True)
    yield other
    other.close()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    opened = Archive(tmp_path, "crawl-1", "worker-a")
    opened.open(resumable=True)
    yield opened
    opened.close()


def published(archive: Archive) -> list[dict[str, object]]:
    archive.publish(archive.kept(), complete=True)
    records: list[dict[str, object]] = json.loads((archive.output_dir / "cars.json").read_bytes())
    return records


def prices(archive: Archive) -> dict[object, object]:
    """Id to price, as published."""
    records = published(archive)
    found = {record["id"]: record["car_attrs"]["price"] for record in records}  # type: ignore[index]
    assert len(found) == len(records)
    return found


def test_each_id_is_published_once_with_the_record_that_was_read_last(archive: Archive) -> None:
    keep(archive, car("1", 12, at=2), car("2", 20), car("1", 11, at=1))
    keep(archive, car("3", 30), car("1", 13, at=3))
    keep(archive, car("1", 19, at=0))
    assert prices(archive) == {"1": 13, "2": 20, "3": 30}


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_read_in_one_millisecond_the_same_one_counts_whoever_came_first(
    archive: Archive, turned: bool
) -> None:
    lines = [car("1", 10), car("1", 11), car("1", 10)]
    for one in reversed(lines) if turned else lines:
        keep(archive, one, car("2"))
    assert prices(archive) == {"1": 11, "2": 1}


def test_a_url_that_looks_like_the_time_of_a_record_is_not_taken_for_it(archive: Archive) -> None:
    trap = '","scraped_at":"9999","'
    keep(archive, car("1", 10, at=1, url=trap), car("1", 11, at=2))
    assert prices(archive) == {"1": 11}


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 2)), min_size=1), max_size=6
    ),
    segment_bytes=st.integers(1, 2000),
)
def test_whatever_is_flushed_is_published_line_by_line(
    batches: list[list[tuple[int, int, int]]], segment_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Records of few listings, in any order, of any age, in segments of any size."""
    archive = Archive(tmp_path_factory.mktemp("output"), "crawl-1", "worker-a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SEGMENT_BYTES", segment_bytes)
        archive.open(resumable=True)
    newest: dict[int, tuple[int, bytes]] = {}
    for batch in batches:
        cars = [car(str(listing), price, at=at, url="a\nb") for listing, price, at in batch]
        keep(archive, *cars)
        for (listing, _, at), one in zip(batch, cars, strict=True):
            text = record_in(one)
            newest[listing] = max(newest.get(listing, (at, text)), (at, text))
    archive.publish(archive.kept(), complete=True)
    archive.close()
    text = (archive.output_dir / "cars.json").read_bytes()
    json.loads(text)
    records = text.splitlines(keepends=True)[1:-1]
    assert sorted(record.rstrip(b",\n") for record in records) == sorted(
        text.rstrip(b"\n") for _, text in newest.values()
    )
    assert all(record.endswith(b",\n") for record in records[:-1])


def test_an_empty_crawl_is_published_as_an_empty_array(archive: Archive) -> None:
    assert published(archive) == []


@pytest.mark.parametrize("first", ["worker-A", "worker-b"])
def test_who_was_first_does_not_matter(archive: Archive, tmp_path: Path, first: str) -> None:
    """A listing that waited for its specification is logged after a newer reading of it."""
    keep(archive, car("1", 10, at=1))
    with worker(tmp_path, first, clock=lambda: 1_000_000_000.0) as other:
        keep(other, car("1", 11, at=2))
    assert prices(archive) == {"1": 11}


def test_two_workers_that_begin_at_once_never_overwrite_each_other(tmp_path: Path) -> None:
    with (
        worker(tmp_path, "worker-a", clock=lambda: 5.0) as one,
        worker(tmp_path, "worker-b", clock=lambda: 5.0) as other,
    ):
        keep(one, car("1"))
        keep(one, car("2"))
        keep(other, car("3"))
        assert {record["id"] for record in published(one)} == {"1", "2", "3"}


def test_what_was_not_flushed_is_no_part_of_it(archive: Archive) -> None:
    """What a process leaves that is killed while it writes."""
    keep(archive, car("1"))
    (segment,) = segments_in(archive.own_directory / CARS)
    whole = segment.read_bytes()
    keep(archive, car("2"))
    flushed = segment.read_bytes()
    for size in range(len(whole), len(flushed)):
        segment.write_bytes(flushed[:size])
        assert list(archive.kept().listings) == ["1"], size
    segment.write_bytes(flushed)
    assert list(archive.kept().listings) == ["1", "2"]


def test_a_byte_that_has_changed_since_is_named_with_its_file(archive: Archive) -> None:
    keep(archive, car("1"))
    (segment,) = segments_in(archive.own_directory / CARS)
    before = segment.read_bytes()
    keep(archive, car("2"))
    damaged = bytearray(segment.read_bytes())
    damaged[before.index(b'"price":') + 8] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(ItemLogDamaged, match=str(segment)):
        archive.kept()


def test_a_segment_that_is_missing_is_named(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 1)
    with worker(archive.output_dir, "worker-b") as other:
        for number in range(3):
            keep(other, car(str(number)))
        first, second, third = segments_in(other.own_directory / CARS)
        assert len(archive.kept().listings) == 3
        content = second.read_bytes()
        second.unlink()
        with pytest.raises(ItemLogDamaged, match="the segment before it is missing"):
            archive.kept()
        second.write_bytes(content[:-1])
        with pytest.raises(ItemLogDamaged, match="the file ends here"):
            archive.kept()
        second.write_bytes(content)
        first.unlink()
        with pytest.raises(ItemLogDamaged, match="the segment before it is missing"):
            archive.kept()
        assert third.exists()


def test_the_position_of_a_record_is_found_again_in_whatever_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 600)
    with worker(tmp_path, "worker-b") as archive:
        for number in range(12):
            keep(archive, car(str(2 * number)), car(str(2 * number + 1)))
        assert len(segments_in(archive.own_directory / CARS)) > 2
        for records in range(25):
            position = archive.position_of(records)
            behind = [entry for _, entry in entries_behind(archive.own_directory, position)]
            assert [decode(entry).id for entry in behind] == [str(n) for n in range(records, 24)]


def test_whoever_knows_that_a_record_is_flushed_finds_its_segment(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between two steps of the flush that has begun the segment."""
    monkeypatch.setattr(archive.cars._writer, "_segment_bytes", 1)
    looked: set[int] = set()

    async def look(write: Coroutine[Any, Any, None]) -> None:
        writing = asyncio.ensure_future(write)
        while not writing.done():
            await asyncio.sleep(0)
            flushed = archive.flushed
            behind = entries_behind(archive.own_directory, archive.position_of(flushed))
            found = [decode(entry).id for _, entry in behind]
            assert found == [str(number) for number in range(flushed, flushed + len(found))]
            looked.add(flushed)
        await writing

    for number in range(6):
        archive.keep(car(str(number)))
        if number % 2:
            asyncio.run(look(archive.write()))
    assert looked >= {2, 4}


def test_the_newest_record_says_whether_a_listing_is_without_specs(archive: Archive) -> None:
    keep(archive, car("1", specs=False), car("2", specs=False), car("3"))
    keep(archive, car("1", specs=True, at=1), car("3", specs=False, at=1))
    assert archive.kept().without_specs == 2


def test_the_ledger_comes_back_in_order_and_is_no_record(archive: Archive) -> None:
    noted = [
        PageRead(1, 0, 20, 71_290, ["1", "2"], 0, specs=["a/2020"], deviations={"data[*].x": {"n": 1}}),
        OddSpec("a/2020", {"data.y": {"n": 2}}),
        SetAside("https://site/page", "data[0].attributes.code", "is no text: 5", "3"),
    ]
    for item in noted:
        archive.note(item)
    keep(archive, car("1"))
    assert list(archive.ledger()) == noted
    assert list(archive.kept().listings) == ["1"]


def test_a_removal_is_logged_once_and_is_no_record(archive: Archive) -> None:
    keep(archive, car("1"))
    removal = Removal(["1"], "2026-11-20T10:15:00.123Z", "2026-11-20T11:15:00.123Z")
    assert [archive.keep_removal(removal), archive.keep_removal(replace(removal))] == [2, 2]
    keep(archive)
    behind = [entry for _, entry in entries_behind(archive.own_directory, archive.position_of(1))]
    assert [decode(entry) for entry in behind] == [removal]
    assert list(archive.kept().listings) == ["1"]


def test_a_disk_that_refuses_costs_nothing_that_was_flushed_and_the_next_write_has_it_all(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(archive, car("1"))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        archive.keep(car("2"))
        with pytest.raises(OSError, match="No space") as refused:
            asyncio.run(archive.write())
        assert refused.value.filename == str(segments_in(archive.own_directory / CARS)[0])
    assert list(archive.kept().listings) == ["1"]
    keep(archive, car("3"))
    assert list(archive.kept().listings) == ["1", "2", "3"]


@pytest.mark.parametrize("block", [4096, 1000, 4 << 20])
@pytest.mark.parametrize("place", ["disk", "memory"])
def test_a_large_file_holds_what_was_written_whatever_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, place: str
) -> None:
    """The disk takes blocks of 4096 bytes and refuses others, which then go through the page cache."""
    monkeypatch.setattr(disk, "_BLOCK", block)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if place == "memory" else tmp_path) as directory:
        target = Path(directory) / "file"
        for sizes in ([], [0], [1], [4096], [4095, 1, 0, 1], [10_000, 3, 4096, 5_000_000]):
            chunks = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
            write_atomically(target, chunks, large=True)
            assert target.read_bytes() == b"".join(chunks)
        assert list(target.parent.iterdir()) == [target]


def test_a_disk_that_is_full_leaves_a_large_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_atomically(target, [b"x" * (9 << 20)], large=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "cars.json"
    target.write_bytes(b"old")
    seen = []

    def chunks() -> Iterator[bytes]:
        for piece in (b"n", b"e", b"w"):
            seen.append(target.read_bytes())
            yield piece

    write_atomically(target, chunks())
    assert seen == [b"old"] * 3
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_the_file_is_on_disk_before_its_name_and_its_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    real_fsync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("fsync"), real_fsync(fd)))
    monkeypatch.setattr(Path, "replace", lambda path, to: (done.append("replace"), real_replace(path, to)))
    write_atomically(tmp_path / "file", [b"x"])
    assert done == ["fsync", "replace", "fsync"]


def test_ending_a_crawl_removes_abandoned_ones_and_leaves_those_that_run_or_can_go_on(tmp_path: Path) -> None:
    killed, ended, resumable, running = (
        Archive(tmp_path, f"crawl-{name}", "worker") for name in ("killed", "ended", "resumable", "running")
    )
    for archive, can_go_on in ((killed, False), (ended, True), (resumable, True), (running, False)):
        archive.open(resumable=can_go_on)
        keep(archive, car("1"))
    ended.end()
    for archive in (killed, ended, resumable):
        archive.close()

    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.end()
    assert {path.name for path in (tmp_path / "crawls").iterdir()} == {
        "crawl-resumable",
        "crawl-running",
        "crawl-last",
    }
    running.close()
    last.close()


@pytest.mark.parametrize("complete", [False, True])
def test_what_the_last_complete_crawl_has_kept_goes_with_the_next_complete_one_only(
    tmp_path: Path, complete: bool
) -> None:
    """Whether it came to its end or died after it was published."""
    for name in ("whole", "died"):
        earlier = Archive(tmp_path, f"crawl-{name}", "worker")
        earlier.open(resumable=False)
        keep(earlier, car("1"))
        earlier.publish(earlier.kept(), complete=True)
        if name == "whole":
            earlier.end()
        earlier.close()
    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.publish(last.kept(), complete=complete)
    last.end()
    last.close()
    left = {path.name for path in (tmp_path / "crawls").iterdir()}
    assert left == ({"crawl-last"} if complete else {"crawl-whole", "crawl-died", "crawl-last"})


def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    strange = tmp_path / "crawls" / "holiday"
    strange.mkdir(parents=True)
    (strange / "photo.jpg").write_bytes(b"...")
    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.end()
    last.close()
    assert (strange / "photo.jpg").exists()


@pytest.mark.parametrize("key", ["mongo", "postgres"])
def test_what_a_database_has_not_got_stays_until_it_has(tmp_path: Path, key: str) -> None:
    """Of a crawl that has ended, and of one that was killed."""
    for number, ends in enumerate((True, False)):
        earlier = Archive(tmp_path, f"crawl-{number}", "worker")
        earlier.open(resumable=False)
        keep(earlier, car("1"))
        (earlier.own_directory / f"{key}.position").write_bytes(b"{}")
        if ends:
            earlier.end()
        earlier.close()
    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.end()
    assert {path.name for path in (tmp_path / "crawls").iterdir()} == {"crawl-0", "crawl-1", "crawl-last"}
    for position in tmp_path.rglob("*.position"):
        position.unlink()
    last.end()
    last.close()
    assert {path.name for path in (tmp_path / "crawls").iterdir()} == {"crawl-last"}


def test_a_record_that_is_none_of_ours_is_refused_by_its_beginning(archive: Archive) -> None:
    entry = encode_car(car("1")).replace(b'{"id":"1"', b'{"ID":"1"')
    archive.cars.append_encoded(0, entry)
    asyncio.run(archive.write())
    with pytest.raises(ValueError, match="not a record of ours"):
        archive.kept()
