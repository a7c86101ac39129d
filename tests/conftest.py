"""What tests of every part share: the stand-in API, started on demand; which files come first."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.crawling import AS_INSTALLED
from tests.processes import refuse_processes, starts_processes
from tests.standin import StandIn

# How long one example takes says nothing about the code: the machine may stop a process at any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# The tests start a thousand processes: none of them shall compile the sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Users do not set it, and it hides what is never flushed.
os.environ.pop("PYTHONUNBUFFERED", None)

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (AS_INSTALLED, os.environ.get("PYTHONPATH"))))

# Each process that asks a site by HTTP would load this machine's 140 certificates, which takes a tenth of its start.
# Those that are asked for are still found, in the directory of certificates, and a test of TLS names its own.
os.environ["SSL_CERT_FILE"] = os.devnull

MEMORY = Path("/dev/shm")
ENOUGH = 6 * 1024**3
"""Bytes that have to be free; the tests use a sixth of them at most."""


def has_memory_to_spare() -> bool:
    """Whether temporary files may stand in memory: nothing here cuts the power, and a flush to a disk takes 5 ms."""
    if not MEMORY.is_dir():
        return False
    room = os.statvfs(MEMORY)
    [available] = re.findall(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return min(room.f_bavail * room.f_frsize, int(available) * 1024) > ENOUGH


if "TMPDIR" not in os.environ and has_memory_to_spare():
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # it was read before


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandIn]]:
    """Starts a stand-in with the arguments of `StandIn`; all of them are stopped when the test ends."""
    with ExitStack() as running:

        def start(listings: int = 100, **options: Any) -> StandIn:
            return running.enter_context(StandIn(listings, **options))

        yield start


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests that start a process or are slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take long go first, so that no worker is left alone with one at the end."""
    cost: Counter[Path] = Counter()
    for item in items:
        assert isinstance(item, pytest.Function)
        if starts_processes(item):
            item.add_marker("processes")
        is_slow = item.get_closest_marker("slow") is not None
        cost[item.path] += 600 if is_slow else 100 if item.get_closest_marker("processes") else 1
    items.sort(key=lambda item: -cost[item.path])
    if config.getoption("fast"):
        left_out = [item for item in items if _is_left_out(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(item)]


def pytest_collection_finish() -> None:
    """Python looks for cycles among what tests make, and no longer among thousands of collected tests, which takes a
    third of a second each time that a test asks for it."""
    gc.collect()
    gc.freeze()


def _is_left_out(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "processes"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Whatever is not marked starts no process in a fast run."""
    if item.config.getoption("fast"):
        refuse_processes()
