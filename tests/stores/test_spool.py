"""What a spool has taken is in it, in order and unchanged, whatever happens to the process and to the disk."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from carscraper.exceptions import SpoolDamaged, StoreError
from carscraper.stores import segments as segments_of
from carscraper.stores import spool as module
from carscraper.stores.spool import Spool
from tests.standin import ROOT

TARGET = "127.0.0.1:27017/cars"
ROOMY = 1 << 30
EVERYTHING = 1 << 20
SEEDS = int(os.environ.get("CRASH_SEEDS", "3"))

Open = Callable[..., Spool]
Program = Callable[..., subprocess.Popen[str]]


def as_written(payload: bytes) -> bytes:
    """A record as it stands in a segment."""
    return segments_of.prefix(payload) + payload


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def opened(root: Path) -> Iterator[Open]:
    """Opens a spool of this process; its lock is released when the test ends."""
    spools: list[Spool] = []

    def open_one(name: str = "worker", *, max_bytes: int = ROOMY, target: str = TARGET) -> Spool:
        spools.append(Spool.open(root / name, target, max_bytes=max_bytes))
        return spools[-1]

    yield open_one
    for spool in spools:
        spool.close()


@pytest.fixture
def program() -> Iterator[Program]:
    """Runs a program of several processes' tests: text on its standard output, killed when the test ends."""
    with ExitStack() as running:

        def run(text: str, *arguments: object) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", text, *map(str, arguments)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield run


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def rest(process: subprocess.Popen[str]) -> list[str]:
    """All lines until it ends."""
    assert process.stdout is not None
    return process.stdout.read().splitlines()


def say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def payloads(first: int, count: int) -> list[bytes]:
    """Some of many sizes, up to 6 KB; each says its number. The programs below make the same."""
    return [b"%d:" % number + b"x" * (number * 7919 % 6000) for number in range(first, first + count)]


def waiting(spool: Spool) -> list[bytes]:
    """All that waits; it is dropped."""
    found: list[bytes] = []
    while part := spool.read(EVERYTHING):
        found += part
        spool.drop(len(part))
    return found


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# A queue


def test_what_was_appended_is_read_in_order_until_it_is_dropped(opened: Open) -> None:
    spool = opened()
    assert spool.append(payloads(0, 5))
    assert spool.append(payloads(5, 3))
    assert spool.read(3) == payloads(0, 3)
    assert spool.read(6) == payloads(0, 6), "the first segment's end is no end"
    spool.drop(2)
    assert len(spool) == 6
    assert spool.read(100) == payloads(2, 6)
    spool.drop(6)
    assert (len(spool), spool.read(1), spool.size) == (0, [], 0)


def test_any_bytes_come_back_as_they_were(opened: Open) -> None:
    strange = [b"", b"\n", b"\0" * 5000, segments_of.MARK * 3, as_written(b"a record in a record"), b"\xff"]
    spool = opened()
    assert spool.append(strange)
    spool.close()
    assert waiting(opened()) == strange


def test_nothing_is_appended_and_nothing_is_read(opened: Open) -> None:
    spool = opened()
    assert spool.append([])
    assert spool.read(10) == []
    assert spool.append(payloads(0, 2))
    assert spool.read(0) == []
    spool.drop(0)
    assert len(spool) == 2


def test_no_more_can_be_dropped_than_waits(opened: Open) -> None:
    spool = opened()
    spool.append(payloads(0, 2))
    for records in (3, -1):
        with pytest.raises(ValueError, match="of 2 records cannot be dropped"):
            spool.drop(records)
    assert spool.read(5) == payloads(0, 2)


def test_a_read_takes_some_megabytes_at_most_but_one_record_of_any_size(opened: Open) -> None:
    spool = opened()
    small, large = b"s" * 1_000_000, b"l" * 9_000_000
    assert spool.append([small] * 6 + [large, small])
    sizes = []
    while part := spool.read(100):
        sizes.append([len(payload) for payload in part])
        spool.drop(len(part))
    assert sizes == [[1_000_000] * 4, [1_000_000] * 2, [9_000_000], [1_000_000]]


def test_it_goes_on_where_it_was_after_a_close(opened: Open) -> None:
    spool = opened()
    spool.append(payloads(0, 10))
    spool.drop(4)
    spool.close()
    spool = opened()
    assert len(spool) == 6
    spool.append(payloads(10, 3))
    spool.drop(1)
    spool.close()
    spool.close()
    assert waiting(opened()) == payloads(5, 8)


