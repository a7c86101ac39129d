"""`scrapy` in a process that may connect to nothing but `ALLOWED` (host:port, or nothing at all): any other look-up or
connection ends it with status 97. It needs an event loop in Python: `-s ASYNCIO_EVENT_LOOP=asyncio.SelectorEventLoop`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

DENIED = 97
_ADDRESS_AT = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.getaddrinfo": slice(0, 2),
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}


def deny(event: str, arguments: tuple[Any, ...]) -> None:
    """End the process when it reaches for another host."""
    if event not in _ADDRESS_AT:
        return
    address = arguments[_ADDRESS_AT[event]]  # type: ignore[index]
    host_and_port = address[:2] if isinstance(address, tuple) else (address,)
    if ":".join(map(str, host_and_port)) != os.environ.get("ALLOWED"):
        os.write(2, f"denied: {event} {address}\n".encode())
        os._exit(DENIED)


if __name__ == "__main__":
    sys.addaudithook(deny)
    import scrapy.cmdline

    sys.exit(scrapy.cmdline.execute())
