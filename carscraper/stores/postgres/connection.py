"""One connection to a PostgreSQL, on which one step runs at a time, within a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import orjson
import psycopg
from psycopg import AsyncConnection
from psycopg.types.json import set_json_loads

from carscraper.exceptions import StoreError, StoreUnavailable
from carscraper.stores.postgres.answer import answered_state, is_answer
from carscraper.stores.postgres.faults import ERRORS, Fault, connection_fault, fault_of, told
from carscraper.stores.readings import one_line

_T = TypeVar("_T")
Open: TypeAlias = AsyncConnection[tuple[Any, ...]]
"""What a step is given."""

_SECOND_LOOK = 5.0
"""Seconds for the SQLSTATE of an answer that let nobody in."""
_NAMED, _UNNAMED = re.compile(r"\b(user|role) \"[^\"]*\""), r"the \1"


class Connection:
    """A step that takes longer than `timeout` seconds, or whose caller is cancelled, is ended by closing the
    connection; `open` makes another.
    """

    def __init__(self, parameters: dict[str, Any], target: str, timeout: float) -> None:
        self.target = target
        self.timeout = timeout
        self._parameters = parameters
        self._open: Open | None = None
        self._lock = asyncio.Lock()
        self._answer: tuple[str, str | None] = "", None
        """What the server said last when it let nobody in, and its SQLSTATE."""

    async def open(self) -> None:
        """Connect anew. Raises `StoreUnavailable` or `StoreRefused`."""
        await self.close()
        try:
            self._open = await AsyncConnection.connect(**self._parameters, autocommit=True)
        except psycopg.Error as error:
            raise await self._no_connection(error) from error
        set_json_loads(orjson.loads, self._open)

    async def close(self) -> None:
        """Never raises."""
        if self._open is not None:
            connection, self._open = self._open, None
            with contextlib.suppress(psycopg.Error):
                await connection.close()

    async def step(self, work: Callable[[Open], Coroutine[Any, Any, _T]]) -> _T:
        """The result of work on the connection, within the time that a step may take.

        Raises `psycopg.Error` when the fault is that of a record; the connection goes on. All other errors are
        this project's, and end it.
        """
        async with self._lock:
            connection = self._open
            if connection is None:
                raise StoreUnavailable(f"{self.target}: not connected")
            task = asyncio.ensure_future(work(connection))
            timer = asyncio.get_running_loop().call_later(self.timeout, _cut, connection)
            try:
                return await asyncio.shield(task)
            except psycopg.Error as error:
                fault = fault_of(error)
                if fault is Fault.RECORD:
                    raise
                late = timer.when() <= asyncio.get_running_loop().time()
                await self.close()
                reason = f"no answer within {self.timeout:g} s" if late else told(error)
                raise ERRORS[fault](f"{self.target}: {reason}") from error
            except asyncio.CancelledError:
                _cut(connection)
                await asyncio.wait([task])
                await self.close()
                raise
            finally:
                timer.cancel()

    async def _no_connection(self, error: psycopg.Error) -> StoreError:
        message = str(error)
        if isinstance(error, psycopg.ProgrammingError):
            fault = Fault.SET_UP
        else:
            fault = connection_fault(message, await self._state_of(message))
        reason = one_line(message.partition("\n")[0].rpartition("failed: ")[2]).removeprefix("FATAL: ")
        reason = _NAMED.sub(_UNNAMED, reason)
        if (user := self._parameters.get("user")) and user != self._parameters.get("dbname"):
            reason = reason.replace(f"»{user}«", "…").replace(f"« {user} »", "…").replace(f"«{user}»", "…")
        return ERRORS[fault](f"{self.target}: {reason}")

    async def _state_of(self, message: str) -> str | None:
        """The SQLSTATE of the server's answer; None when it has not answered, or it cannot be had."""
        if not is_answer(message):
            return None
        if message != self._answer[0] or self._answer[1] is None:
            self._answer = message, await asyncio.to_thread(answered_state, self._parameters, _SECOND_LOOK)
        return self._answer[1]


def _cut(connection: Open) -> None:
    """End a connection from below: what waits for an answer on it fails at once, even when nothing comes."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)
