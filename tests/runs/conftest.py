"""A project, and somebody who is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.receiver import Receiver
from tests.runs.titles import make_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Any project with the add-on."""
    return make_project(tmp_path)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """On a port of this machine."""
    with Receiver() as receiver:
        yield receiver
