"""Whatever fails while a crawl ends, it ends: at once, in a line that names file and cause, with exit status 1."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.bad_end import FILLER
from tests.crash.worker import KILLED
from tests.crawling import Crawl, crawl, torn_files, wait_until
from tests.kept import kept_records
from tests.standin import SPEC_PATH, StandIn

SECONDS = 60
LISTINGS = 60
SETTINGS = {
    "CARS_PAGE_SIZE": 20,
    "CARS_BATCH_SIZE": 10,
    "CARS_BATCH_SECONDS": 0.05,
    "DURABLE_LEASE_SECONDS": 1,
}
RUNNER = (sys.executable, "-m", "tests.crash.bad_end")
KILLER = (sys.executable, "-m", "tests.crash.worker")
EARLIER = b"[]\n"


@pytest.fixture(scope="module")
def site() -> Iterator[StandIn]:
    with StandIn(LISTINGS) as running:
        yield running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB of its own; where nobody may mount one, `refuse` stands in for it in the same tests."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk may be mounted here; the same is tested with flushes that fail")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fail(site: StandIn, out: Path, point: str, what: str, **options: Any) -> Crawl:
    """A crawl for which something goes wrong at that point, run to its end."""
    env = {"GOES_WRONG_AT": point, "GOES_WRONG": what, "GOES_WRONG_ON": str(out)}
    with crawl(site.url, out, settings=SETTINGS, env=env, runner=RUNNER, **options) as run:
        assert run.wait(SECONDS) == 1, run.log
    assert torn_files(out) == []
    return run


def said_once(run: Crawl, *words: str) -> None:
    """One line of the log has all the words, and there is no traceback."""
    lines = [line for line in run.log.splitlines() if " CRITICAL: " in line]
    assert len(lines) == 1, run.log
    assert all(word in lines[0] for word in words), lines[0]
    assert "Traceback" not in run.log, run.log


def complete(site: StandIn, out: Path, **options: Any) -> Crawl:
    with crawl(site.url, out, settings=SETTINGS, **options) as run:
        assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert torn_files(out) == []
    return run


@pytest.mark.parametrize(
    ("what", "point", "file", "resumable"),
    [
        ("full", "cars.json", "cars.json", True),
        ("full", "run.json", "run.json", False),
        ("full", "flush", "crawls/", True),
        ("refuse", "cars.json", "cars.json", False),
        ("refuse", "run.json", "run.json", True),
        ("refuse", "flush", "crawls/", True),
    ],
)
def test_a_disk_without_room_leaves_what_was_there_and_with_room_again_the_next_run_completes(
    what: str,
    point: str,
    file: str,
    resumable: bool,
    request: pytest.FixtureRequest,
    site: StandIn,
    tmp_path: Path,
) -> None:
    place: Path = request.getfixturevalue("small_disk") if what == "full" else tmp_path
    out = place / "out"
    out.mkdir()
    (out / "cars.json").write_bytes(EARLIER)
    options: dict[str, Any] = {"jobdir": tmp_path / "job"} if resumable else {}
    run = fail(site, out, point, what, **options)
    assert f"{out / file}" in run.log
    assert "No space left on device" in run.log
    assert "Traceback" not in run.log, run.log
    if point != "run.json":
        assert (out / "cars.json").read_bytes() == EARLIER
    (out / FILLER).unlink(missing_ok=True)
    complete(site, out, **options)


@pytest.mark.parametrize("name", ["cars.json", "run.json"])
def test_a_directory_in_the_place_of_a_file_is_named(name: str, site: StandIn, tmp_path: Path) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    with crawl(site.url, tmp_path / "out", settings=SETTINGS, jobdir=tmp_path / "job") as run:
        assert run.wait(SECONDS) == 1, run.log
    said_once(run, "The crawl cannot be finished", str(tmp_path / "out" / name), "directory")
    (tmp_path / "out" / name).rmdir()
    again = complete(site, tmp_path / "out", jobdir=tmp_path / "job")
    assert "Going on with crawl" in again.log


@pytest.mark.parametrize("point", ["ledger-read", "run.json", "verdict", "forget"])
def test_a_bug_at_the_end_ends_the_crawl(point: str, site: StandIn, tmp_path: Path) -> None:
    run = fail(site, tmp_path / "out", point, "bug", jobdir=tmp_path / "job")
    said_once(run, "The crawl cannot be finished", "KeyError", "bad_end.py, line ")
    assert "NOT COMPLETE: the crawl could not be finished" in run.log
    complete(site, tmp_path / "out", jobdir=tmp_path / "job")


def test_a_bug_at_the_end_of_a_crawl_that_was_stopped_ends_it_too(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS, rules=[{"match": SPEC_PATH, "fault": "hang", "after": 5}])
    env = {"GOES_WRONG_AT": "cars.json", "GOES_WRONG": "bug"}
    settings = {**SETTINGS, "DURABLE_LEASE_SECONDS": 60}  # none of the few answers comes too late
    with crawl(site.url, tmp_path, settings=settings, env=env, runner=RUNNER) as run:
        wait_until(lambda: kept_records(tmp_path), SECONDS, what="something is kept")
        run.send(signal.SIGINT)
        assert run.wait(SECONDS) == 1, run.log
    said_once(run, "The crawl cannot be finished", "KeyError")
    assert run.run_json()["status"] == "failed"


@pytest.mark.parametrize("point", ["lease", "entries", "acks"])
def test_a_bug_in_the_exchange_with_the_frontier_ends_the_crawl(
    point: str, site: StandIn, tmp_path: Path
) -> None:
    """From the very first exchange on, or from a later one."""
    run = fail(site, tmp_path / "out", point, "bug", jobdir=tmp_path / "job")
    said_once(
        run, "Stopping the crawl (frontier_failed)", "the exchanges with the frontier have failed", "KeyError"
    )
    complete(site, tmp_path / "out", jobdir=tmp_path / "job")


def test_a_bug_in_the_writing_of_the_log_ends_the_crawl(site: StandIn, tmp_path: Path) -> None:
    run = fail(site, tmp_path / "out", "flush", "bug", jobdir=tmp_path / "job")
    said_once(run, "Stopping the crawl (output_failed)", str(tmp_path / "out" / "crawls"), "KeyError")
    complete(site, tmp_path / "out", jobdir=tmp_path / "job")


def killed_before_its_end(site: StandIn, out: Path, job: Path) -> None:
    """Everything is committed, and nothing published."""
    env = {"CRASH_POINT": "before claim"}
    with crawl(site.url, out, settings=SETTINGS, env=env, runner=KILLER, jobdir=job) as run:
        assert run.wait(SECONDS) == KILLED, run.log
    (out / "cars.json").write_bytes(EARLIER)


def flip(path: Path, what: bytes, to: bytes) -> None:
    """Change a byte of a file."""
    text = path.read_bytes()
    at = text.index(what, len(text) // 2)
    path.write_bytes(text[:at] + to + text[at + 1 :])


@pytest.mark.parametrize(
    ("kind", "what", "to"),
    [("cars", b'"', b"\x00"), ("cars", b"1", b"2"), ("cars", b"\n", b" "), ("ledger", b":", b"\xff")],
)
def test_a_flipped_byte_is_named_and_never_published(
    kind: str, what: bytes, to: bytes, site: StandIn, tmp_path: Path
) -> None:
    out, job = tmp_path / "out", tmp_path / "job"
    killed_before_its_end(site, out, job)
    damaged = max(out.glob(f"crawls/*/*/{kind}/*.segment"), key=lambda path: path.stat().st_size)
    flip(damaged, what, to)
    with crawl(site.url, out, settings=SETTINGS, jobdir=job) as run:
        assert run.wait(SECONDS) == 1, run.log
    said_once(run, "The crawl cannot be finished", str(damaged))
    assert f"{damaged}, byte " in run.log
    assert (out / "cars.json").read_bytes() == EARLIER
    assert run.run_json()["reasons"][0] in run.log
    damaged.unlink()  # it was kept for whoever wants to look

    forget = [sys.executable, "-m", "scrapy", "queue", "forget", "--yes", "-s", f"JOBDIR={job}"]
    assert subprocess.run(forget, check=False, capture_output=True).returncode == 0
    complete(site, out, jobdir=job)


@pytest.mark.parametrize("content", [b"", b'{"resumable": 1, "ended": "no"}', b"\xff\x00"])
def test_a_crawl_json_of_another_kind_costs_no_crawl(content: bytes, site: StandIn, tmp_path: Path) -> None:
    """That of another crawl is left alone and named; that of one's own is written anew."""
    out, job = tmp_path / "out", tmp_path / "job"
    killed_before_its_end(site, out, job)
    (own,) = out.rglob("crawl.json")
    own.write_bytes(content)
    strange = out / "crawls" / "20260101T000000Z-abcdef"
    strange.mkdir()
    (strange / "crawl.json").write_bytes(content)
    (strange / "00000000000001-worker").mkdir()
    with crawl(site.url, out, settings=SETTINGS, jobdir=job) as run:
        assert run.wait(SECONDS) == 0, run.log
    assert f"Left what another crawl has kept alone: {strange / 'crawl.json'}" in run.log
    assert (strange / "crawl.json").read_bytes() == content


