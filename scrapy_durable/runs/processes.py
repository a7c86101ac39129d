"""Whether the process that a run was is still there: by its start, so that a later one of the same pid is not taken
for it.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys" / "kernel" / "random" / "boot_id"
_STATE, _STARTED = 0, 19
"""Places in `/proc/PID/stat` behind the name of the program, which may hold anything."""
_DEAD = ("Z", "X", "x")


def process_mark(pid: int) -> str | None:
    """What tells a process from every other of the same pid: this start of the machine, and the clock ticks from there
    to its own. None when there is no such process, or nothing but its exit status; "" where the system does not say.
    """
    if not _BOOT_ID.exists():
        return "" if _is_there(pid) else None
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE] in _DEAD:
        return None
    return f"{_BOOT_ID.read_text().strip()}-{fields[_STARTED]}"


def is_alive(pid: int, mark: object) -> bool:
    """Whether the process is there that had this mark; without one (None, of an earlier release), any of that pid."""
    found = process_mark(pid)
    return found is not None and mark in (None, "", found)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
