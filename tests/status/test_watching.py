"""How `scrapy queue watch` paces its looks, and what it says of those that are not answered."""

from __future__ import annotations

import asyncio
import io
import os
import signal

import pytest

from scrapy_durable.exceptions import FrontierUnavailable
from scrapy_durable.status.report import Report
from scrapy_durable.status.watching import Watch, wait_between


@pytest.mark.parametrize(
    ("every", "spent", "unanswered", "seconds"),
    [
        (1.0, 0.001, 0, 1.0),
        (1.0, 0.05, 0, 2.5),
        (1.0, 2.9, 0, 5.0),
        (5.0, 2.9, 0, 5.0),
        (1.0, 0.0, 1, 2.0),
        (1.0, 0.0, 2, 4.0),
        (1.0, 0.0, 3, 5.0),
        (1.0, 0.0, 100_000, 5.0),
    ],
)
def test_slow_looks_and_those_without_an_answer_are_made_less_often(
    every: float, spent: float, unanswered: int, seconds: float
) -> None:
    assert wait_between(every, spent, unanswered) == seconds


def test_of_several_reasons_for_an_outage_the_newest_is_shown() -> None:
    reasons = iter(["refused", "timed out"])

    async def look() -> Report:
        reason = next(reasons)
        if reason == "timed out":
            os.kill(os.getpid(), signal.SIGINT)
        raise FrontierUnavailable(reason)

    written = io.StringIO()
    asyncio.run(Watch(look, written, "shop").run())
    first, second = written.getvalue().splitlines()
    assert first.endswith(": refused")
    assert second.endswith(": timed out")
    assert first[9:].split(", ")[0] == second[9:].split(", ")[0], "since the same time"
