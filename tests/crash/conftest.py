"""What the crash tests share: both kinds of store, the shared one on a server that all tests of a process use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.stores import JobDir, SharedRedis, Store
from tests.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def shared(redis_server: RedisServer) -> SharedRedis:
    """A Redis, empty at first."""
    return SharedRedis(redis_server)


@pytest.fixture(params=["jobdir", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Either kind, empty at first."""
    if request.param == "jobdir":
        return JobDir(tmp_path / "job")
    return request.getfixturevalue("shared")