def test_a_crawl_json_that_cannot_be_written_is_named_at_start(site: StandIn, tmp_path: Path) -> None:
    out, job = tmp_path / "out", tmp_path / "job"
    killed_before_its_end(site, out, job)
    (own,) = out.rglob("crawl.json")
    own.unlink()
    own.mkdir()
    with crawl(site.url, out, settings=SETTINGS, jobdir=job) as run:
        assert run.wait(SECONDS) == 2, run.log
    assert f"CARS_OUTPUT_DIR cannot be used: {own}: Is a directory" in run.log


def test_directories_of_crawls_that_never_began_are_cleared_away(site: StandIn, tmp_path: Path) -> None:
    """Killed after the directory was made, after its lock, while the first file was written, while it was removed."""
    crawls = tmp_path / "crawls"
    for number, names in enumerate(([], [".lock"], [".lock", ".crawl.json.77.tmp"])):
        directory = crawls / f"20260101T00000{number}Z-abcdef"
        directory.mkdir(parents=True)
        for name in names:
            (directory / name).touch()
    (crawls / ".20260101T000009Z-abcdef.removed").mkdir()
    (crawls / ".20260101T000009Z-abcdef.removed" / "crawl.json").touch()
    run = complete(site, tmp_path)
    assert [path.name for path in crawls.glob("[!.]*")] == [run.run_json()["crawl_id"]]


@pytest.mark.parametrize("harm", ["garbage", "cut", "middle"])
def test_a_broken_response_store_is_moved_aside_and_begun_again(
    harm: str, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(LISTINGS)
    complete(site, tmp_path)
    store = tmp_path / "responses.sqlite"
    whole = store.read_bytes()
    broken = {
        "garbage": b"this is no database",
        "cut": whole[: len(whole) // 2],
        "middle": whole[:4096] + b"\xaa" * (len(whole) - 4096),
    }[harm]
    store.write_bytes(broken)
    run = complete(site, tmp_path)
    (aside,) = (
        path
        for path in tmp_path.glob("responses.sqlite.broken-*")
        if path.suffix[-4:] not in ("-wal", "-shm")
    )
    assert f"The response store {store} is broken" in run.log
    assert aside.name in run.log
    if harm == "garbage":
        assert aside.read_bytes() == broken
    site.reset_journal()
    complete(site, tmp_path)
    assert site.specs() == [], "the new one is of use"
