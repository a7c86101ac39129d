"""A site that answers byte for byte as a test says, on a free port of this machine.

    catalogue = RawCatalogue(listings=40)
    catalogue.specs[catalogue.spec_path(3)] = http(gzip.compress(LARGE), "Content-Encoding: gzip")
    with RawSite(catalogue) as site:
        run_crawl(CARS_API_URL=site.url)

An answer that is an iterator is sent piece by piece, for as long as there are any, or until the client hangs up.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit

from tests.api.samples import listing
from tests.standin import PAGE_PATH, SPEC_PATH

Answer = bytes | Iterable[bytes]


class Last(bytes):
    """An answer after which the connection is closed."""


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer, with its length."""
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


NOT_FOUND = http(b"", status="404 Not Found")


class RawSite:
    """Listens while the `with` block runs; `answer` is given the target of each request, in several threads."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.targets: list[str] = []
        """What was asked for, in the order in which it came."""
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listener.settimeout(0.1)
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()

    @property
    def url(self) -> str:
        """What `CARS_API_URL` takes."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/fw/public"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._threads[0].join()
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                connection = self._listener.accept()[0]
                connection.settimeout(None)
                self._connections.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        received = b""
        with connection, contextlib.suppress(OSError):
            while True:
                while b"\r\n\r\n" not in received:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    received += piece
                head, _, received = received.partition(b"\r\n\r\n")
                target = head.split(b" ", 2)[1].decode("latin-1")
                self.targets.append(target)
                answer = self._answer(target)
                for piece in (answer,) if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
                if isinstance(answer, Last):
                    return


class RawCatalogue:
    """The API with listings of which each has a specification of its own, but for what is set otherwise."""

    def __init__(self, listings: int, *, shared: bool = False) -> None:
        """`shared`: all listings have the same specification."""
        self.listings: list[dict[str, Any]] = [
            listing(9_000_000 + number, code=f"code{0 if shared else number}=", year=2017)
            for number in range(listings)
        ]
        self.specs: dict[str, Answer] = {}
        """Path to answer, of specifications that are not as usual."""
        self.pages: dict[int, Callable[[bytes], Answer]] = {}
        """Offset to what is made of the page's body."""
        self.robots: Answer = NOT_FOUND

    @property
    def ids(self) -> list[str]:
        """Of all listings."""
        return [one["id"] for one in self.listings]

    def spec_path(self, number: int) -> str:
        """Where the specification of a listing is, by its position."""
        attributes = self.listings[number]["attributes"]
        return f"{SPEC_PATH}{quote(attributes['code'], safe='')}/{attributes['year']}"

    def __call__(self, target: str) -> Answer:
        """The answer to a request."""
        path, query = urlsplit(target)[2:4]
        if path == "/robots.txt":
            return self.robots
        if path.startswith(SPEC_PATH):
            return self.specs.get(path, http(USUAL_SPEC))
        if path == PAGE_PATH:
            wanted = parse_qs(query)
            return self._page(int(wanted["page[offset]"][0]), int(wanted["page[limit]"][0]))
        return NOT_FOUND

    def _page(self, offset: int, limit: int) -> Answer:
        links = {"self": f"http://h/v3/vehicle?page%5Boffset%5D={offset}"}
        if offset + limit < len(self.listings):
            links["next"] = f"http://h/v3/vehicle?page%5Boffset%5D={offset + limit}"
        meta = {"total": len(self.listings), "totalPages": len(self.listings) // limit, "currentPage": 0}
        page = {"meta": meta, "links": links, "data": self.listings[offset : offset + limit]}
        body = json.dumps(page).encode()
        return self.pages.get(offset, http)(body)


def spec(size: int, number: int = 0) -> bytes:
    """A specification of about that many bytes, which has the usual shape; another one for another number."""
    attribute = {"label": "Fuel consumption", "value": f"6.5{number or ''} l/100 km"}
    empty = len(json.dumps({"data": [[{"title": "Economy", "attrs": []}]]}))
    count = max(1, (size - empty) // (len(json.dumps(attribute)) + 2))
    return json.dumps({"data": [[{"title": "Economy", "attrs": [attribute] * count}]]}).encode()


USUAL_SPEC = spec(2000)
