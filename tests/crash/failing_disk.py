"""`scrapy` on a disk that fails: `FAILS` is `fsync` or `replace`, `FAILS_AT` its first call that fails, `FAILS_TIMES`
how many do.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import scrapy.cmdline


def fail(owner: Any, method: str, first: int, times: int) -> None:
    """Have these calls raise what a dying disk raises; a file whose fsync failed may be empty."""
    original = getattr(owner, method)
    calls = 0

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if first <= calls < first + times:
            if method == "fsync" and Path(f"/proc/self/fd/{arguments[0]}").is_file():
                os.ftruncate(arguments[0], 0)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return original(*arguments)

    setattr(owner, method, failing)


if __name__ == "__main__":
    owner = {"fsync": os, "replace": Path}[os.environ["FAILS"]]
    fail(owner, os.environ["FAILS"], int(os.environ["FAILS_AT"]), int(os.environ["FAILS_TIMES"]))
    sys.exit(scrapy.cmdline.execute())