def test_a_directory_in_which_nothing_waits_is_removed(opened: Open, root: Path) -> None:
    for appended in (0, 3):
        spool = opened()
        spool.append(payloads(0, appended))
        waiting(spool)
        assert (root / "worker").is_dir()
        spool.close()
        assert [path.name for path in root.iterdir()] == [".lock"]


def test_files_of_others_stay_and_do_no_harm(opened: Open, root: Path) -> None:
    spool = opened()
    (root / "worker" / "photo.jpg").write_bytes(b"...")
    spool.append(payloads(0, 2))
    waiting(spool)
    spool.close()
    assert contents(root / "worker") == {"photo.jpg": b"..."}
    assert Spool.adopt(root, TARGET, max_bytes=ROOMY) == ([], [])


def test_the_format_is_that_of_version_1(opened: Open, root: Path) -> None:
    """A change of it needs another version; what waits was written by an older release."""
    spool = opened(target='"a"/ü')
    spool.append([b"abc", b""])
    spool.append([b"d"])
    spool.drop(1)
    spool.close()
    assert contents(root / "worker") == {
        ".lock": b"",
        "00000001.segment": 'carscraper spool 1 "\\"a\\"/ü"\n'.encode()
        + b"\xff\xfeR\n"
        + bytes.fromhex("45bce840 00000003")
        + b"abc"
        + b"\xff\xfeR\n"
        + bytes.fromhex("2144df1c 00000000")
        + b"\xff\xfeR\n"
        + bytes.fromhex("95e6631d 00000001")
        + b"d",
        "position": b"1 1 515011117\n",
    }


# The bound


def test_beyond_the_bound_nothing_is_written_until_there_is_room_or_it_must_be(
    opened: Open, root: Path
) -> None:
    spool = opened(max_bytes=10_000)
    thousand = [b"x" * 1000]
    assert [spool.append(thousand) for _ in range(11)] == [True] * 9 + [False] * 2
    before = contents(root / "worker")
    assert sum(map(len, before.values())) <= 10_000
    assert not spool.append(thousand * 3)
    assert contents(root / "worker") == before
    assert spool.append(thousand * 3, beyond_bound=True)
    assert len(spool) == 12
    spool.drop(12)
    assert spool.append(thousand * 9)


def test_segments_are_rotated_and_removed_when_they_are_delivered(opened: Open, root: Path) -> None:
    spool = opened()
    batch = [b"x" * 4096] * 500
    for _ in range(20):
        assert spool.append(batch)
    sizes = [path.stat().st_size for path in segments(root / "worker")]
    assert len(sizes) == 3
    assert all(16 << 20 <= size < 19 << 20 for size in sizes[:-1])
    assert sum(sizes) == spool.size
    for left in (2, 1, 0):
        first = segments(root / "worker")[0]
        while first.exists():
            spool.drop(500)
        assert len(segments(root / "worker")) == left
    assert len(spool) == 0


# Torn and damaged files


