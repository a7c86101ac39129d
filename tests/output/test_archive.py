"""What is committed is whole or absent, and `cars.json` is made from it one record at a time."""

from __future__ import annotations

import errno
import json
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carscraper.output import archive as module
from carscraper.output.archive import CARS, LEDGER, Archive
from scrapy_durable import disk
from scrapy_durable.disk import write_atomically


def line(listing_id: str, price: int = 1, specs: bool = True, at: int = 0, url: str = "") -> bytes:
    """A record as the pipeline writes it, read at that millisecond."""
    groups = [{"title": "Summary", "attrs": []}] if specs else []
    record = {
        "id": listing_id,
        "url": url,
        "scraped_at": f"2026-11-20T10:15:00.{at:03d}Z",
        "car_attrs": {"price": price},
        "car_specs": groups,
    }
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


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
    archive.commit(CARS, [line("1", 12, at=2), line("2", 20), line("1", 11, at=1)])
    archive.commit(CARS, [line("3", 30), line("1", 13, at=3)])
    archive.commit(CARS, [line("1", 19, at=0)])
    assert prices(archive) == {"1": 13, "2": 20, "3": 30}


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_read_in_one_millisecond_the_same_one_counts_whoever_came_first(
    archive: Archive, turned: bool
) -> None:
    lines = [line("1", 10), line("1", 11), line("1", 10)]
    for one in reversed(lines) if turned else lines:
        archive.commit(CARS, [one, line("2")])
    assert prices(archive) == {"1": 11, "2": 1}


def test_a_url_that_looks_like_the_time_of_a_record_is_not_taken_for_it(archive: Archive) -> None:
    trap = '","scraped_at":"9999","'
    archive.commit(CARS, [line("1", 10, at=1, url=trap), line("1", 11, at=2)])
    assert prices(archive) == {"1": 11}


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 2)), min_size=1), max_size=6
    ),
    piece=st.integers(1, 400),
)
def test_whatever_is_committed_is_published_line_by_line(
    batches: list[list[tuple[int, int, int]]], piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Records of few listings, in any order, of any age, and the file written in pieces of any size."""
    archive = Archive(tmp_path_factory.mktemp("output"), "crawl-1", "worker-a")
    archive.open(resumable=True)
    newest: dict[int, tuple[int, bytes]] = {}
    for batch in batches:
        lines = [line(str(listing), price, at=at, url="a\nb") for listing, price, at in batch]
        archive.commit(CARS, lines)
        for (listing, _, at), text in zip(batch, lines, strict=True):
            newest[listing] = max(newest.get(listing, (at, text)), (at, text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", piece)
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


def test_who_committed_when_does_not_matter(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that waited for its specification is committed after a newer reading of it."""
    times = iter([1_000_000_001_000_000_000, 1_000_000_000_000_000_000])
    monkeypatch.setattr(module.time, "time_ns", lambda: next(times))
    archive.commit(CARS, [line("1", 10, at=1)])
    Archive(tmp_path, "crawl-1", "worker-A").commit(CARS, [line("1", 11, at=2)])
    assert prices(archive) == {"1": 11}


def test_two_workers_never_overwrite_each_other(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "time_ns", lambda: 5_000_000)
    other = Archive(tmp_path, "crawl-1", "worker-b")
    paths = [archive.commit(CARS, [line("1")]), archive.commit(CARS, [line("2")])]
    paths.append(other.commit(CARS, [line("3")]))
    assert len(set(paths)) == 3
    assert {record["id"] for record in published(archive)} == {"1", "2", "3"}


def test_torn_temporary_files_are_ignored(archive: Archive) -> None:
    archive.commit(CARS, [line("1")])
    torn = archive.directory / ".00000000000009-worker-a-000002.cars.jsonl.77.tmp"
    torn.write_bytes(line("2")[:20])
    (archive.directory / ".00000000000009-worker-a-000003.cars.jsonl").write_bytes(b"torn")
    assert [record["id"] for record in published(archive)] == ["1"]


def test_the_newest_record_says_whether_a_listing_is_without_specs(archive: Archive) -> None:
    archive.commit(CARS, [line("1", specs=False), line("2", specs=False), line("3")])
    archive.commit(CARS, [line("1", specs=True, at=1), line("3", specs=False, at=1)])
    assert archive.kept().without_specs == 2


def test_the_ledger_comes_back_in_order_and_is_no_record(archive: Archive) -> None:
    for number in range(3):
        archive.commit(LEDGER, [b'{"kind":"PageRead","item":%d}\n' % number])
    archive.commit(CARS, [line("1")])
    assert [entry["item"] for entry in archive.ledger()] == [0, 1, 2]
    assert list(archive.kept().newest) == ["1"]


@pytest.mark.parametrize("step", ["fsync", "replace", "write"])
def test_a_disk_that_refuses_leaves_the_file_absent_and_the_older_ones_whole(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    archive.commit(CARS, [line("1")])
    before = sorted(archive.directory.iterdir())

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def refusing_lines() -> Iterator[bytes]:
        yield line("2")
        refuse()

    with monkeypatch.context() as patch:
        if step == "fsync":
            patch.setattr(os, "fsync", refuse)
        elif step == "replace":
            patch.setattr(Path, "replace", refuse)
        lines = refusing_lines() if step == "write" else [line("2")]
        with pytest.raises(OSError, match="No space"):
            archive.commit(CARS, lines)  # type: ignore[arg-type]
    assert sorted(archive.directory.iterdir()) == before
    archive.commit(CARS, [line("2")])
    assert [record["id"] for record in published(archive)] == ["1", "2"]


def test_when_the_directory_cannot_be_synced_the_caller_is_told_and_the_file_is_whole(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second fsync of a commit is the directory's."""
    real, calls = os.fsync, []

    def refuse_the_second(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_the_second)
    with pytest.raises(OSError, match="Input/output"):
        archive.commit(CARS, [line("1")])
    assert list(archive.kept().newest) == ["1"]


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
        archive.commit(CARS, [line("1")])
    ended.end()
    for archive in (killed, ended, resumable):
        archive.close()

    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.end()
    assert {path.name for path in (tmp_path / "batches").iterdir()} == {
        "crawl-resumable",
        "crawl-running",
        "crawl-last",
    }
    running.close()
    last.close()


@pytest.mark.parametrize("complete", [False, True])
def test_the_batches_of_the_last_complete_crawl_go_with_the_next_complete_one_only(
    tmp_path: Path, complete: bool
) -> None:
    """Whether it came to its end or died after it was published."""
    for name in ("whole", "died"):
        earlier = Archive(tmp_path, f"crawl-{name}", "worker")
        earlier.open(resumable=False)
        earlier.commit(CARS, [line("1")])
        earlier.publish(earlier.kept(), complete=True)
        if name == "whole":
            earlier.end()
        earlier.close()
    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.publish(last.kept(), complete=complete)
    last.end()
    last.close()
    left = {path.name for path in (tmp_path / "batches").iterdir()}
    assert left == ({"crawl-last"} if complete else {"crawl-whole", "crawl-died", "crawl-last"})


def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    strange = tmp_path / "batches" / "holiday"
    strange.mkdir(parents=True)
    (strange / "photo.jpg").write_bytes(b"...")
    last = Archive(tmp_path, "crawl-last", "worker")
    last.open(resumable=False)
    last.end()
    last.close()
    assert (strange / "photo.jpg").exists()


def test_a_line_that_is_no_record_is_refused_by_its_beginning(archive: Archive) -> None:
    archive.commit(CARS, [b'{"ID":"1"}\n'])
    with pytest.raises(ValueError, match="not a record of ours"):
        archive.kept()
