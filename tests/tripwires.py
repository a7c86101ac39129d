"""Listeners that nothing may ever reach."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Tripwire:
    """Listens on a free port of an address for as long as the `with` block lasts; `touched` counts connections."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
        )
        host = f"[{address}]" if ":" in address else address
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{host}:{self.port}/"
        self.touched = 0
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.touched += 1
            connection.close()

    def __enter__(self) -> Tripwire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)
