"""The SQLSTATE of a PostgreSQL server's answer to somebody whom it does not let in.

libpq keeps the text of that answer only, in whatever language the server speaks; but what it traces of the exchange has
the state. (Before version 18 its trace begins after the connection has been made.)
"""

from __future__ import annotations

import os
import re
import select
import time
from typing import Any

from psycopg import pq
from psycopg.conninfo import make_conninfo

_STATE = re.compile(r'^B\t\d+\tErrorResponse\t S "[^"]*"(?: V "[^"]*")? C "([0-9A-Z]{5})"', re.MULTILINE)
_WAITS: dict[int, int] = {pq.PollingStatus.READING: select.POLLIN, pq.PollingStatus.WRITING: select.POLLOUT}
_MOST = 1 << 20
"""Bytes of a trace that are read."""


def is_answer(message: str) -> bool:
    """Whether what libpq says holds a server's answer: whatever the language, two blanks follow its severity."""
    return ":  " in message


def answered_state(parameters: dict[str, Any], seconds: float) -> str | None:
    """Ask once more to be let in, and return the state of the answer. None: there was none within that time, libpq
    traces none, or the server lets one in by now. Blocks.

    The trace may hold a password and is in memory only.
    """
    trace = os.memfd_create("trace")
    try:
        _connect(parameters, trace, time.monotonic() + seconds)
        states = _STATE.findall(os.pread(trace, _MOST, 0).decode(errors="replace"))
        return states[-1] if states else None
    finally:
        os.close(trace)


def _connect(parameters: dict[str, Any], trace: int, deadline: float) -> None:
    connection = pq.PGconn.connect_start(make_conninfo(**parameters).encode())
    try:
        connection.trace(trace)
        connection.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
        while connection.status != pq.ConnStatus.BAD:
            if (event := _WAITS.get(connection.connect_poll())) is None:
                break
            waiting = select.poll()
            waiting.register(connection.socket, event)
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
        connection.untrace()
    finally:
        connection.finish()
