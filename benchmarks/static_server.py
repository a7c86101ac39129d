"""A static copy of the stand-in's catalogue, served from memory, so that the server is never the bottleneck.

Every answer, head included, is made before the address is printed; a request costs one look-up and one write.
`GET /_bench/counts` tells what was served since the last `/_bench/reset`, and the CPU time that it took.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import signal
from collections import Counter
from typing import cast
from urllib.parse import quote

import orjson
import uvloop

from carscraper.demo.catalogue import Catalogue

PAGE = re.compile(rb"/fw/public/v3/vehicle\?.*?page(?:\[|%5B)offset(?:\]|%5D)=(\d+)")
QUERY = (("include_featured", "true"), ("sort[date]", "desc"))


class StaticCopy:
    """The answers by raw request target (pages by their offset alone), and counts of what was served."""

    def __init__(self) -> None:
        self.answers: dict[bytes, tuple[str, bytes]] = {
            b"/robots.txt": ("robots", whole(200, b"User-agent: *\nAllow: /\n", "text/plain"))
        }
        self.served: Counter[str] = Counter()
        self._cpu_before = 0.0

    def fill(self, catalogue: Catalogue, page_size: int, base_url: str) -> None:
        """Make the answer to every page of `page_size` listings and to every specification."""
        for offset in range(0, max(1, catalogue.total), page_size):
            document = catalogue.page(offset, page_size, base_url, QUERY)
            self.answers[b"%d" % offset] = ("pages", whole(200, orjson.dumps(document)))
        for code, year in catalogue.keys:
            document_or_none = catalogue.spec(code, year)
            found = document_or_none is not None
            body = orjson.dumps(document_or_none if found else {"errors": [{"detail": "not found"}]})
            target = f"/fw/public/v2/specs/{quote(code, safe='')}/{year}".encode()
            self.answers[target] = ("specs", whole(200 if found else 404, body))

    def answer(self, target: bytes) -> bytes:
        """The whole answer to a request of `target`, counted."""
        found = self.answers.get(target)
        if found is None:
            page = PAGE.match(target)
            found = self.answers.get(page[1]) if page else None
        if found is None:
            if target.startswith(b"/_bench/"):
                return self._control(target)
            found = ("missing", whole(404, b"{}"))
        self.served[found[0]] += 1
        return found[1]

    def _control(self, target: bytes) -> bytes:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu = usage.ru_utime + usage.ru_stime
        if target == b"/_bench/reset":
            self.served.clear()
            self._cpu_before = cpu
        kinds = {kind: self.served[kind] for kind in ("pages", "specs", "robots", "missing")}
        return whole(200, orjson.dumps(kinds | {"cpu_s": cpu - self._cpu_before}))


class Connection(asyncio.Protocol):
    """HTTP/1.1 as far as GET needs it: kept alive, pipelined or not, the request's headers skipped."""

    def __init__(self, copy: StaticCopy) -> None:
        self._copy = copy
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that `data` completes."""
        *requests, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for request in requests:
            self._transport.write(self._copy.answer(request[4 : request.index(b" ", 4)]))


def whole(status: int, body: bytes, content_type: str = "application/json") -> bytes:
    """Head and body of an answer, as they go over the wire."""
    reason = {200: "OK", 404: "Not Found"}[status]
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def serve(catalogue: Catalogue, page_size: int) -> None:
    """Print the address once every answer is made; serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stop.set)
    copy = StaticCopy()
    listener = await loop.create_server(lambda: Connection(copy), "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/fw/public"
    copy.fill(catalogue, page_size, base_url)
    print(base_url, flush=True)
    await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=71_290)
    parser.add_argument("--page-size", type=int, default=100)
    options = parser.parse_args()
    uvloop.run(serve(Catalogue(options.listings), options.page_size))
