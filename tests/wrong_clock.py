"""`scrapy` on a machine whose clock is wrong by some seconds: `python -m tests.wrong_clock SECONDS crawl cars …`.

The time of day only: what counts seconds between two moments goes on as it is, on such a machine too.
"""

from __future__ import annotations

import sys
import time


def set_wrong(seconds: float) -> None:
    """From now on, the time module of this process tells a time that is `seconds` ahead, or behind when below 0."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + round(seconds * 1e9)
    convert = time.gmtime
    time.gmtime = lambda at=None: convert(time.time() if at is None else at)


def runner(seconds: float) -> tuple[str, ...]:
    """For `tests.crawling.crawl`."""
    return sys.executable, "-m", "tests.wrong_clock", str(seconds)


if __name__ == "__main__":
    set_wrong(float(sys.argv.pop(1)))
    from scrapy.cmdline import execute  # and with it everything else, which finds the wrong time

    execute()
