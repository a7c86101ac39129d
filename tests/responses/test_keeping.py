"""Answers on their way into the response store."""

from __future__ import annotations

import asyncio
import logging

import pytest

from scrapy_durable.responses.keeping import Keeping


async def fail() -> None:
    """As a put does that nobody has foreseen."""
    await asyncio.sleep(0)
    raise LookupError("no such table")


async def put_two_of_which_one_fails() -> Keeping:
    """The second waits until it is looked at."""
    keeping, stored = Keeping(), asyncio.Event()
    await keeping.begin(fail())
    await keeping.begin(asyncio.wait_for(stored.wait(), None))
    assert (keeping.received, keeping.durable) == (2, 0)
    stored.set()
    while keeping.durable < keeping.received:
        await keeping.flush()
        await asyncio.sleep(0)
    return keeping


def test_an_answer_that_is_lost_by_an_error_is_told_and_holds_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        keeping = asyncio.run(asyncio.wait_for(put_two_of_which_one_fails(), 240))
    assert keeping.durable == 2
    (record,) = caplog.records
    assert record.getMessage() == "An answer was lost on its way into the response store: no such table"
    assert record.exc_info
