"""`scrapy` for which something goes wrong at a named point: `GOES_WRONG_AT` names it, as in `tests.crash.worker`, and
`GOES_WRONG` says what.

- `full`: the disk that `GOES_WRONG_ON` is on is filled up, for good;
- `refuse`: nothing can be flushed to any disk from then on, for want of room; for where no disk may be mounted;
- `bug`: the call raises what nobody expects.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scrapy.cmdline

from tests.crash.worker import POINTS

FILLER = "filler"


def fill() -> None:
    """Take all the room that is left, down to the last byte."""
    path = Path(os.environ["GOES_WRONG_ON"]) / FILLER
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


def refuse() -> None:
    """Have every flush fail."""

    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.fsync = os.fdatasync = refuse


def bug() -> None:
    raise KeyError("a bug,\nof two lines")


def go_wrong_at(owner: Any, method: str, counts: Callable[..., bool], what: Callable[[], None]) -> None:
    """Have it happen before each call that counts."""
    original = getattr(owner, method)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if counts(*arguments):
            what()
        return original(*arguments, **options)

    @functools.wraps(original)
    async def waiting(*arguments: Any, **options: Any) -> Any:
        return await wrapped(*arguments, **options)

    setattr(owner, method, waiting if inspect.iscoroutinefunction(original) else wrapped)


if __name__ == "__main__":
    owners, method, counts = POINTS[os.environ["GOES_WRONG_AT"]]
    for owner in owners:
        go_wrong_at(
            owner, method, counts, {"full": fill, "refuse": refuse, "bug": bug}[os.environ["GOES_WRONG"]]
        )
    sys.exit(scrapy.cmdline.execute())
