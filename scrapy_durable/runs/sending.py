"""The process that sends one message: reads it from standard input, and says on standard output who has taken it.

    {"addresses": [URL, …], "title", "body"}  ──►  [[1, 0, …], [1, 0, …]]      whether each is an address; has taken it

All addresses are sent to at once, so that one that hangs takes no other's time.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_AT_ONCE = 16


def main() -> None:
    """Never says anything else, nor anything of an address."""
    import apprise

    asked = json.load(sys.stdin)
    out = os.dup(1)
    os.dup2(2, 1)  # a plug-in that prints, prints elsewhere

    def sent(address: str) -> tuple[int, int]:
        service: Any = apprise.Apprise()
        if not service.add(address):
            return 0, 0
        text = apprise.NotifyFormat.TEXT
        return 1, int(bool(service.notify(asked["body"], asked["title"], body_format=text)))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(sent, asked["addresses"]))
    os.write(out, json.dumps([[known for known, _ in results], [took for _, took in results]]).encode())


if __name__ == "__main__":
    main()