def test_every_place_that_a_segment_can_be_cut_at_leaves_whole_records(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is flushed meanwhile, so that thousands of places take a second."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    records = [b"%d" % number * (number % 3) for number in range(200)]
    spool = opened()
    for start in range(0, 200, 20):
        spool.append(records[start : start + 20])
    ends = list(spool._segments[0].ends)
    spool.close()
    [segment] = segments(root / "worker")
    whole = segment.read_bytes()
    for cut in range(len(whole) + 1):
        segment.write_bytes(whole[:cut])
        spool = Spool.open(root / "worker", TARGET, max_bytes=ROOMY)
        count = sum(end <= cut for end in ends)
        assert spool.read(EVERYTHING) == records[:count], cut
        if cut % 50 == 0:
            assert spool.append([b"next"])
            spool.close()
            spool = Spool.open(root / "worker", TARGET, max_bytes=ROOMY)
            assert waiting(spool) == [*records[:count], b"next"], cut
        spool.close()
        (root / "worker").mkdir(exist_ok=True)
        for path in segments(root / "worker"):
            path.unlink()


@pytest.mark.parametrize("rest", [b"", b"\0" * 5000, b"\xff" * 100, b'{"half":', segments_of.MARK * 2])
def test_whatever_follows_the_last_record_is_cut_off(opened: Open, root: Path, rest: bytes) -> None:
    spool = opened()
    spool.append(payloads(0, 3))
    size = spool.size
    spool.close()
    [segment] = segments(root / "worker")
    with segment.open("ab") as file:
        file.write(rest)
    assert len(opened()) == 3
    assert segment.stat().st_size == size


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("is_last", [True, False])
def test_a_changed_byte_is_an_error_or_at_the_very_end_cut_off(
    opened: Open, root: Path, change: int, is_last: bool
) -> None:
    records = [b"first", b"", b'{"json": 1}', segments_of.MARK + b"\0", b"last"]
    spool = opened()
    spool.append(records)
    ends = [0, spool._segments[0].start, *spool._segments[0].ends]
    spool.close()
    if not is_last:
        spool = opened()
        spool.append([b"later"])
        spool.close()
    segment, *_ = segments(root / "worker")
    whole = segment.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= change
        segment.write_bytes(damaged)
        begin = max(end for end in ends if end <= place)
        if is_last and begin == ends[-2]:
            spool = Spool.open(root / "worker", TARGET, max_bytes=ROOMY)
            assert spool.read(EVERYTHING) == records[:-1]
            spool.close()
            continue
        before = contents(root / "worker")
        with pytest.raises(SpoolDamaged) as error:
            opened()
        assert f"{segment}, byte {begin}: " in str(error.value)
        assert contents(root / "worker") == before


@given(
    records=st.lists(st.binary(max_size=40), min_size=2, max_size=8),
    place=st.floats(0, 1, exclude_max=True),
    noise=st.binary(min_size=1, max_size=60),
)
@settings(deadline=None, max_examples=150)
def test_overwritten_pieces_never_come_back_as_records(
    records: list[bytes], place: float, noise: bytes
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "spool" / "worker"
        spool = Spool.open(path, TARGET, max_bytes=ROOMY)
        spool.append(records)
        spool.close()
        [segment] = segments(path)
        whole = segment.read_bytes()
        at = int(place * len(whole))
        segment.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
        try:
            spool = Spool.open(path, TARGET, max_bytes=ROOMY)
        except SpoolDamaged:
            return
        found = spool.read(EVERYTHING)
        spool.close()
        assert found == records[: len(found)]


def test_a_torn_record_is_an_end_in_the_last_segment_only(opened: Open, root: Path) -> None:
    for first in (0, 3):
        spool = opened()
        spool.append(payloads(first, 3))
        spool.close()
    older, newer = segments(root / "worker")
    os.truncate(older, older.stat().st_size - 1)
    os.truncate(newer, newer.stat().st_size - 1)
    before = contents(root / "worker")
    with pytest.raises(SpoolDamaged, match=rf"{older.name}, byte \d+"):
        opened()
    assert contents(root / "worker") == before


@pytest.mark.parametrize("what", ["empty", "torn header"])
def test_a_segment_that_was_only_begun_is_removed(opened: Open, root: Path, what: str) -> None:
    spool = opened()
    spool.append(payloads(0, 3))
    spool.close()
    [segment] = segments(root / "worker")
    begun = segment.with_name("00000002.segment")
    begun.write_bytes(b"" if what == "empty" else segment.read_bytes()[:20])
    (root / "worker" / ".00000003.segment.77.tmp").write_bytes(b"torn")
    spool = opened()
    assert len(spool) == 3
    assert sorted(contents(root / "worker")) == [".lock", segment.name]
    spool.append(payloads(3, 1))
    spool.close()
    assert waiting(opened()) == payloads(0, 4)
    begun = root / "other" / begun.name
    begun.parent.mkdir()
    begun.write_bytes(b"")
    assert len(opened("other")) == 0
    assert not begun.exists()


def test_a_record_that_is_damaged_later_is_found_when_it_is_read(opened: Open, root: Path) -> None:
    spool = opened()
    spool.append(payloads(0, 5))
    [segment] = segments(root / "worker")
    third = spool._segments[0].ends[1]
    data = bytearray(segment.read_bytes())
    data[third + 20] ^= 1
    segment.write_bytes(data)
    assert spool.read(5) == payloads(0, 2)
    spool.drop(2)
    with pytest.raises(SpoolDamaged, match=rf"{segment.name}, byte {third}: this record is damaged"):
        spool.read(5)
    assert len(spool) == 3


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b'carscraper spool 2 "127.0.0.1:27017/cars"\n', "its format has version 2, known is 1"),
        (b'carscraper spool 1 "elsewhere/cars"\n', 'it belongs to "elsewhere/cars"'),
        (b"{}\n", "this is no header line of a spool"),
        (b"carscraper spool one", "this is no header line of a spool"),
        (b'carscraper spool 1 "127.0.0.1:27017/cars"', "this is no header line"),
    ],
)
def test_a_segment_of_others_is_refused_and_says_why(
    opened: Open, root: Path, header: bytes, problem: str
) -> None:
    spool = opened()
    spool.append(payloads(0, 3))
    spool.close()
    [segment] = segments(root / "worker")
    segment.write_bytes(header + segment.read_bytes().split(b"\n", 1)[1])
    before = contents(root / "worker")
    with pytest.raises(SpoolDamaged, match=problem):
        opened()
    assert contents(root / "worker") == before


