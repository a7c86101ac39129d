from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import ROOT, Forked, run, start

PROBE = """
import json, os, signal, sys, threading

def told(stream):
    return [stream.fileno(), stream.mode, stream.encoding, stream.errors, stream.line_buffering]

print(json.dumps({
    "arguments": sys.argv,
    "environment": dict(os.environ),
    "directory": os.getcwd(),
    "path": sys.path,
    "group": [os.getpgrp(), os.getsid(0), os.getppid()],
    "streams": [told(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "threads": threading.active_count(),
    "module": __name__,
    "reactor": "twisted.internet.reactor" in sys.modules,
    "read": sys.stdin.read(),
}))
print("unwell", file=sys.stderr)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where `python -m probe` tells what it has been given, and `python -m ending` ends as its argument says."""
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "ending.py").write_text("import sys, time\nexec(sys.argv[1])")
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", *words]


def test_a_fork_is_given_what_a_started_process_is_given(directory: Path) -> None:
    told: list[Any] = []
    options: Any = {
        "cwd": directory,
        "env": {**os.environ, "DURABLE_LEASE_SECONDS": "7", "ODD": "\udcff"},
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    for make in (subprocess.Popen, Forked):
        with make(command("probe", "a b", "-s", "X=ä"), **options) as process:
            out, err = process.communicate("some\nlines", timeout=60)
        assert (err, process.returncode) == ("unwell\n", 0)
        told.append(json.loads(out))
    assert told[0] == told[1]


def test_each_fork_reads_the_settings_of_its_own_environment(directory: Path) -> None:
    program = "import scrapy_durable.settings; print(scrapy_durable.settings.DURABLE_LEASE_SECONDS)"
    for seconds in ("7", "8"):
        env = {**os.environ, "DURABLE_LEASE_SECONDS": seconds}
        with Forked(command("ending", program), cwd=directory, env=env, stdout=subprocess.PIPE) as process:
            assert process.communicate() == (f"{seconds}\n".encode(), None)


def test_a_fork_hashes_text_otherwise_than_the_one_before(directory: Path) -> None:
    """As started processes do: what one leaves to the next must not depend on it."""
    asked = command("ending", "print(hash('text'))")
    said = {run(asked, cwd=directory, timeout=60).stdout for _ in range(4)}
    assert len(said) == 2


@pytest.mark.parametrize(
    ("program", "status", "error"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('refused')", 1, "refused\n"),
        ("import os; os._exit(137)", 137, ""),
        ("raise KeyError('a bug')", 1, "KeyError: 'a bug'\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import atexit; atexit.register(print, 'at last', file=sys.stderr)", 0, "at last\n"),
    ],
)
def test_a_fork_ends_as_a_started_process_does(
    directory: Path, program: str, status: int, error: str
) -> None:
    for make in (subprocess.Popen, Forked):
        with make(command("ending", program), cwd=directory, stderr=subprocess.PIPE, text=True) as process:
            _, err = process.communicate(timeout=60)
        assert process.returncode == status
        assert err.endswith(error)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_a_fork(directory: Path, number: signal.Signals) -> None:
    program = "print('ready', flush=True); time.sleep(900)"
    options: Any = {"cwd": directory, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with Forked(command("ending", program), **options) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == -number


def test_only_a_module_of_this_interpreter_is_forked(directory: Path) -> None:
    with start(command("ending", "pass"), cwd=directory) as forked:
        assert isinstance(forked, Forked)
    for other in ([sys.executable, "-c", "pass"], ["true"]):
        with start(other, cwd=ROOT) as process:
            assert not isinstance(process, Forked)


def test_a_process_that_begins_otherwise_is_started(directory: Path) -> None:
    """With modules of its own in the place of those which a fork has already, or with a seed that is set."""
    odd = {}
    for name, does in (
        ("sitecustomize", "import sys; sys.modules['orjson'] = None"),
        ("orjson", "raise ImportError"),
    ):
        odd[name] = directory / f"with {name}"
        odd[name].mkdir()
        (odd[name] / f"{name}.py").write_text(does)
    for variables in (*({"PYTHONPATH": f"{ROOT}:{path}"} for path in odd.values()), {"PYTHONHASHSEED": "7"}):
        env = {**os.environ, **variables}
        with start(
            command("ending", "import orjson"), cwd=directory, env=env, stderr=subprocess.PIPE
        ) as process:
            _, error = process.communicate()
        assert not isinstance(process, Forked)
        assert (b"ImportError" in error or b"ModuleNotFoundError" in error) == ("PYTHONPATH" in variables)
