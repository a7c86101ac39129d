"""`scrapy demo` is the stand-in on Scrapy's own command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from urllib.request import urlopen

from tests.standin import ROOT

COMMAND = [sys.executable, "-m", "scrapy", "demo"]


def test_scrapy_demo_prints_its_address_and_nothing_else_and_ends_with_0() -> None:
    process = subprocess.Popen(
        [*COMMAND, "--listings=7"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    assert address.endswith("/fw/public")
    with urlopen(f"{address}/v3/vehicle", timeout=10) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=10)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_a_bad_option_is_one_line_and_not_0() -> None:
    ended = subprocess.run(
        [*COMMAND, "--seed=x"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: --seed: not a whole number: 'x'\n"


def test_a_word_beside_the_options_is_refused() -> None:
    ended = subprocess.run(
        [*COMMAND, "start"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 2
    assert "nothing but options is understood: start" in ended.stdout + ended.stderr
