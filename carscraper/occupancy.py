"""Directories of crawls: in use, needed by a crawl that can go on, or abandoned."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import orjson

from carscraper.exceptions import InUse

STATE = "crawl.json"
"""Its name in the directory: `{"resumable": bool, "ended": bool}`."""
_LOCK = ".lock"
_REMOVED = ".removed"
"""What the name of a directory ends with that is being removed."""


def hold(directory: Path) -> IO[bytes]:
    """Make a directory, and mark it as in use until the file is closed; whoever removes it meanwhile has no part in it.

    Raises `OSError`.
    """
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as on_failure, contextlib.suppress(FileNotFoundError):
            lock = on_failure.enter_context((directory / _LOCK).open("ab"))
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(lock.fileno()), (directory / _LOCK).stat()):
                on_failure.pop_all()
                return lock


class Quiet:
    """Directories of crawls in which nobody works until it is closed: a crawl that would go on in one waits."""

    def __init__(self, parents: Iterable[Path]) -> None:
        """`parents` hold a directory for each crawl; they need not be there."""
        self._parents = list(parents)
        self._locks: dict[Path, IO[bytes]] = {}

    @property
    def directories(self) -> list[Path]:
        """Those that are held, sorted."""
        return sorted(self._locks)

    def take(self) -> None:
        """Take those that are there and not held yet. Raises `InUse` when a process works on one, and `OSError`."""
        for parent in self._parents:
            for directory in sorted(parent.iterdir()) if parent.is_dir() else ():
                is_ours = (directory / STATE).exists() or (directory / _LOCK).exists()
                if is_ours and directory not in self._locks:
                    lock = (directory / _LOCK).open("ab")
                    self._locks[directory] = lock
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError as error:
                        raise InUse(f"a process works on {directory}") from error

    def close(self) -> None:
        """Let others in."""
        for lock in self._locks.values():
            lock.close()


def remove_abandoned(directory: Path) -> None:
    """Remove the directory of a crawl that has ended, or was killed and cannot be resumed, or had not begun; never
    while a process works on it, and never one that is not ours.

    Raises `OSError` or `ValueError` when its state cannot be read.
    """
    names = {path.name for path in directory.iterdir()}
    if directory.name.endswith(_REMOVED):
        shutil.rmtree(directory, ignore_errors=True)
    elif all(name.startswith(".") for name in names) or not names.isdisjoint({STATE, _LOCK}):
        with (directory / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if _is_needed(directory):
                return
            removed = directory.with_name(f".{directory.name}{_REMOVED}")
            directory.rename(removed)  # in one step, so that nobody begins in a half of it
        shutil.rmtree(removed, ignore_errors=True)


def _is_needed(directory: Path) -> bool:
    """True when its crawl can go on. Raises `OSError` or `ValueError` when that cannot be read."""
    if all(path.name.startswith(".") for path in directory.iterdir()):
        return False  # killed before it had begun
    state = orjson.loads((directory / STATE).read_bytes())
    match state:
        case {"resumable": bool(resumable), "ended": bool(ended)}:
            return resumable and not ended
    raise ValueError("is not the state of a crawl")
