"""The stand-in API in a process of its own, for tests that crawl.

    with StandIn(listings=300, latency=0.01) as site:
        run_crawl(CARS_API_URL=site.url)
        assert len(site.specs()) == len(site.keys())

or, by the fixture `stand_in` of `conftest.py`, which stops whatever it started:

    def test_...(stand_in):
        site = stand_in(listings=300, rules=[{"match": "/specs/", "fault": "status", "times": 3}])

It listens on a free port of 127.0.0.1. Rules and changes are described in `carscraper/demo/faults.py` and
`carscraper/demo/churn.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tests.fork_server import ROOT, start

PAGE_PATH = "/fw/public/v3/vehicle"
SPEC_PATH = "/fw/public/v2/specs/"


class StandIn:
    """A running stand-in; `url` is what `CARS_API_URL` takes, `pid` the process.

    `rules` and `churn` are the script of faults and changes that it starts with.
    """

    def __init__(
        self,
        listings: int = 100,
        *,
        seed: int = 1,
        latency: float = 0.0,
        rules: list[dict[str, Any]] | None = None,
        churn: list[dict[str, Any]] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "carscraper.demo", "--port=0", f"--latency={latency}"]
        self._process = start(
            [*command, f"--listings={listings}", f"--seed={seed}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the stand-in ended with {self._process.wait(5)} before it told its address")
        if rules or churn:
            self.faults(rules or [], churn=churn)

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def journal(self) -> list[dict[str, Any]]:
        """Every request since the start or the last reset; see `carscraper.demo.journal.Entry`."""
        entries: list[dict[str, Any]] = self._control("GET", "journal")
        return entries

    def reset_journal(self) -> None:
        """Forget the requests so far."""
        self._control("POST", "journal/reset")

    def counts(self) -> dict[str, int]:
        """Requests by kind: `requests`, `pages`, `specs`, `robots`, `under_way`."""
        counts: dict[str, int] = self._control("GET", "counts")
        return counts

    def pages(self) -> list[str]:
        """The raw targets of the search pages asked for, in order."""
        return [entry["target"] for entry in self.journal() if entry["target"].startswith(PAGE_PATH)]

    def specs(self) -> list[str]:
        """The raw targets of the specifications asked for, in order."""
        return [entry["target"] for entry in self.journal() if entry["target"].startswith(SPEC_PATH)]

    def ids(self) -> list[str]:
        """The ids of the listings that are alive now, newest first."""
        ids: list[str] = self._control("GET", "catalogue")["ids"]
        return ids

    def keys(self) -> list[tuple[str, int]]:
        """The different (code, year) of the listings that are alive now."""
        return [(code, year) for code, year in self._control("GET", "catalogue")["keys"]]

    def faults(
        self, rules: list[dict[str, Any]], *, churn: list[dict[str, Any]] | None = None, seed: int = 1
    ) -> None:
        """Replace the script of faults and of changes to come; `faults([])` ends all of them."""
        self._control("PUT", "faults", {"rules": rules, "churn": churn or [], "seed": seed})

    def churn(self, **change: Any) -> dict[str, Any]:
        """Change the catalogue at once: `churn(add=3, remove=["9966395"], price={"9966402": 189900})`.

        Returns the ids `added` and `removed`, and the new `total`.
        """
        done: dict[str, Any] = self._control("POST", "churn", change)
        return done

    def stop(self) -> int:
        """End it, if it still runs; returns its exit status."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(10)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _control(self, method: str, name: str, document: object = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        request = Request(f"http://127.0.0.1:{self.port}/_demo/{name}", data=body, method=method)
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)
