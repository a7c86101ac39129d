"""What tests with killed runs have in common."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.feeds.runs import Runs

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Python complains of files that a process which is gone would not have closed."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True)
def killed_runs_are_cleared_away() -> Iterator[None]:
    yield
    for run in Runs.begun:
        run.put_away()
    Runs.begun.clear()
    gc.collect()
