"""Calls that are made again for as long as a server does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from carscraper.exceptions import StoreUnavailable
from scrapy_durable.exceptions import FrontierUnavailable

SECONDS = 60.0

T = TypeVar("T")


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """What it gives; after a minute, what it raises."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return await call()
        except (FrontierUnavailable, StoreUnavailable):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
