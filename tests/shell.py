"""Scrapy's shell ends while its event loop still runs in a daemon thread; now and then Python itself crashes there."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

_TIMES = 3


def run_shell(run: Callable[[], subprocess.CompletedProcess[str]]) -> subprocess.CompletedProcess[str]:
    """What `run` returns; again, a few times, when the process ended by a segmentation fault."""
    for _ in range(_TIMES - 1):
        done = run()
        if done.returncode != -signal.SIGSEGV:
            return done
    return run()
