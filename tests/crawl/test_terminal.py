"""What is shown while a crawl runs: a bar on a terminal, plain lines elsewhere, and no secret anywhere."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.stores import JobDir, SharedRedis, Store
from tests.crash.worker import KILLED
from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import FULL_SPEED, wait_until
from tests.kept import kept_records
from tests.redis_server import RedisServer
from tests.standin import ROOT
from tests.wrong_clock import runner

SECRET = "canary-4f1c"
WITHOUT_END = [{"match": "offset.{3,4}=[12][0-9][0-9]&", "fault": "status"}]
"""Pages of 20 from the sixth on do not come, so that no crawl is over before it is looked at."""
PATIENT = {
    "CARS_PAGE_SIZE": 20,
    "DURABLE_LEASE_SECONDS": 600,
    "RETRY_TIMES": 999,
    "DURABLE_MAX_ATTEMPTS": 999,
    "DURABLE_RETRY_BASE_DELAY": 0.2,
    "DURABLE_RETRY_MAX_DELAY": 0.5,
}


@pytest.mark.parametrize("size", [(50, 120), (0, 0)], ids=["sized", "unsized"])
def test_a_terminal_shows_a_bar_with_rate_and_time_left(
    site: Site, tmp_path: Path, size: tuple[int, int]
) -> None:
    """Some terminals say that they have no rows and columns; the bar is there nevertheless."""
    site.standin.faults([{"fault": "delay", "seconds": 0.1}])
    settings = {**FULL_SPEED, "CONCURRENT_REQUESTS": 4, "CARS_PAGE_SIZE": 20}
    settings |= {"CARS_API_URL": site.url, "CARS_OUTPUT_DIR": tmp_path / "data"}
    status, shown = on_terminal(
        [sys.executable, "-m", "scrapy", "crawl", "cars"]
        + [f"--set={name}={value}" for name, value in settings.items()],
        size,
    )
    assert status == 0, shown
    bars = re.findall(rf"cars: +(\d+)%\|.*?\| (\d+)/{LISTINGS} \[\d\d:\d\d<(\S+), +(\S+) cars/s\]", shown)
    assert any(0 < int(percent) < 100 and left != "?" for percent, _, left, _ in bars), shown
    assert bars[-1][:2] == ("100", str(LISTINGS))
    assert shown.index("Spider opened") < shown.index("cars:")
    assert "complete: kept" in shown.splitlines()[-2]


def test_a_file_keeps_its_own_level_below_the_bar(site: Site, tmp_path: Path) -> None:
    settings = {**FULL_SPEED, "CARS_API_URL": site.url, "CARS_OUTPUT_DIR": tmp_path / "data"}
    settings |= {"LOG_FILE": tmp_path / "all.log", "LOG_LEVEL": "DEBUG", "DURABLE_CONSOLE_LEVEL": "INFO"}
    status, shown = on_terminal(
        [sys.executable, "-m", "scrapy", "crawl", "cars"]
        + [f"--set={name}={value}" for name, value in settings.items()],
        (50, 120),
    )
    assert status == 0, shown
    _, _, while_it_ran = (tmp_path / "all.log").read_text().partition("Spider opened")
    assert " DEBUG: " in while_it_ran
    assert "Spider opened" in shown
    assert " DEBUG: " not in shown


@pytest.mark.parametrize("how", ["resumed", "joined"])
def test_what_a_terminal_shows_from_the_beginning_is_the_crawl(
    site: Site, start: Start, tmp_path: Path, how: str
) -> None:
    """On one of 80 columns: what earlier and other workers have read is there, and the rest is not all there is."""
    site.standin.faults(WITHOUT_END)
    settings = {**PATIENT, "CONCURRENT_REQUESTS": 4}
    with ExitStack() as running:
        if how == "joined":
            store: Store = SharedRedis(running.enter_context(RedisServer()))
        else:
            store = JobDir(tmp_path / "job")
        first = start(settings=settings, **store.options)

        def kept() -> int:
            return sum(worker.report.get("kept", 0) for worker in store.status().workers)

        wait_until(lambda: kept() > 20, SECONDS, what="a report of what was kept")
        if how == "resumed":
            first.send(signal.SIGINT)
            assert first.wait(SECONDS) == 1, first.log
        at_least = kept()
        workers = len(store.status().workers)

        def let_go_on() -> None:
            wait_until(lambda: len(store.status().workers) > workers, SECONDS, what="another worker")
            site.standin.faults([{"fault": "delay", "seconds": 0.2}])

        releasing = threading.Thread(target=let_go_on)
        releasing.start()
        asked = {**FULL_SPEED, **settings, "CARS_API_URL": site.url, "CARS_OUTPUT_DIR": tmp_path / "data"}
        asked |= {name.upper(): value for name, value in store.options.items()}
        status, shown = on_terminal(
            [sys.executable, "-m", "scrapy", "crawl", "cars"]
            + [f"--set={name}={value}" for name, value in asked.items()],
            (24, 80),
        )
        releasing.join()
        assert status == 0, shown
        if how == "joined":
            assert first.wait(SECONDS) == 0, first.log
    drawn = [
        piece for piece in re.split(r"[\r\n]", re.sub(r"\x1b\[\w", "", shown)) if piece.startswith("cars:")
    ]
    assert all(len(piece) <= 80 for piece in drawn), drawn
    counts = [re.search(r"(\d+)/(\d+) \[", piece) for piece in drawn]
    numbers = [(int(found[1]), int(found[2])) for found in counts if found]
    assert len(numbers) == len(drawn), drawn
    assert {total for _, total in numbers} == {LISTINGS}
    assert all(at_least <= n <= LISTINGS for n, _ in numbers), drawn
    assert numbers[-1] == (LISTINGS, LISTINGS)
    assert first.run_json()["requests"] >= site.standin.counts()["pages"]  # of which half is the first one's


def test_what_was_not_committed_when_a_process_was_killed_is_not_counted(
    site: Site, start: Start, tmp_path: Path
) -> None:
    """The bar of the one that goes on begins with what is on the disk: here nothing, since the rest is read again."""
    store = JobDir(tmp_path / "job")
    settings = {**PATIENT, "CARS_BATCH_SIZE": 10_000}
    killer = {"env": {"CRASH_POINT": "before flush"}, "runner": (sys.executable, "-m", "tests.crash.worker")}
    killed = start(settings=settings, **killer, **store.options)
    assert killed.wait(SECONDS) == KILLED, killed.log
    assert not kept_records(tmp_path)
    (tmp_path / "data" / "responses.sqlite").unlink()
    site.standin.faults([{"fault": "hang", "after": 1}])  # after robots.txt
    asked = {**FULL_SPEED, **settings, "CARS_API_URL": site.url, "CARS_OUTPUT_DIR": tmp_path / "data"}
    asked |= {name.upper(): value for name, value in store.options.items()}
    status, shown = on_terminal(
        [sys.executable, "-m", "scrapy", "crawl", "cars"]
        + [f"--set={name}={value}" for name, value in asked.items()],
        (24, 80),
        interrupt_at="cars:",
    )
    assert status == 1, shown
    assert set(re.findall(r"\| (\d+)/\d+ \[", shown)) == {"0"}, shown


def test_ctrl_c_says_that_the_same_command_goes_on(site: Site, start: Start, tmp_path: Path) -> None:
    """Nothing is missing, and nothing has failed."""
    site.standin.faults(WITHOUT_END)
    run = start(jobdir=tmp_path / "job", settings=PATIENT)
    wait_until(lambda: site.standin.counts()["specs"], SECONDS, what="a specification")
    run.send(signal.SIGINT)
    assert run.wait(SECONDS) == 1, run.log
    assert "ERROR" not in run.log
    assert "missing:" not in run.log
    assert re.search(r"^STOPPED: kept \d+ of ", run.log, re.MULTILINE)
    (why,) = re.findall(r"^why: (.*)$", run.log, re.MULTILINE)
    assert re.fullmatch(r"stopped with \d+ requests to make; the same command goes on with them", why)
    found = run.run_json()
    assert (found["status"], found["complete"], found["missing"]) == ("stopped: shutdown", False, [])
    assert found["reasons"] == [why]


def test_a_process_that_was_killed_does_not_go_on(site: Site, start: Start, tmp_path: Path) -> None:
    """One process at a time has a `JOBDIR`: however lately another was heard of, it is gone."""
    site.standin.faults(WITHOUT_END)
    killed = start(jobdir=tmp_path / "job", settings=PATIENT)
    wait_until(lambda: site.standin.counts()["specs"], SECONDS, what="a specification")
    killed.kill()
    run = start(jobdir=tmp_path / "job", settings=PATIENT)
    wait_until(lambda: "Going on with crawl" in run.log, SECONDS, what="that it goes on")
    site.standin.reset_journal()
    wait_until(lambda: site.standin.counts()["pages"], SECONDS, what="a page")
    run.send(signal.SIGINT)
    assert run.wait(SECONDS) == 1, run.log
    assert "others go on" not in run.log
    assert re.search(r"^STOPPED: kept \d+ of ", run.log, re.MULTILINE), run.log
    assert run.run_json()["status"] == "stopped: shutdown"


def test_others_go_on_only_when_others_live(site: Site, start: Start) -> None:
    """The first of two workers that leaves says so; the second knows that nobody is left."""
    site.standin.faults(WITHOUT_END)
    said = "This worker has stopped; others go on with the crawl"
    with RedisServer() as server:
        store = SharedRedis(server)
        first, second = (start(settings=PATIENT, **store.options) for _ in range(2))

        def have_asked() -> int:
            return sum(bool(worker.report.get("requests")) for worker in store.status().workers)

        wait_until(lambda: have_asked() == 2, SECONDS, what="two workers that have asked for something")
        first.send(signal.SIGINT)
        assert first.wait(SECONDS) == 1, first.log
        second.send(signal.SIGINT)
        assert second.wait(SECONDS) == 1, second.log
    assert said in first.log
    assert said not in second.log
    assert "the same command goes on" in second.log


def test_the_leases_of_a_worker_that_is_gone_are_said_to_be_waited_for(site: Site, start: Start) -> None:
    """By the clock of the one that goes on, the other was last heard of six minutes ago."""
    site.standin.faults([{"match": "/specs/", "fault": "hang"}])
    with RedisServer() as server:
        killed = start(settings=PATIENT, redis_url=server.url)
        wait_until(lambda: site.standin.counts()["specs"], SECONDS, what="a specification")
        killed.kill()
        run = start(settings=PATIENT, redis_url=server.url, runner=runner(360, of_redis=True))
        said = r"Waiting for (\d+) leases of a worker not heard of for (\d+) s, back in (\d+) s\n"
        wait_until(lambda: re.search(said, run.log), SECONDS, what="what is waited for")
    leases, silent, left = map(int, re.findall(said, run.log)[0])
    assert leases > 0
    assert silent >= 360
    assert abs(silent + left - PATIENT["DURABLE_LEASE_SECONDS"]) <= 1  # each is rounded


def test_elsewhere_there_are_plain_lines_only(site: Site, start: Start) -> None:
    run = start()
    assert run.wait(SECONDS) == 0
    assert not re.search(r"\d+%\||\r|\x1b", run.log)
    assert "INFO: The catalogue is complete" in run.log


def test_the_password_of_redis_is_in_no_log(site: Site, start: Start) -> None:
    with RedisServer(options={"requirepass": SECRET}) as server:
        run = start(
            redis_url=server.url.replace("redis://", f"redis://:{SECRET}@"), settings={"LOG_LEVEL": "DEBUG"}
        )
        assert run.wait(SECONDS) == 0, run.log
    assert SECRET not in run.log
    assert SECRET not in (run.output_dir / "run.json").read_text()


def test_the_password_of_a_redis_that_refuses_it_is_in_no_log(site: Site, start: Start) -> None:
    with RedisServer(options={"requirepass": "another"}) as server:
        run = start(redis_url=server.url.replace("redis://", f"redis://:{SECRET}@"))
        assert run.wait(SECONDS) not in (0, -9), run.log
    assert SECRET not in run.log


def on_terminal(command: list[str], size: tuple[int, int], interrupt_at: str = "") -> tuple[int, str]:
    """Runs a command on a terminal of so many rows and columns, with Ctrl-C as soon as it has written `interrupt_at`;
    its exit status, and all that it wrote.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, size)
    written: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side has been closed
                return
            if not piece:
                return
            written.append(piece)

    process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        if interrupt_at:
            wait_until(lambda: interrupt_at in b"".join(written).decode(errors="replace"), SECONDS)
            process.send_signal(signal.SIGINT)
        status = process.wait(SECONDS)
    finally:
        process.kill()
        reader.join(10)
        os.close(ours)
    return status, b"".join(written).decode(errors="replace")
