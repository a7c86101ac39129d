"""A server in a process of its own, on a free port of this machine."""

from __future__ import annotations

import socket
import subprocess
import time
import weakref
from types import TracebackType
from typing import Any, Self

STARTUP_SECONDS = 60.0
"""How long a server may take to start, on a busy machine."""


def hold_port() -> socket.socket:
    """A socket that has a port of 127.0.0.1 for itself until it is closed, and does not listen.

    Nobody else is given that port, and whoever connects to it is refused; but a server that is told it may listen
    there, since servers set SO_REUSEADDR as well.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def wait_until_listening(port: int, server: subprocess.Popen[Any], seconds: float = STARTUP_SECONDS) -> None:
    """Return when something listens on a port of 127.0.0.1.

    Raises RuntimeError when the server has ended or has had its time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if server.poll() is not None:
                raise RuntimeError(f"the server ended with {server.returncode}") from None
            if time.monotonic() > deadline:
                raise RuntimeError(f"nobody listens on {port} after {seconds:g} s") from None
            time.sleep(0.01)
        else:
            return


class ServerProcess:
    """Runs while the `with` block does; can be killed, and started again on the same port, which stays its own.

    What it is made of says how it is started: `start` sets `_process`.
    """

    def __init__(self) -> None:
        holder = hold_port()
        weakref.finalize(self, holder.close)
        self.port: int = holder.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Raises RuntimeError while it does not run."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it does its work."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def close(self) -> None:
        """End it, and remove what it has left."""
        self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
