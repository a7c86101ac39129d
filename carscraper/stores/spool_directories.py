"""The directories of spools: whose they are, which database they belong to, and what is delivered."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from zlib import crc32

from carscraper.stores.segments import target_in

SEGMENTS = "[0-9]" * 8 + ".segment"
"""Which files of a directory are segments."""


def target_of(directory: Path) -> str | None:
    """The database that a directory belongs to; None when nothing waits there, or it cannot be read."""
    first = min(directory.glob(SEGMENTS), default=None)
    return None if first is None else target_in(first)


def position_of(directory: Path) -> tuple[int, int]:
    """Number of a segment, and how many of its records are delivered; zeros when that is not known."""
    with contextlib.suppress(OSError, ValueError):
        text, checksum = (directory / "position").read_bytes().removesuffix(b"\n").rsplit(b" ", 1)
        if int(checksum) == crc32(text):
            number, records = text.split()
            return int(number), int(records)
    return 0, 0


def make(directory: Path) -> None:
    """Make a directory and those above it, so that they outlive a loss of power."""
    if directory.is_dir():
        return
    make(directory.parent)
    directory.mkdir(exist_ok=True)
    parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


@contextlib.contextmanager
def held(root: Path) -> Iterator[None]:
    """Wait until no other process makes, takes over or removes a directory, and let none do it meanwhile."""
    with (root / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def lock_of(directory: Path) -> IO[bytes] | None:
    """Take a directory for this process: until the file is closed, however that comes. None when another has it."""
    file = (directory / ".lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def abandoned(root: Path, on_error: contextlib.ExitStack) -> list[tuple[Path, IO[bytes]]]:
    """The directories that no process has, locked for this one until `on_error` is closed."""
    found: list[tuple[Path, IO[bytes]]] = []
    if not root.is_dir():
        return found
    with held(root):
        for path in sorted(root.glob("*/.lock")):
            if lock := lock_of(path.parent):
                on_error.callback(lock.close)
                found.append((path.parent, lock))
    return found
