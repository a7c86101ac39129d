"""`python -m shop.site`: serve the shop until it is interrupted; prints an address for each of its hosts.

Whoever tests a crawl finds these beside the pages, on each host:

    GET  /_site/journal  every request so far, as in `journal.Entry`
    GET  /_site/counts   {"answered", "held", "gone", "left"}
    PUT  /_site/gate     {"answers": N}: answer N more requests and hold the others back; null opens the gate
    POST /_site/reset    forget everything, and open the gate
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shop.site.journal import ClientGone, Entry, Journal
from shop.site.pages import Answer, Pages


class Server(ThreadingHTTPServer):
    """One of the site's hosts."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, number: int, journal: Journal) -> None:
        self.number = number
        self.journal = journal
        super().__init__((host, port), Handler)
        self.address = f"http://{host}:{self.server_port}"
        self.pages = Pages([])  # until the addresses of all hosts are known

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may go away at any time."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together

    def do_GET(self) -> None:
        """Answer a request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/_site/"):
            self._send(Answer(body=json.dumps(self._control(body)), content_type="application/json"))
            return
        answer = self.server.pages.answer
        if self.path == "/robots.txt":
            self._send(answer("GET", self.path, b""))
            return
        agent = self.headers.get("User-Agent", "")
        entry = Entry(self.server.number, self.command, self.path, body.decode(), agent)
        self.server.journal.begin(entry)
        try:
            self.server.journal.wait(entry, self._client_is_gone)
        except ClientGone:
            self.close_connection = True
            return
        found = answer(self.command, self.path, body)
        entry.status = found.status
        self._send(found)

    do_POST = do_PUT = do_GET  # noqa: N815 (the names that http.server calls)

    def _control(self, body: bytes) -> Any:
        journal = self.server.journal
        match self.command, self.path.removeprefix("/_site/"):
            case "GET", "journal":
                return [asdict(entry) for entry in journal.entries]
            case "GET", "counts":
                return journal.counts()
            case "PUT", "gate":
                journal.let_pass(json.loads(body)["answers"])
            case "POST", "reset":
                self.server.pages.reset()
                journal.reset()
        return {}

    def _client_is_gone(self) -> bool:
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _send(self, answer: Answer) -> None:
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(body)),
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep silent: the journal has it."""


def main() -> None:
    """Serve until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m shop.site", description="A small shop on three hosts.")
    parser.add_argument(
        "--port", type=int, default=8000, help="on each host; 0: any free one (default: 8000)"
    )
    parser.add_argument("--hosts", default="127.0.0.1,127.0.0.2,127.0.0.3", help="default: %(default)s")
    options = parser.parse_args()
    journal = Journal()
    servers = [
        Server(host, options.port, number, journal) for number, host in enumerate(options.hosts.split(","))
    ]
    pages = Pages([server.address for server in servers])
    for server in servers:
        server.pages = pages
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.address, flush=True)  # noqa: T201 (what it is for)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
