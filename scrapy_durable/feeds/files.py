"""Files of feeds: locked while they are written, flushed, put in place in one step."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from io import BufferedRandom, FileIO
from pathlib import Path
from typing import IO

from scrapy_durable.disk import flush_directory

_PIECE = 1 << 20
"""Bytes that are copied at once."""


class InUse(OSError):
    """Raised when another process, or another feed of this one, writes the file."""


def incomplete(path: Path) -> Path:
    """Where a file is made that is put in place once it is complete: `cars.json` as `cars.incomplete.json`."""
    return path.with_name(f"{path.stem}.incomplete{path.suffix}")


def lock(path: Path) -> FileIO:
    """Open a file to read and write, unbuffered, made with its directories when it is missing; nobody else can.

    Raises `InUse`, and `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = FileIO(path, "r+", opener=_open_or_make)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(file, path):  # who had it before may have removed it
                return file
        except BlockingIOError:
            file.close()
            raise InUse(None, "it is being written by another process", str(path)) from None
        except BaseException:
            file.close()
            raise
        file.close()


def _open_or_make(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def flush_by_name(path: Path) -> None:
    """Have what was written to a file outlive a loss of power, whoever has it open. Raises `OSError`."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def is_at(file: IO[bytes] | FileIO, path: Path) -> bool:
    """Whether the open file is the one that has that name."""
    try:
        found = path.stat()
    except OSError:
        return False
    own = os.fstat(file.fileno())
    return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


def write_all(file: FileIO, data: bytes) -> None:
    """Write all of it. Raises `OSError`; then part of it may be there."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def copy_first(path: Path, to: IO[bytes] | BufferedRandom, length: int) -> None:
    """Copy what a file begins with. Raises `OSError`."""
    with path.open("rb") as file:
        while length > 0 and (piece := file.read(min(_PIECE, length))):
            to.write(piece)
            length -= len(piece)


def put_in_place(made: Path, path: Path) -> None:
    """Give a file that was flushed the name that it is made for, and the rights of the one that it replaces."""
    with contextlib.suppress(OSError):
        shutil.copymode(path, made)
    made.replace(path)
    flush_directory(path.parent)


def remove_empty(path: Path) -> None:
    """Remove a file that nothing was written to."""
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()