# The position


@pytest.mark.parametrize(
    "position",
    [None, b"", b"1 3\n", b"1 3 12345\n", b"\0" * 20, b"\xff 1 1\n", b"1 99 2398431166\n", b"-1 x y z\n"],
)
def test_a_position_that_is_lost_or_damaged_means_repetition_and_not_loss(
    opened: Open, root: Path, position: bytes | None
) -> None:
    spool = opened()
    spool.append(payloads(0, 5))
    spool.drop(3)
    spool.close()
    path = root / "worker" / "position"
    assert path.exists()
    if position is None:
        path.unlink()
    else:
        path.write_bytes(position)
    spool = opened()
    assert spool.read(10) == payloads(0, 5)
    spool.drop(1)
    spool.append(payloads(5, 1))
    spool.close()
    assert waiting(opened()) == payloads(1, 5)


def test_a_position_beyond_the_end_is_not_believed(opened: Open, root: Path) -> None:
    """Its checksum is right, but the records are gone."""
    spool = opened()
    spool.append(payloads(0, 5))
    spool.drop(4)
    end = spool._segments[0].ends[2]
    spool.close()
    os.truncate(segments(root / "worker")[0], end)
    assert waiting(opened()) == payloads(0, 3)


def test_a_delivered_segment_that_is_back_after_a_loss_of_power_is_not_delivered_again(
    opened: Open, root: Path
) -> None:
    for first in (0, 3):
        spool = opened()
        spool.append(payloads(first, 3))
        spool.close()
    older, _ = segments(root / "worker")
    data = older.read_bytes()
    spool = opened()
    spool.drop(4)
    spool.close()
    older.write_bytes(data)
    spool = opened()
    assert waiting(spool) == payloads(4, 2)
    assert not older.exists()


@pytest.mark.parametrize("are_numbers_used_again", [False, True])
def test_a_position_that_is_too_old_never_covers_what_is_newer_than_itself(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch, are_numbers_used_again: bool
) -> None:
    """A loss of power has brought back the one before the last. That a number is not used twice is what saves it."""
    spool = opened()
    spool.append(payloads(0, 3))
    spool.drop(1)
    older = (root / "worker" / "position").read_bytes()
    spool.drop(1)
    spool.append(payloads(3, 1))
    spool.drop(2)
    shutil.copytree(root / "worker", root / "next")
    assert segments(root / "next") == []
    (root / "next" / "position").write_bytes(older)
    if are_numbers_used_again:
        monkeypatch.setattr(module, "position_of", lambda directory: (0, 0))
    spool = opened("next")
    spool.append(payloads(4, 2))
    monkeypatch.undo()
    shutil.copytree(root / "next", root / "last")
    expected = payloads(5, 1) if are_numbers_used_again else payloads(4, 2)
    assert waiting(opened("last")) == expected


def test_a_position_that_cannot_be_written_is_no_error(opened: Open, root: Path) -> None:
    spool = opened()
    spool.append(payloads(0, 5))
    (root / "worker" / ".position.tmp").mkdir()
    spool.drop(2)
    assert spool.read(10) == payloads(2, 3)
    spool.close()
    (root / "worker" / ".position.tmp").rmdir()
    assert waiting(opened()) == payloads(0, 5)


# A disk that refuses

