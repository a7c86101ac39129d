"""A TCP proxy that can cut connections, swallow answers, go silent and be slow, at the word of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from types import TracebackType

_PIECE = 1 << 20
"""Bytes of an answer that are one piece at most: a server far away is late with each, not slow."""
_BEGINNING = 200
"""Bytes that are kept of what was asked."""


class TcpProxy:
    """Stands between a client and a server on 127.0.0.1, within the test's event loop; use with `async with`.

    The faults are attributes that may be changed at any time. They hold for connections that are open, too.
    """

    def __init__(self, server_port: int) -> None:
        self.port = 0
        self.delay = 0.0
        """Seconds by which each piece of an answer is late."""
        self.black_hole = False
        """True: nothing goes through, in either direction, and nothing is closed."""
        self.answer_bytes_left: int | None = None
        """So many bytes of answers go through; then the connection that the next one is for is cut. None: no
        limit.
        """
        self.answer_bytes = 0
        """Bytes of answers that went through."""
        self.round_trips: list[bytes] = []
        """The beginning of what was asked each time that a client had been answered before, in the order of asking."""
        self.cuts = 0
        """Connections that were cut in the middle of an answer."""
        self._server_port = server_port
        self._unanswered = b""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def drop_next_answer(self, after: int = 0) -> None:
        """Cut the connection after `after` bytes of the next answer; what was asked has been done by then."""
        self.answer_bytes_left = after

    def drop_answer_to(self, question: bytes) -> None:
        """Cut the next connection on which these bytes are asked, at the first piece of the answer to them: what was
        asked has been done by then. Other connections go on, whichever is answered first.
        """
        self._unanswered = question

    def heal(self) -> None:
        """Take all faults back."""
        self.delay, self.black_hole, self.answer_bytes_left = 0.0, False, None
        self._unanswered = b""

    def cut(self) -> None:
        """Close every connection that is open now."""
        for writer in self._writers:
            writer.close()

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        await end(self._tasks, self._writers)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        this = asyncio.current_task()
        assert this is not None
        self._tasks.add(this)
        this.add_done_callback(self._tasks.discard)
        try:
            server_reader, server_writer = await asyncio.open_connection(
                "127.0.0.1", self._server_port, limit=_PIECE
            )
        except OSError:
            writer.close()
            return
        self._writers.add(server_writer)
        doomed, answered = asyncio.Event(), asyncio.Event()
        answered.set()
        for pump in (
            self._ask(reader, server_writer, doomed, answered),
            self._answer(server_reader, writer, doomed, answered),
        ):
            task = asyncio.create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        doomed: asyncio.Event,
        answered: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if answered.is_set():
                    answered.clear()
                    self.round_trips.append(data[:_BEGINNING])
                await self._pass_black_hole()
                if self._unanswered and self._unanswered in data:
                    self._unanswered = b""
                    doomed.set()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        doomed: asyncio.Event,
        answered: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                answered.set()
                await self._pass_black_hole()
                if self.delay:
                    await asyncio.sleep(self.delay)
                if doomed.is_set():
                    self.cuts += 1
                    break
                if self.answer_bytes_left is not None:
                    data = data[: self.answer_bytes_left]
                    self.answer_bytes_left -= len(data)
                writer.write(data)
                self.answer_bytes += len(data)
                if self.answer_bytes_left == 0:
                    self.answer_bytes_left = None
                    self.cuts += 1
                    break
                await writer.drain()
        writer.close()

    async def _pass_black_hole(self) -> None:
        while self.black_hole:
            await asyncio.sleep(0.01)


async def end(tasks: Collection[asyncio.Task[None]], writers: Collection[asyncio.StreamWriter]) -> None:
    """Cancel the tasks, and close the connections without sending what still waits to be sent."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for writer in writers:
        with contextlib.suppress(AttributeError):  # of Python 3.11.2, when a TLS connection is closed already
            writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
