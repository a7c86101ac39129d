"""Whether a server can hold a crawl, by what it says of itself; pure."""

from __future__ import annotations

from typing import Any

from scrapy_durable.frontier.redis_messages import BUCKETS, rows

OLDEST_VERSION = (7, 0)
USUAL_ENTRIES = 512
"""`set-max-intset-entries` where nobody has set it."""
_LEAST_RAISED = 2048
"""What is asked for when it has to be raised: enough for 134 million."""
_ALMOST = 0.8
"""Share of the room in the seen set from which on it is warned of: sets differ in how full they are."""


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


def seen_outgrown(members: int, encoding: bytes | None, most: int | None) -> tuple[int, int, int] | None:
    """How many the seen set holds, how many it can in few bytes each, and the `set-max-intset-entries` to set;
    None when there is room enough.

    From one of its sets, since all fill alike: how many members it has, its encoding, and
    `set-max-intset-entries`, None where the server does not tell.
    """
    is_sorted = encoding in (b"intset", None)
    if most is None and is_sorted and members > USUAL_ENTRIES:
        return None  # somebody has raised it, nobody knows how far
    most = USUAL_ENTRIES if most is None else most
    if is_sorted and members < _ALMOST * most:
        return None
    entries = _LEAST_RAISED
    while entries < 2 * max(members, most):
        entries *= 2
    return members * BUCKETS, most * BUCKETS, entries


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
