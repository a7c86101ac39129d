"""Directories of crawls: in use, needed by a crawl that can go on, or abandoned."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import orjson

from carscraper.exceptions import InUse

STATE = "crawl.json"
"""The name of a file in the directory: its `State`, as JSON."""
POSITION = ".position"
"""What the name of a file in the directory of one of its processes ends with: a database has not got all of it yet."""
_LOCK = ".lock"
_REMOVED = ".removed"
"""What the name of a directory ends with that is being removed."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a crawl beside what lies in its directory."""

    resumable: bool = False
    ended: bool = False
    complete: bool = False
    """`cars.json` was made of it."""
    listings: int = 0
    """How many listings the catalogue has of which that `cars.json` is a share; 0: it is no share."""


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


def join(directory: Path) -> IO[bytes] | None:
    """The same for a directory that is there; None when it is being removed, or nobody may work in it now."""
    with contextlib.ExitStack() as on_failure, contextlib.suppress(FileNotFoundError, BlockingIOError):
        lock = on_failure.enter_context((directory / _LOCK).open("rb"))
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock.fileno()), (directory / _LOCK).stat()):
            on_failure.pop_all()
            return lock
    return None


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


def remove_abandoned(directory: Path, *, complete_too: bool) -> None:
    """Remove the directory of a crawl that has ended, or was killed and cannot be resumed, or had not begun; never
    while a process works on it or a database has not got all of it, and never one that is not ours. That of a complete
    crawl goes only with `complete_too`.

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
            state = _state(directory)
            if (state.resumable and not state.ended) or (state.complete and not complete_too):
                return
            if any(directory.glob(f"[!.]*/*{POSITION}")):
                return
            removed = directory.with_name(f".{directory.name}{_REMOVED}")
            directory.rename(removed)  # in one step, so that nobody begins in a half of it
        shutil.rmtree(removed, ignore_errors=True)


def read_state(path: Path) -> State:
    """That of a crawl, out of its file. Raises `OSError` or `ValueError` when it cannot be read."""
    match orjson.loads(path.read_bytes()):
        case {"resumable": bool(resumable), "ended": bool(ended), **rest}:
            listings = rest.get("listings", 0)
            return State(
                resumable, ended, rest.get("complete") is True, listings if type(listings) is int else 0
            )
    raise ValueError("is not the state of a crawl")


def _state(directory: Path) -> State:
    """Raises `OSError` or `ValueError` when it cannot be read."""
    if all(path.name.startswith(".") for path in directory.iterdir()):
        return State()  # killed before it had begun
    return read_state(directory / STATE)
