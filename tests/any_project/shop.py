"""The site of `examples/shop` in a process of its own, which also says when a crawl stands still.

with Shop() as shop:
    shop.gate(40)          # forty answers from now on, and no more
    ...                    # start a crawl
    shop.wait_until_held() # the forty are given, and more was asked for
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self
from urllib.request import Request, urlopen

from tests.crawling import HANGS
from tests.standin import ROOT

EXAMPLE = ROOT / "examples" / "shop"
_CALL_SECONDS = 60.0
"""For one answer of the site's own, which is there at once unless the machine stands still."""

Asked = tuple[int, str, str, str]
"""The number of the host, the method, the raw target, the body: the same for each crawl, whatever the ports are."""


class Shop:
    """Runs while the `with` block does. `urls` are its three hosts' addresses."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shop.site", "--port", "0"],
            cwd=EXAMPLE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.urls = [self._process.stdout.readline().strip() for _ in range(3)]
        if not all(self.urls):
            raise RuntimeError(f"the shop ended with {self._process.wait(5)} before it told its addresses")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def categories(self) -> list[str]:
        """The addresses of the categories' first pages."""
        with urlopen(self.urls[0], timeout=_CALL_SECONDS) as index:
            found = re.findall(r'href="([^"]+)"', index.read().decode())
        self.reset()
        return found

    def reset(self) -> None:
        """Forget what was asked and what has failed, and open the gate."""
        self._control("POST", "reset")

    def gate(self, answers: int | None) -> None:
        """Answer so many more requests and hold the others back; None opens the gate."""
        self._control("PUT", "gate", {"answers": answers})

    def counts(self) -> dict[str, Any]:
        """`answered`, `held`, `gone`, and the answers that are `left`."""
        counts: dict[str, Any] = self._control("GET", "counts")
        return counts

    def journal(self) -> list[dict[str, Any]]:
        """Every request, as in `shop.site.journal.Entry`; those for robots.txt aside."""
        entries: list[dict[str, Any]] = self._control("GET", "journal")
        return entries

    def wait_until_held(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Return True once the gate is shut and somebody waits before it; False when `stop` says to give up."""
        deadline = time.monotonic() + HANGS
        while True:
            counts = self.counts()
            if counts["left"] == 0 and counts["held"]:
                return True
            if stop():
                return False
            if time.monotonic() > deadline:
                raise AssertionError(f"nobody waits before the gate after {HANGS:g} s: {counts}")
            time.sleep(0.05)

    def answered(self) -> Counter[Asked]:
        """How often each thing was answered. What was asked for and held back until its client was killed, is not."""
        return Counter(
            (entry["host"], entry["method"], entry["target"], entry["body"])
            for entry in self.journal()
            if entry["status"] is not None
        )

    def answered_for_good(self) -> int:
        """Answers so far, 503 aside; -1 while one is being given."""
        given = [entry["status"] for entry in self.journal() if entry["status"] is not None]
        return -1 if 0 in given else len(given) - given.count(503)

    def waiting(self, agent: str) -> int:
        """Requests of a process that wait before the gate now."""
        return sum(
            entry["status"] is None and not entry["gone"] and entry["agent"] == agent
            for entry in self.journal()
        )

    def _control(self, method: str, name: str, document: object = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        request = Request(f"{self.urls[0]}/_site/{name}", data=body, method=method)
        with urlopen(request, timeout=_CALL_SECONDS) as answer:
            return json.load(answer)
