"""Free ports of this machine, for servers that are told where to listen, and waiting until they do."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import Any

STARTUP_SECONDS = 20.0
"""How long a server may take to start, on a busy machine."""


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens now; somebody else may take it before its server does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
