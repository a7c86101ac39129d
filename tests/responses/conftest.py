"""The two backends of the response store, each on the real thing, behind one handle."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import tempfile
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import redis
import redis.asyncio

from scrapy_durable.responses.redis import RedisResponseStore
from scrapy_durable.responses.sqlite import SqliteResponseStore

DAY = 86400.0


class Clock:
    """A clock that stands still until it is told to move."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


class SqliteBackend:
    def __init__(self, path):
        self.path = path
        self.clock = Clock()

    @asynccontextmanager
    async def store(self):
        store = SqliteResponseStore(self.path, clock=self.clock)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    def spoil(self, key, change):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            (body,) = connection.execute("SELECT body FROM response WHERE key = ?", (key,)).fetchone()
            connection.execute("UPDATE response SET body = ? WHERE key = ?", (change(body), key))


class RedisBackend:
    def __init__(self, socket):
        self.socket = socket
        self.clock = Clock()

    @asynccontextmanager
    async def store(self):
        async with redis.asyncio.Redis(unix_socket_path=str(self.socket)) as client:
            store = RedisResponseStore(
                client, "{cars}", ttl=37 * DAY, crawl_ttl=7 * DAY, timeout=30.0, clock=self.clock
            )
            await store.open()
            yield store
            await store.close()

    def spoil(self, key, change):
        with redis.Redis(unix_socket_path=str(self.socket)) as client:
            name = f"{{cars}}:response:{key}"
            client.set(name, change(client.get(name)), keepttl=True)


class RedisServer:
    """A redis-server of this test alone, on a socket of the file system, so that no port can be taken."""

    def __init__(self, *options):
        self._directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self._options = options
        self.socket = self._directory / "socket"
        self.start()

    def start(self):
        command = [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--dir",
            str(self._directory),
        ]
        self.process = subprocess.Popen(
            [*command, "--save", "", *self._options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        with redis.Redis(unix_socket_path=str(self.socket)) as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError:
                    assert time.monotonic() < deadline, "redis-server did not start"
                    time.sleep(0.01)
                else:
                    return

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def close(self):
        self.kill()
        shutil.rmtree(self._directory)


@pytest.fixture(scope="session")
def shared_redis():
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture
def redis_server():
    servers = []

    def start(*options):
        servers.append(RedisServer(*options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(params=["sqlite", "shared_redis"], ids=["sqlite", "redis"])
def backend(request, tmp_path):
    if request.param == "sqlite":
        return SqliteBackend(tmp_path / "responses.sqlite")
    server = request.getfixturevalue(request.param)
    with redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.flushall()
    return RedisBackend(server.socket)


@pytest.fixture
def play(backend):
    """Runs a scenario, a coroutine function that takes an open store."""

    def run(scenario):
        async def whole():
            async with backend.store() as store:
                return await scenario(store)

        return asyncio.run(asyncio.wait_for(whole(), 240))

    return run
