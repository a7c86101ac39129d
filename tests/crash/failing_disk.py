"""`scrapy` on a disk that fails: `FAILS` is `fsync`, `fdatasync` or `replace`, `FAILS_AT` its first call that fails,
`FAILS_TIMES` how many do. Of `fdatasync`, those of item logs count.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import scrapy.cmdline


def fail(owner: Any, method: str, first: int, times: int) -> None:
    """Have these calls raise what a dying disk raises; what has come to a file since the last one may be gone."""
    original = getattr(owner, method)
    calls = 0
    flushed: dict[int, int] = {}

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        if method == "fdatasync" and not Path(f"/proc/self/fd/{arguments[0]}").readlink().match("*.segment"):
            return original(*arguments)
        calls += 1
        if first <= calls < first + times:
            if method != "replace" and Path(f"/proc/self/fd/{arguments[0]}").is_file():
                file = os.fstat(arguments[0])
                if method == "fsync" or file.st_ino in flushed:
                    os.ftruncate(arguments[0], flushed.get(file.st_ino, 0))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        result = original(*arguments)
        if method == "fdatasync":
            file = os.fstat(arguments[0])
            flushed[file.st_ino] = file.st_size
        return result

    setattr(owner, method, failing)


if __name__ == "__main__":
    owner = {"fsync": os, "fdatasync": os, "replace": Path}[os.environ["FAILS"]]
    fail(owner, os.environ["FAILS"], int(os.environ["FAILS_AT"]), int(os.environ["FAILS_TIMES"]))
    sys.exit(scrapy.cmdline.execute())
