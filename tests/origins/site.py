"""A site of a few pages whose robots.txt a test decides."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

Answer = tuple[int, str]
"""Status and body."""


class Site:
    """Serves at a free port of `address` while the `with` block lasts.

    `robots` are the answers to requests for its robots.txt, of which the last is given again and again.
    """

    def __init__(self, address: str, *robots: Answer) -> None:
        self.robots = list(robots) or [(404, "")]
        self.targets: list[str] = []
        """What was asked for, in order."""
        self._server = ThreadingHTTPServer((address, 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://{address}:{self._server.server_port}"

    def answer(self, target: str) -> Answer:
        """What a request for `target` is answered."""
        self.targets.append(target)
        if target != "/robots.txt":
            return 200, "a page"
        return self.robots.pop(0) if len(self.robots) > 1 else self.robots[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = site.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *told: object) -> None:
            """Quiet."""

    return Handler
