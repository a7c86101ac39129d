"""What tests of every part share: the stand-in API, started on demand and stopped afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings

from tests.standin import StandIn

# How long one example takes says nothing about the code: the machine may stop a process at any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandIn]]:
    """Starts a stand-in with the arguments of `StandIn`; all of them are stopped when the test ends."""
    with ExitStack() as running:

        def start(listings: int = 100, **options: Any) -> StandIn:
            return running.enter_context(StandIn(listings, **options))

        yield start


LONG = ("throttle", "databases", "crash", "shapes", "hostile")
"""Folders whose files take longest, since they wait for clocks and servers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those go first, so that no worker is left alone with them at the end."""
    items.sort(key=lambda item: item.path.parent.name not in LONG)
