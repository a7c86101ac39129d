"""`scrapy` where a clock is wrong by some seconds: that of the machine, or that of Redis.

The time of day only: what counts seconds between two moments goes on as it is, on such a machine too.
"""

from __future__ import annotations

import sys
import time
from typing import Any


def set_wrong(seconds: float) -> None:
    """From now on, the time module of this process tells a time that is `seconds` ahead, or behind when below 0."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + round(seconds * 1e9)
    convert = time.gmtime
    time.gmtime = lambda at=None: convert(time.time() if at is None else at)


def set_redis_wrong(seconds: float) -> None:
    """From now on, Redis tells the frontiers of this process such a time; this machine's is right."""
    from scrapy_durable.frontier.redis import RedisFrontier

    make = RedisFrontier.__init__

    def make_wrong(frontier: RedisFrontier, *arguments: Any, **options: Any) -> None:
        make(frontier, *arguments, **options)
        frontier.clock_offset = seconds

    RedisFrontier.__init__ = make_wrong  # type: ignore[method-assign]


def runner(seconds: float, *, of_redis: bool = False) -> tuple[str, ...]:
    """For `tests.crawling.crawl`. Not `-m`, which is forked from where all is imported, with the right time."""
    program = "from tests.wrong_clock import main; main()"
    return sys.executable, "-c", program, "redis" if of_redis else "machine", str(seconds)


def main() -> None:
    """Of the process that is started with `runner`."""
    set_clock = {"machine": set_wrong, "redis": set_redis_wrong}[sys.argv.pop(1)]
    set_clock(float(sys.argv.pop(1)))
    from scrapy.cmdline import execute  # and with it everything else, which finds the wrong time

    execute()
