"""What a process has logged is delivered to each database at least once, in order, whoever delivers it."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from carscraper.exceptions import BacklogDamaged
from carscraper.output import archive as archive_module
from carscraper.output.archive import CARS, Archive
from carscraper.stores import backlog as module
from carscraper.stores.backlog import Backlog, waiting_in
from carscraper.stores.backlogs import Backlogs
from scrapy_durable.item_log import segments_in
from tests.standin import ROOT
from tests.stores.logged import TARGET, log, numbers_of, process

EVERYTHING = 1 << 20


def left_by(out: Path, crawl: str, worker: str, numbers: range, *, target: str = TARGET) -> Path:
    """The directory of a process that was killed before its database had anything."""
    with process(out, crawl, worker) as archive:
        Backlog.begin(archive.own_directory, "mongo", target).close()
        log(archive, numbers)
    return archive.own_directory


def adopted(directory: Path) -> Backlog:
    backlog = Backlog.adopt(directory, "mongo", TARGET)
    assert backlog is not None
    return backlog


def all_of(backlog: Backlog, most: int = EVERYTHING) -> list[int]:
    """All that waits, delivered."""
    found = []
    while entries := backlog.read(most):
        found += numbers_of(entries)
        backlog.drop(len(entries))
    return found


# One log


@pytest.mark.parametrize("segment_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("most", [1, 3, EVERYTHING])
def test_what_was_logged_is_read_in_order_until_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment_bytes: int, most: int
) -> None:
    monkeypatch.setattr(archive_module, "_SEGMENT_BYTES", segment_bytes)
    with process(tmp_path, "crawl", "a") as archive:
        own = Backlog.begin(archive.own_directory, "mongo", TARGET)
        log(archive, range(7))
        assert numbers_of(own.read(3)) == [0, 1, 2]
        assert numbers_of(own.read(3)) == [0, 1, 2], "nothing was dropped"
        own.drop(2)
        log(archive, range(7, 10))
        assert all_of(own, most) == list(range(2, 10))
        log(archive, range(10, 12))
        assert all_of(own, most) == [10, 11], "it goes on where it was"
        own.close()


def test_it_goes_on_where_it_was_in_the_next_process(tmp_path: Path) -> None:
    directory = left_by(tmp_path, "crawl", "a", range(10))
    backlog = adopted(directory)
    backlog.drop(len(backlog.read(4)))
    backlog.close()
    backlog = adopted(directory)
    backlog.count()
    assert backlog.waiting == 6
    assert all_of(backlog) == list(range(4, 10))
    backlog.close()


def test_a_read_takes_some_megabytes_at_most_but_one_record_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 3000)
    with process(tmp_path, "crawl", "a") as archive:
        own = Backlog.begin(archive.own_directory, "mongo", TARGET)
        log(archive, range(6), size=1000)
        log(archive, [6], size=9000)
        log(archive, [7], size=10)
        sizes = []
        while entries := own.read(EVERYTHING):
            sizes.append(len(entries))
            own.drop(len(entries))
        assert sum(sizes) == 8
        assert max(sizes) == 2
        own.close()


def test_a_position_that_cannot_be_noted_means_repetition_and_not_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = left_by(tmp_path, "crawl", "a", range(6))
    backlog = adopted(directory)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomically", refuse)
        backlog.drop(len(backlog.read(4)))
    assert numbers_of(backlog.read(1)) == [4], "this process knows"
    backlog.close()
    backlog = adopted(directory)
    assert all_of(backlog) == list(range(6)), "the next does not"
    backlog.close()


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"\xff", b'{"target": 1, "segment": 1, "items": 1}'])
def test_a_position_that_is_damaged_is_an_error_that_names_it(tmp_path: Path, text: bytes) -> None:
    directory = left_by(tmp_path, "crawl", "a", range(3))
    position = directory / "mongo.position"
    position.write_bytes(text)
    with pytest.raises(BacklogDamaged, match=str(position)):
        Backlog.adopt(directory, "mongo", TARGET)
    (waiting,) = waiting_in(tmp_path, "mongo")
    assert (waiting.target, waiting.in_use, waiting.is_empty) == (None, False, False)
    assert position.read_bytes() == text


def test_a_position_says_where_it_stands_in_plain_json(tmp_path: Path) -> None:
    directory = left_by(tmp_path, "crawl", "a", range(3))
    backlog = adopted(directory)
    backlog.drop(len(backlog.read(2)))
    backlog.close()
    found = json.loads((directory / "mongo.position").read_bytes())
    assert found == {"target": TARGET, "segment": 1, "items": 2}


# Whose it is


def test_what_a_process_has_is_not_adopted_before_it_is_gone(tmp_path: Path) -> None:
    with process(tmp_path, "crawl", "a") as archive:
        own = Backlog.begin(archive.own_directory, "mongo", TARGET)
        log(archive, range(3))
        assert Backlog.adopt(archive.own_directory, "mongo", TARGET) is None
        (waiting,) = waiting_in(tmp_path, "mongo")
        assert (waiting.in_use, waiting.is_empty) == (True, False)
        own.close()
    backlog = adopted(archive.own_directory)
    assert Backlog.adopt(archive.own_directory, "mongo", TARGET) is None
    backlog.close()


def test_databases_are_adopted_apart(tmp_path: Path) -> None:
    with process(tmp_path, "crawl", "a") as archive:
        for key in ("mongo", "postgres"):
            Backlog.begin(archive.own_directory, key, TARGET).close()
        log(archive, range(3))
    backlog = adopted(archive.own_directory)
    assert all_of(backlog) == [0, 1, 2]
    other = Backlog.adopt(archive.own_directory, "postgres", TARGET)
    assert other is not None
    assert numbers_of(other.read(EVERYTHING)) == [0, 1, 2]
    for one in (backlog, other):
        one.close()


ADOPT = """
import asyncio, sys
from pathlib import Path
from carscraper.stores.backlogs import Backlogs

