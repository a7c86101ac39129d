"""The memory and the disk that a crawl takes up, seen from outside."""

from __future__ import annotations

import time
from pathlib import Path

from tests.crawling import Crawl
from tests.measured import peak_memory

_LOOK = 0.01


def wait_and_watch(run: Crawl, timeout: float) -> tuple[int, int]:
    """Wait for the end of a crawl; its exit status, and the most bytes that it was seen to have resident.

    The kernel counts the most that there ever was, so what is missed are the last hundredths of a second.
    """
    deadline, most = time.monotonic() + timeout, 0
    while run.running and time.monotonic() < deadline:
        try:
            most = max(most, peak_memory(run.pid))
        except (FileNotFoundError, IndexError, ProcessLookupError):  # it has just ended
            break
        time.sleep(_LOOK)
    return run.wait(max(0.1, deadline - time.monotonic())), most


def disk_usage(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
