"""Whether a server can hold a crawl, by what it says of itself; pure."""

from __future__ import annotations

from typing import Any

from scrapy_durable.frontier.redis_messages import rows

OLDEST_VERSION = (7, 0)
LEAST_ENTRIES = 512
"""Of `set-max-intset-entries`, so that the sets of `lua/seen.lua` stay small; what it is where nobody has set it."""


def other_kind(info: Any) -> str:
    """What a server is, and what to do instead, when no crawl can be kept on it; "" for one that can.

    `info` is its answer to INFO.
    """
    if field(info, "redis_mode") == "sentinel":
        return (
            "is a Sentinel, which keeps no data: give REDIS_URL the address of the server that it calls the master "
            "(SENTINEL GET-MASTER-ADDR-BY-NAME)"
        )
    if field(info, "redis_mode") == "cluster":
        return (
            "is a node of a Redis Cluster, which spreads its keys over servers: give REDIS_URL a single server "
            "(cluster-enabled no)"
        )
    if field(info, "role") in ("slave", "replica"):
        master = f"{field(info, 'master_host')[:100]}:{field(info, 'master_port')[:5]}"
        return f"is a read-only replica: give REDIS_URL the server that it copies, {master!a}"
    version = tuple(int(part) for part in field(info, "redis_version").split(".")[:2] if part.isdigit())
    return "is older than Redis 7.0" if version < OLDEST_VERSION else ""


def field(reply: Any, name: str) -> str:
    """The value of one field in an answer to INFO or CONFIG GET, in either version of the protocol; "" if
    absent.
    """
    if isinstance(reply, dict):
        fields = reply
    elif isinstance(reply, bytes):
        fields = dict(line.split(b":", 1) for line in reply.splitlines() if b":" in line)
    else:
        fields = dict(rows(reply, 2))
    for key, value in fields.items():
        if (key.decode() if isinstance(key, bytes) else key) == name:
            return value.decode() if isinstance(value, bytes) else str(value)
    return ""
