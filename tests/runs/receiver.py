"""Somebody who is told: a small HTTP server in this process, to which Apprise posts JSON."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Receiver:
    """What came to `address`, oldest first; with `answers` cleared nothing is answered until it is set, or the end."""

    def __init__(self) -> None:
        received: list[dict[str, Any]] = []
        answers = threading.Event()
        answers.set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answers.wait()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.received = received
        self.answers = answers
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"json://127.0.0.1:{self._server.server_port}/token-0123456789"

    @property
    def texts(self) -> list[str]:
        """Title and body of each message."""
        return [f"{one['title']}\n{one['message']}" for one in self.received]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()