async def adopt():
    backlogs = Backlogs(Path(sys.argv[1]), "mongo", "MongoDB", sys.argv[2], None)
    print("ready", flush=True)
    sys.stdin.readline()
    await backlogs.open()
    print(" ".join(name for name, number in backlogs.waiting.items() if number), flush=True)
    sys.stdin.readline()  # so that no other gets it because this one has ended

asyncio.run(adopt())
"""


def test_processes_that_adopt_at_once_never_get_the_same(tmp_path: Path) -> None:
    names = {f"w{number}" for number in range(12)}
    for name in sorted(names):
        left_by(tmp_path, f"crawl-{int(name[1:]) % 3}", name, range(2))
    with ExitStack() as running:
        programs = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ADOPT, tmp_path, TARGET],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(3)
        ]
        for one in programs:
            running.callback(one.kill)
        assert [one.stdout.readline() for one in programs if one.stdout] == ["ready\n"] * 3
        for one in programs:
            assert one.stdin
            print(file=one.stdin, flush=True)
        got = [one.stdout.readline().split() for one in programs if one.stdout]
    assert sorted(name for part in got for name in part) == sorted(names)


# All of them


def backlogs_of(out: Path, own: Path | None = None) -> Backlogs:
    return Backlogs(out, "mongo", "MongoDB", TARGET, own)


async def delivered(backlogs: Backlogs) -> list[int]:
    """All that others have left, in the order in which it is delivered."""
    found = []
    while len(backlogs):
        backlog, entries = await backlogs.read(3)
        found += numbers_of(entries)
        await backlogs.drop(backlog, len(entries))
    return found


async def test_the_oldest_crawl_is_delivered_first_searches_included(tmp_path: Path) -> None:
    left_by(tmp_path, "20261102", "b", range(10, 15))
    left_by(tmp_path / "searches" / "make=Toyota", "20261101", "a", range(5))
    left_by(tmp_path, "20261103", "c", range(20, 21))
    backlogs = backlogs_of(tmp_path)
    await backlogs.open()
    assert backlogs.waiting == {"a": 5, "b": 5, "c": 1}
    assert await delivered(backlogs) == [*range(5), *range(10, 15), 20]
    assert backlogs.waiting == {"a": 0, "b": 0, "c": 0}
    assert not list(tmp_path.rglob("*.position"))
    await backlogs.close(nothing_waits=True)


async def test_a_crawl_that_has_ended_goes_once_all_databases_have_it(tmp_path: Path) -> None:
    with process(tmp_path, "crawl", "a", ends=True) as archive:
        for key in ("mongo", "postgres"):
            Backlog.begin(archive.own_directory, key, TARGET).close()
        archive.keep(archive_car())
        await archive.write()
    for key, is_there in (("mongo", True), ("postgres", False)):
        backlogs = Backlogs(tmp_path, key, key, TARGET, None)
        await backlogs.open()
        assert len(await delivered(backlogs)) == 1
        await backlogs.close(nothing_waits=True)
        assert archive.directory.exists() is is_there


def archive_car() -> archive_module.Car:
    """One record."""
    return archive_module.Car("1", "", "2026-11-20T10:15:00.123Z", {"number": 1}, [])


async def test_one_that_goes_on_is_left_where_it_is(tmp_path: Path) -> None:
    resumable = Archive(tmp_path, "crawl", "a")
    resumable.open(resumable=True)
    Backlog.begin(resumable.own_directory, "mongo", TARGET).close()
    resumable.keep(archive_car())
    await resumable.write()
    resumable.close()
    backlogs = backlogs_of(tmp_path)
    await backlogs.open()
    await delivered(backlogs)
    await backlogs.close(nothing_waits=True)
    assert list(resumable.kept().listings) == ["1"]


async def test_what_waits_for_another_database_is_left_alone_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = left_by(tmp_path, "crawl", "a", range(3), target="elsewhere:1/cars")
    backlogs = backlogs_of(tmp_path)
    await backlogs.open()
    assert len(backlogs) == 0
    assert f"Records in {directory} wait for another MongoDB" in caplog.text
    await backlogs.close(nothing_waits=True)
    (waiting,) = waiting_in(tmp_path, "mongo")
    assert waiting.target == "elsewhere:1/cars"


@pytest.mark.parametrize("what", ["log", "position"])
async def test_what_is_damaged_ends_the_beginning_and_leaves_the_others_to_the_next_run(
    tmp_path: Path, what: str
) -> None:
    left_by(tmp_path, "crawl-1", "good", range(3))
    bad = left_by(tmp_path, "crawl-2", "bad", range(3))
    (path,) = segments_in(bad / CARS) if what == "log" else [bad / "mongo.position"]
    data = bytearray(path.read_bytes())
    data[data.rindex(b'"') if what == "position" else data.index(b"number")] ^= 1
    path.write_bytes(data)
    backlogs = backlogs_of(tmp_path)
    with pytest.raises(BacklogDamaged, match=f"move {bad} away to go on without it"):
        await backlogs.open()
    await backlogs.close(nothing_waits=False)
    good = next(one.directory for one in waiting_in(tmp_path, "mongo") if one.directory != bad)
    adopted(good).close()  # its lock was released


async def test_what_ends_meanwhile_is_taken_over(tmp_path: Path) -> None:
    with process(tmp_path, "crawl", "mine", at=2.0) as mine, process(tmp_path, "crawl", "theirs") as theirs:
        held = Backlog.begin(theirs.own_directory, "mongo", TARGET)
        theirs.keep(archive_car())
        await theirs.write()
        backlogs = backlogs_of(tmp_path, mine.own_directory)
        await backlogs.open()
        assert not await backlogs.take_over()
        held.close()
        assert await backlogs.take_over()
        assert backlogs.waiting == {"theirs": 1}
        assert backlogs.has_any_of("theirs")
        assert await delivered(backlogs) == [1]
        assert not backlogs.has_any_of("theirs")
        await backlogs.close(nothing_waits=True)
        assert not list(tmp_path.rglob("*.position"))


async def test_the_place_is_that_of_the_directory_whoever_asks(tmp_path: Path) -> None:
    one, other, elsewhere = (backlogs_of(tmp_path / name) for name in ("a", "a", "b"))
    for backlogs in (one, other, elsewhere):
        await backlogs.open()
        await backlogs.close(nothing_waits=True)
    assert one.place == other.place != elsewhere.place
    assert 0 < one.place < 2**63


@pytest.mark.parametrize("delivered_before", [0, 4])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_segment_that_is_missing_behind_the_position_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, delivered_before: int
) -> None:
    """Five segments of two records each."""
    monkeypatch.setattr(archive_module, "_SEGMENT_BYTES", 1)
    with process(tmp_path, "crawl", "a") as archive:
        Backlog.begin(archive.own_directory, "mongo", TARGET).close()
        for begin in range(0, 10, 2):
            log(archive, range(begin, begin + 2))
    backlog = adopted(archive.own_directory)
    if delivered_before:
        backlog.drop(len(backlog.read(delivered_before)))
    segments_in(archive.own_directory / CARS)[missing].unlink()
    if delivered_before > 2 * missing + 2:
        assert all_of(backlog) == list(range(delivered_before, 10)), "nobody needs it"
    else:
        with pytest.raises(BacklogDamaged, match="missing"):
            backlog.count()
    backlog.close()


def test_what_somebody_removes_while_it_is_looked_for_is_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by(tmp_path, "crawl-1", "a", range(3))
    left_by(tmp_path, "crawl-2", "b", range(3))
    lock = module._lock
    gone: list[Path] = []

    def late(directory: Path, key: str) -> object:
        if not gone:
            gone.append(directory)
            shutil.rmtree(directory)
        return lock(directory, key)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_lock", late)
        (waiting,) = waiting_in(tmp_path, "mongo")
    assert waiting.directory not in gone
    assert not waiting.is_empty
    shutil.rmtree(waiting.directory)
    assert waiting.is_empty
