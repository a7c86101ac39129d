"""What a user says about the client in `REDIS_PARAMS` holds, whichever release of redis-py is installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_durable.connection import redis_client
from tests.redis_server import RedisServer
from tests.tcp_proxy import TcpProxy


async def said(server: RedisServer, params: dict[str, Any]) -> bytes:
    """All that a client with these parameters sends for a `PING`."""
    async with TcpProxy(server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        client = redis_client(Settings({"REDIS_URL": url, "REDIS_PARAMS": params}))
        assert client is not None
        async with client:
            await client.ping()
        return b"".join(proxy.round_trips)


@pytest.mark.filterwarnings("ignore:.*lib_name:DeprecationWarning")
def test_the_library_is_named_as_the_user_names_it_and_else_not_at_all() -> None:
    with RedisServer() as server:
        assert b"LIB-NAME\r\n$4\r\nmine" in asyncio.run(said(server, {"lib_name": "mine"}))
        assert b"LIB-NAME" not in asyncio.run(said(server, {}))
