"""What is shown while a crawl runs: a bar on a terminal, plain lines elsewhere, and no secret anywhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import FULL_SPEED
from tests.redis_server import RedisServer
from tests.standin import ROOT

SECRET = "canary-4f1c"


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


def on_terminal(command: list[str], size: tuple[int, int]) -> tuple[int, str]:
    """Runs a command on a terminal of so many rows and columns; its exit status, and all that it wrote."""
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
        status = process.wait(SECONDS)
    finally:
        process.kill()
        reader.join(10)
        os.close(ours)
    return status, b"".join(written).decode(errors="replace")
