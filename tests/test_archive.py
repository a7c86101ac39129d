"""What is committed is whole or absent, and `cars.json` is made from it one record at a time."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from carscraper import archive as module
from carscraper.archive import CARS, LEDGER, Archive, write_atomically


def line(listing_id: str, price: int = 1, specs: bool = True) -> bytes:
    """A record as the pipeline writes it."""
    groups = [{"title": "Summary", "attrs": []}] if specs else []
    record = {
        "id": listing_id,
        "url": "",
        "scraped_at": "",
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
    archive.publish(archive.kept())
    records: list[dict[str, object]] = json.loads((archive.output_dir / "cars.json").read_bytes())
    return records


def test_each_id_is_published_once_with_its_newest_record(archive: Archive) -> None:
    archive.commit(CARS, [line("1", 10), line("2", 20), line("1", 11)])
    archive.commit(CARS, [line("3", 30), line("1", 12)])
    records = published(archive)
    assert {record["id"]: record["car_attrs"] for record in records} == {
        "1": {"price": 12},
        "2": {"price": 20},
        "3": {"price": 30},
    }
    assert len(records) == 3


def test_an_empty_crawl_is_published_as_an_empty_array(archive: Archive) -> None:
    assert published(archive) == []


def test_newest_goes_by_the_time_of_the_commit_whoever_committed(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker names sort the other way round than the times."""
    times = iter([1_000_000_000_000_000_000, 1_000_000_001_000_000_000])
    monkeypatch.setattr(module.time, "time_ns", lambda: next(times))
    archive.commit(CARS, [line("1", 10)])
    Archive(tmp_path, "crawl-1", "worker-A").commit(CARS, [line("1", 11)])
    assert [record["car_attrs"] for record in published(archive)] == [{"price": 11}]


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
    archive.commit(CARS, [line("1", specs=True), line("3", specs=False)])
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
