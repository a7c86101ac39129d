"""`runs.jsonl`: lines appended whole and durable, by several processes at once, and read back as runs.

    {"run": ID, "state": "begun", "crawl": ID, "spider", "begun", "host", "pid", …}     at a run's start
    {"run": ID, "state": "ended", …what `extension.py` tells of it}                     at its end
    {"run": ID, "state": "killed", …as at its start}                     by whoever finds its process gone, once

A run that was killed has no line of its end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import orjson

from scrapy_durable.plain import plain_json
from scrapy_durable.runs.processes import is_alive

BEGUN, ENDED, RUNNING, KILLED = "begun", "ended", "running", "killed"
_PIECE = 4096
_BEGINNING = b'{"run":"'
"""What every line begins with."""

Run = dict[str, Any]


def append_run(path: Path, run: Run) -> None:
    """Add one line, on the disk when this returns; what a process that died has left of a line is cut off. Raises
    `OSError`, also when the end of the file is no beginning of a line of ours: that stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        is_new = os.fstat(file.fileno()).st_size == 0
        _append(file, path, run)
    if is_new:
        _flush_name(path)


def note_killed(path: Path) -> list[Run]:
    """Add a line for each run whose process has gone without a last word. Returns these runs: of all who ask, one is
    told of each. None where there is no file. Raises `OSError`.
    """
    try:
        with path.open("r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with path.open("rb") as lines:
                runs = _read(lines, lambda _: None)
            begun = [run for run in runs if run["state"] == BEGUN]
            killed = [run for run in map(_seen_from_here, begun) if run["state"] == KILLED]
            for run in killed:
                _append(file, path, run)
    except FileNotFoundError:
        return []
    return killed


def _append(file: IO[bytes], path: Path, run: Run) -> None:
    whole = _whole(file)
    tail = os.pread(file.fileno(), len(_BEGINNING), whole)
    if not _BEGINNING.startswith(tail):
        raise OSError(errno.EINVAL, "its last line is cut short, and none of ours", str(path))
    file.truncate(whole)
    file.seek(whole)
    rest = memoryview(plain_json(run, orjson.OPT_APPEND_NEWLINE))
    while rest:
        rest = rest[file.write(rest) :]
    os.fdatasync(file.fileno())


def _flush_name(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fdatasync(directory)
    finally:
        os.close(directory)


def _whole(file: IO[bytes]) -> int:
    """How many bytes there are up to the end of the last whole line."""
    end = os.fstat(file.fileno()).st_size
    while end:
        start = max(0, end - _PIECE)
        found = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read_runs(path: Path, damaged: Callable[[int], None]) -> list[Run]:
    """All runs, in the order in which they began, each with its last `state`: `ended`, `running`, `killed`, or `begun`
    on another machine.

    `damaged` is told the number of a line that is none. Raises `OSError`.
    """
    with path.open("rb") as file:
        return [_seen_from_here(run) for run in _read(file, damaged)]


def _read(lines: Iterable[bytes], damaged: Callable[[int], None]) -> list[Run]:
    runs: dict[str, Run] = {}
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break  # still being written
        run = _run(line)
        if run is None:
            damaged(number)
        elif run["state"] == ENDED or runs.get(run["run"], {}).get("state") != ENDED:
            runs[run["run"]] = {**runs.get(run["run"], {}), **run}
    return list(runs.values())


def _run(line: bytes) -> Run | None:
    try:
        run = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(run) is not dict or run.get("state") not in (BEGUN, ENDED, KILLED):
        return None
    if not all(type(run.get(name)) is str for name in ("run", "crawl", "spider", "begun")):
        return None
    return run


def _seen_from_here(run: Run) -> Run:
    """One with nothing but its beginning is killed, unless its process is there, or was on another machine."""
    pid = run.get("pid")
    if run["state"] != BEGUN or run.get("host") != socket.gethostname() or type(pid) is not int:
        return run
    return {**run, "state": RUNNING if is_alive(pid, run.get("process")) else KILLED}