LIMITED = """
import errno, json, resource, sys
from pathlib import Path
from carscraper.stores.spool import Spool

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
spool = Spool.open(Path(sys.argv[1]), sys.argv[2], max_bytes=1 << 30)
outcomes = []
for number in range(9):
    try:
        outcomes.append(spool.append([b"%d." % number * 2000] * 10))
    except OSError as error:
        outcomes.append(errno.errorcode[error.errno])
there = [int(payload.split(b".")[0]) for payload in spool.read(1000)]
spool.drop(15)
spool.close()
print(json.dumps([outcomes, there]))
"""


def test_a_file_that_may_not_grow_leaves_the_spool_usable(root: Path, program: Program) -> None:
    """A real limit, 100,000 bytes a file, on batches of 40,000: each third one fails half way."""
    process = program(LIMITED, root / "worker", TARGET)
    outcomes, there = json.loads(process.communicate(timeout=30)[0])
    assert outcomes == [True, True, "EFBIG"] * 3
    taken = [number for number in (0, 1, 3, 4, 6, 7) for _ in range(10)]
    assert there == taken
    assert all(path.stat().st_size < 100_000 for path in segments(root / "worker"))
    [spool], _ = Spool.adopt(root, TARGET, max_bytes=ROOMY)
    assert waiting(spool) == [b"%d." % number * 2000 for number in taken[15:]]
    spool.close()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_failed_fsync_is_an_error_and_the_segment_is_not_used_again(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool, fails_at: int, times: int
) -> None:
    """The calls: of the header, its directory, the records, and of the file that was cut back."""
    spool = opened()
    if not is_first:
        spool.append(payloads(0, 2))
        fails_at = 1
    before = 0 if is_first else 2
    real, calls = os.fsync, 0

    def failing(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if fails_at <= calls < fails_at + times:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    failures = 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        for _ in range(4):
            try:
                assert spool.append(payloads(before, 3))
                break
            except OSError:
                failures += 1
                assert len(spool) == before
                assert spool.read(10) == payloads(0, before)
    assert failures >= 1
    assert spool.read(10) == payloads(0, before + 3)
    if not is_first:
        assert len(segments(root / "worker")) == 2
    shutil.copytree(root / "worker", root / "copy")
    assert waiting(opened("copy")) == payloads(0, before + 3)


def test_what_a_failed_append_has_left_is_no_damage_to_the_next_process(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the records nor the cut could be flushed, and then the process was killed."""
    spool = opened()
    spool.append(payloads(0, 2))

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(module, "cut_back", refuse)
        with monkeypatch.context() as first:
            first.setattr(os, "fsync", refuse)
            with pytest.raises(OSError, match="Input/output"):
                spool.append(payloads(2, 3))
        with pytest.raises(OSError, match="Input/output"):
            spool.append(payloads(2, 3))
    assert len(segments(root / "worker")) == 1, "no segment is begun behind a torn one"
    shutil.copytree(root / "worker", root / "killed")
    assert waiting(opened("killed")) == payloads(0, 5)
    assert spool.append(payloads(2, 3))
    assert waiting(spool) == payloads(0, 5)


def test_records_are_flushed_before_they_count_and_a_segment_before_its_records(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[str, int]] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        size = path.stat().st_size if path.is_file() else 0
        flushed.append((re.sub(r"\.[0-9a-f]{32}\.tmp$", " draft", path.name), size))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    spool = opened()
    assert flushed == [(root.parent.name, 0), (root.name, 0)], "the directories that were made"
    flushed.clear()
    header = spool._header
    spool.append([b"12345"])
    size = len(header) + 12 + 5
    name = "00000001.segment"
    assert flushed == [(f".{name} draft", len(header)), ("worker", 0), (name, size)]
    spool.append([b"12345"])
    assert flushed[3:] == [(name, size + 17)]
    spool.close()
    flushed.clear()
    opened()
    assert flushed == [(name, size + 17)], "its process may have been killed before"


# Several processes

HOLDS = """
import sys
from pathlib import Path
from carscraper.stores.spool import Spool

spool = Spool.open(Path(sys.argv[1]), sys.argv[2], max_bytes=1 << 30)
spool.append([b"of another process"])
print("holds", flush=True)
sys.stdin.readline()
"""


def test_a_second_open_is_refused_with_one_line(opened: Open, root: Path) -> None:
    spool = opened()
    with pytest.raises(StoreError, match=f"^{root / 'worker'} is in use by another process$"):
        opened()
    spool.append(payloads(0, 1))
    spool.close()
    assert len(opened()) == 1


def test_what_a_process_holds_is_taken_over_once_it_is_gone(
    opened: Open, root: Path, program: Program
) -> None:
    process = program(HOLDS, root / "living", TARGET)
    assert line(process) == "holds"
    with pytest.raises(StoreError, match="in use"):
        opened("living")
    assert Spool.adopt(root, TARGET, max_bytes=ROOMY) == ([], [])
    process.kill()
    process.wait()
    [spool], left = Spool.adopt(root, TARGET, max_bytes=ROOMY)
    assert left == []
    assert waiting(spool) == [b"of another process"]
    spool.close()
    assert not (root / "living").exists()


def test_the_oldest_is_delivered_first_and_the_empty_are_removed(opened: Open, root: Path) -> None:
    for number, name in enumerate(["c", "a", "b"]):
        spool = opened(name)
        spool.append(payloads(number, 1))
        spool.close()
        os.utime(root / name / ".lock", (1_000_000 + number, 1_000_000 + number))
    for name in ("begun", "made"):
        (root / name).mkdir()
        (root / name / ".lock").touch()
    (root / "begun" / "00000001.segment").write_bytes(b"carscraper sp")
    (root / "holiday").mkdir()
    (root / "holiday" / "photo.jpg").write_bytes(b"...")
    spools, left = Spool.adopt(root, TARGET, max_bytes=ROOMY)
    assert [spool.directory.name for spool in spools] == ["c", "a", "b"]
    assert left == []
    assert [waiting(spool) for spool in spools] == [payloads(number, 1) for number in range(3)]
    for spool in spools:
        spool.close()
    assert sorted(path.name for path in root.iterdir()) == [".lock", "holiday"]


def test_there_is_nothing_to_take_over_where_nothing_is(root: Path) -> None:
    assert Spool.adopt(root, TARGET, max_bytes=ROOMY) == ([], [])
    assert not root.exists()


def test_what_waits_for_another_database_or_is_damaged_is_left_alone_and_named(
    opened: Open, root: Path
) -> None:
    for name, target in (("good", TARGET), ("other", "db.example:27017/cars"), ("bad", TARGET)):
        spool = opened(name, target=target)
        spool.append(payloads(0, 3))
        spool.close()
    [segment] = segments(root / "bad")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    before = [contents(root / name) for name in ("other", "bad")]
    for _ in range(2):
        spools, left = Spool.adopt(root, TARGET, max_bytes=ROOMY)
        assert [spool.directory.name for spool in spools] == ["good"]
        assert spools[0].read(10) == payloads(0, 3)
        assert [(one.directory.name, one.target) for one in left] == [
            ("bad", None),
            ("other", "db.example:27017/cars"),
        ]
        assert f"{segment}, byte " in left[0].problem
        assert 'belongs to "db.example:27017/cars"' in left[1].problem
        spools[0].close()
    assert [contents(root / name) for name in ("other", "bad")] == before
    assert len(opened("other", target="db.example:27017/cars")) == 3, "it is not held"


ADOPTS = """
import sys
from pathlib import Path
from carscraper.stores.spool import Spool

print("ready", flush=True)
sys.stdin.readline()
spools, left = Spool.adopt(Path(sys.argv[1]), sys.argv[2], max_bytes=1 << 30)
print(" ".join(spool.directory.name for spool in spools), flush=True)
sys.stdin.readline()
"""


def test_processes_that_take_over_at_once_never_get_the_same(
    opened: Open, root: Path, program: Program
) -> None:
    names = {f"gone-{number}" for number in range(20)}
    for name in names:
        spool = opened(name)
        spool.append(payloads(0, 1))
        spool.close()
    processes = [program(ADOPTS, root, TARGET) for _ in range(4)]
    for process in processes:
        assert line(process) == "ready"
    for process in processes:
        say(process, "go")
    taken = [name for process in processes for name in line(process).split()]
    assert sorted(taken) == sorted(names)


COMES_AND_GOES = """
import sys
from pathlib import Path
from carscraper.stores.spool import Spool

root, target, name = Path(sys.argv[1]), *sys.argv[2:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    spool = Spool.open(root / f"{name}-{number}", target, max_bytes=1 << 30)
    adopted, _ = Spool.adopt(root, target, max_bytes=1 << 30)
    for other in adopted:
        for payload in other.read(100):
            print(payload.decode(), flush=True)
        other.drop(len(other))
        other.close()
    if number % 3:
        spool.append([f"{name}-{number}".encode()])
    spool.close()
print("end", flush=True)
"""


def test_processes_that_come_and_go_at_once_hand_everything_on_once(root: Path, program: Program) -> None:
    """While one makes its directory, others look for abandoned ones and remove the empty."""
    processes = [program(COMES_AND_GOES, root, TARGET, name) for name in "abc"]
    for process in processes:
        assert line(process) == "ready"
    for process in processes:
        say(process, "go")
    delivered: list[str] = []
    for process in processes:
        lines = rest(process)
        assert lines[-1] == "end"
        delivered += lines[:-1]
    spools, _ = Spool.adopt(root, TARGET, max_bytes=ROOMY)
    for spool in spools:
        delivered += [payload.decode() for payload in waiting(spool)]
        spool.close()
    assert sorted(delivered) == sorted(
        f"{name}-{number}" for name in "abc" for number in range(60) if number % 3
    )
    assert [path.name for path in root.iterdir()] == [".lock"]


# Kills

APPENDS = """
import random, sys
from pathlib import Path
from carscraper.stores import spool as module

class Buffered:
    def __init__(self, directory):
        self.file = (directory / "plain").open("ab", buffering=1 << 26)
    def append(self, payloads):
        return self.file.write(b"".join(payload + b"\\n" for payload in payloads)) > 0
    def __len__(self):
        return 0

directory, target, kind, seed = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
chance = random.Random(seed)
module._SEGMENT_BYTES = 200_000
spool = module.Spool.open(directory, target, max_bytes=1 << 30) if kind == "spool" else Buffered(directory)
appended = dropped = 0
while True:
    count = chance.randint(1, 60)
    batch = [b"%d:" % n + b"x" * (n * 7919 % 6000) for n in range(appended, appended + count)]
    assert spool.append(batch)
    appended += count
    print("appended", appended, flush=True)
    if chance.random() < 0.4 and len(spool):
        payloads = spool.read(chance.randint(1, len(spool)))
        dropped += len(payloads)
        print("drops", dropped, flush=True)
        spool.drop(len(payloads))
"""


def kill_while_it_appends(process: subprocess.Popen[str], chance: random.Random) -> tuple[int, list[int]]:
    """How many it had said were there, and the two last numbers that it said were to be dropped."""
    lines = [line(process) for _ in range(chance.randint(1, 60))]
    time.sleep(chance.uniform(0, 0.02))
    process.kill()
    lines += rest(process)
    appended = [int(text.split()[1]) for text in lines if text.startswith("appended")]
    drops = [int(text.split()[1]) for text in lines if text.startswith("drops")]
    return appended[-1], [0, 0, *drops][-2:]


@pytest.mark.parametrize("seed", range(2 * SEEDS))
def test_a_kill_loses_nothing_that_was_taken_and_repeats_nothing(
    root: Path, program: Program, seed: int
) -> None:
    chance = random.Random(seed)
    process = program(APPENDS, root / "worker", TARGET, "spool", seed)
    appended, (surely_dropped, maybe_dropped) = kill_while_it_appends(process, chance)
    spools, left = Spool.adopt(root, TARGET, max_bytes=ROOMY)
    assert left == []
    found = [payload for spool in spools for payload in waiting(spool)]
    for spool in spools:
        spool.close()
    first = int(found[0].split(b":")[0]) if found else maybe_dropped
    assert surely_dropped <= first <= maybe_dropped
    assert found == payloads(first, len(found))
    assert appended <= first + len(found) <= appended + 120, "the last batch may be there, or a part of it"


def test_a_file_that_is_not_flushed_loses_what_was_taken(root: Path, program: Program) -> None:
    """The counterpart of the test before: the same kill on a plain file."""
    (root / "worker").mkdir(parents=True)
    process = program(APPENDS, root / "worker", TARGET, "plain", 1)
    appended, _ = kill_while_it_appends(process, random.Random(1))
    assert (root / "worker" / "plain").read_bytes().count(b"\n") < appended


# Any sequence


class SpoolMachine(RuleBasedStateMachine):
    """Any sequence of calls, restarts and losses of power: what was taken and not delivered is there.

    A loss of power leaves what was flushed. The position may be one that was written before, or none; segments
    that were removed last may be back; and of an append that was not flushed, any beginning is there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []
        self.delivered = 0
        self.lives = 0
        self.positions: list[bytes | None] = [None]
        self.removed: list[tuple[str, bytes]] = []
        self.root = Path(tempfile.mkdtemp())
        self.spool = self.open()

    def open(self) -> Spool:
        return Spool.open(self.root / str(self.lives), TARGET, max_bytes=ROOMY)

    def batch(self, sizes: list[int]) -> list[bytes]:
        return [b"%d" % (len(self.taken) + index) + b"." * size for index, size in enumerate(sizes)]

    @rule(sizes=st.lists(st.integers(0, 60), max_size=4))
    def append(self, sizes: list[int]) -> None:
        batch = self.batch(sizes)
        assert self.spool.append(batch)
        self.taken += batch

    @rule(share=st.floats(0, 1))
    def deliver(self, share: float) -> None:
        payloads = self.spool.read(round(len(self.spool) * share))
        assert payloads == self.taken[self.delivered : self.delivered + len(payloads)]
        before = contents(self.spool.directory)
        self.spool.drop(len(payloads))
        self.delivered += len(payloads)
        after = contents(self.spool.directory)
        self.positions.append(after["position"])
        self.removed += [(name, data) for name, data in sorted(before.items()) if name not in after]

    @rule()
    def restart(self) -> None:
        if not len(self.spool):
            self.positions, self.removed = [None], []
        self.spool.close()
        self.spool = self.open()

    @rule()
    def kill(self) -> None:
        self.live_on_a_copy()

    @precondition(lambda self: self.taken)
    @rule(
        position=st.integers(0, 1000),
        back=st.integers(0, 2),
        sizes=st.lists(st.integers(0, 60), max_size=3),
        torn=st.floats(0, 1),
    )
    def lose_power(self, position: int, back: int, sizes: list[int], torn: float) -> None:
        directory = self.live_on_a_copy(is_opened=False)
        del self.positions[1 + position % len(self.positions) :]
        (directory / "position").unlink(missing_ok=True)
        if (text := self.positions[-1]) is not None:
            (directory / "position").write_bytes(text)
        last = segments(directory)[-1:]
        for name, data in self.removed[len(self.removed) - min(back, len(self.removed)) :]:
            (directory / name).write_bytes(data)
        self.removed = []
        for segment in last:
            batch = self.batch(sizes)
            data = b"".join(map(as_written, batch))
            end = int(torn * len(data))
            with segment.open("ab") as file:
                file.write(data[:end])
            while batch and len(as_written(batch[0])) <= end:
                end -= len(as_written(batch[0]))
                self.taken.append(batch.pop(0))
        self.spool = self.open()
        again = len(self.taken) - self.delivered
        assert len(self.spool) >= again
        self.delivered = len(self.taken) - len(self.spool)

    def live_on_a_copy(self, *, is_opened: bool = True) -> Path:
        """Go on with the files as they are, without closing."""
        old = self.spool
        self.lives += 1
        directory = self.root / str(self.lives)
        shutil.copytree(old.directory, directory)
        old.close()
        if is_opened:
            self.spool = self.open()
        return directory

    @invariant()
    def all_that_was_not_delivered_waits(self) -> None:
        assert len(self.spool) == len(self.taken) - self.delivered
        assert self.spool.read(EVERYTHING) == self.taken[self.delivered :]

    def teardown(self) -> None:
        self.spool.close()
        shutil.rmtree(self.root)


def run_machine(monkeypatch: pytest.MonkeyPatch, examples: int, phases: list[Phase]) -> None:
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 150)
    run_state_machine_as_test(
        SpoolMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_sequence_of_calls_restarts_and_losses_of_power_keeps_what_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_machine(monkeypatch, 60, [Phase.generate, Phase.shrink])


def torn_ends_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cut_back", lambda segment: None)


def the_position_runs_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Spool._write_position

    def write(spool: Spool) -> None:
        for segment in spool._segments[:1]:
            segment.delivered += 1
        real(spool)
        for segment in spool._segments[:1]:
            segment.delivered -= 1

    monkeypatch.setattr(Spool, "_write_position", write)


@pytest.mark.parametrize("mutate", [torn_ends_stay, the_position_runs_ahead])
def test_the_machine_finds_what_would_lose_records(
    monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutate(monkeypatch)
    with pytest.raises((AssertionError, SpoolDamaged)):
        run_machine(monkeypatch, 500, [Phase.generate])
