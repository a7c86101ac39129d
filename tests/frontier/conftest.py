"""Runs the coroutine tests of this folder, each on every backend that it asks for."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frontier.backends import Backend, RedisBackend, SqliteBackend
from tests.redis_server import RedisServer, server_binaries


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine to its end, and clean the backends that it used."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        try:
            await asyncio.wait_for(pyfuncitem.obj(**arguments), 240)
        finally:
            for argument in arguments.values():
                if isinstance(argument, SqliteBackend | RedisBackend):
                    await argument.clean()

    asyncio.run(run())
    return True


def _running(name: str) -> Iterator[RedisServer]:
    if name not in server_binaries():
        pytest.skip(f"{name} is not installed")
    with RedisServer(name) as server:
        yield server


@pytest.fixture(scope="session")
def redis7() -> Iterator[RedisServer]:
    yield from _running("redis")


@pytest.fixture(scope="session")
def valkey8() -> Iterator[RedisServer]:
    yield from _running("valkey8")


@pytest.fixture(scope="session")
def valkey9() -> Iterator[RedisServer]:
    yield from _running("valkey9")


@pytest.fixture(params=["memory", "file", "redis7", "valkey8", "valkey9"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """One store, empty at first."""
    if request.param == "memory":
        return SqliteBackend(None)
    if request.param == "file":
        return SqliteBackend(tmp_path / "frontier.sqlite")
    return RedisBackend(request.getfixturevalue(request.param))


@pytest.fixture(params=["file", "redis7", "valkey8", "valkey9"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """One store that outlives the frontiers on it, empty at first."""
    if request.param == "file":
        return SqliteBackend(tmp_path / "frontier.sqlite")
    return RedisBackend(request.getfixturevalue(request.param))


@pytest.fixture
def on_redis(redis7: RedisServer) -> RedisBackend:
    """Redis 7, empty at first."""
    return RedisBackend(redis7)


@pytest.fixture
def on_file(tmp_path: Path) -> SqliteBackend:
    """A path at which there is no file yet."""
    return SqliteBackend(tmp_path / "frontier.sqlite")
