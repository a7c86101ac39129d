"""Crawls in processes of their own, by the real command line, looked at from outside.

    with crawl(site.url, tmp_path / "out", jobdir=tmp_path / "job", settings={"DURABLE_LEASE_SECONDS": 2}) as run:
        assert run.wait(30) == 0, run.log
        assert sorted(run.cars()) == sorted(site.ids())

Full speed unless `settings` say otherwise: no throttling, 32 requests at once, and no second's wait for the last batch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fork_server import start
from tests.standin import ROOT

FULL_SPEED = {
    "AUTOTHROTTLE_ENABLED": 0,
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    "CARS_BATCH_SECONDS": 0.1,
}
HANGS = 240.0
"""Seconds that are waited at least before a crawl, or a condition, counts as one that hangs: a busy machine may let it
stand still for a while.
"""
AS_INSTALLED = str(ROOT / "tests" / "as_installed")
"""For `PYTHONPATH`: hides pydantic, which one test needs and no user has; Scrapy loads it, a tenth of each start."""
_OURS = ("CARS_", "SCRAPY_", "REDIS_", "MONGO_", "POSTGRES_", "JOBDIR")


def _wait_for_next_second(output_dir: Path) -> None:
    """Until no crawl has begun or ended there in this second: what is said of a crawl gives times in whole seconds."""
    files = [output_dir / "crawls", output_dir / "run.json", *output_dir.glob("searches/*/run.json")]
    last = max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
    while int(last) == int(time.time()):
        time.sleep(0.02)


class Crawl:
    """A crawl that runs, killed when the `with` block is left; its output is in `output_dir`."""

    def __init__(self, command: Sequence[str], output_dir: Path, env: Mapping[str, str]) -> None:
        self.output_dir = output_dir
        _wait_for_next_second(output_dir)
        self._log = os.memfd_create(
            "log"
        )  # in memory, so that it can be read for as long as this object lives
        weakref.finalize(self, os.close, self._log)
        self.process = start(
            command, cwd=ROOT, env=dict(env), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        self.pid = self.process.pid

    @property
    def log(self) -> str:
        """Standard output and error so far."""
        return os.pread(self._log, os.fstat(self._log).st_size, 0).decode(errors="replace")

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self.process.send_signal(number)

    def kill(self) -> int:
        """End it as a power failure would; returns its exit status."""
        self.process.kill()
        return self.process.wait(10)

    def wait(self, timeout: float) -> int:
        """Wait for its end, and return its exit status. One that does not end is killed, and its log shown."""
        timeout = max(timeout, HANGS)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s:\n{self.log}") from None

    def __enter__(self) -> Crawl:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.running:
            self.kill()

    @property
    def place(self) -> Path:
        """Where its `cars.json` and `run.json` are: the directory that it has printed when it was a search."""
        found = re.findall(r"^this search is in (.+);", self.log, re.MULTILINE)
        return Path(found[-1]) if found else self.output_dir

    def cars(self) -> list[str]:
        """The ids that it has published, complete or not, in the order of the file."""
        return car_ids(self.place)

    def run_json(self) -> dict[str, Any]:
        """What `run.json` holds."""
        found: dict[str, Any] = json.loads((self.place / "run.json").read_bytes())
        return found


def crawl(
    api_url: str,
    output_dir: Path,
    *arguments: str,
    settings: Mapping[str, object] | None = None,
    jobdir: Path | None = None,
    redis_url: str | None = None,
    env: Mapping[str, str] | None = None,
    runner: Sequence[str] = (sys.executable, "-m", "scrapy"),
) -> Crawl:
    """Start `scrapy crawl cars`; `arguments` are added as they are, as in `"-a", "limit=20"`.

    Nothing of this project's settings is taken from the environment but what `env` names.
    """
    asked: dict[str, object] = {**FULL_SPEED, "CARS_API_URL": api_url, "CARS_OUTPUT_DIR": output_dir}
    if jobdir is not None:
        asked["JOBDIR"] = jobdir
    if redis_url is not None:
        asked["REDIS_URL"] = redis_url
    asked.update(settings or {})
    command = [*runner, "crawl", "cars", *arguments]
    for name, value in asked.items():
        command += ["-s", f"{name}={value}"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return Crawl(command, output_dir, {**inherited, **(env or {})})


def records(output_dir: Path) -> list[dict[str, Any]]:
    """The records that the last run has published: complete ones in `cars.json`, others beside it."""
    name = json.loads((output_dir / "run.json").read_bytes())["published"]
    found: list[dict[str, Any]] = json.loads((output_dir / name).read_bytes())
    return found


def car_ids(output_dir: Path) -> list[str]:
    """Their ids, in the order of the file."""
    return [record["id"] for record in records(output_dir)]


def torn_files(output_dir: Path) -> list[Path]:
    """The .json and .jsonl files under the output directory that do not parse; drafts (a dot first) aside."""
    torn = []
    for path in output_dir.rglob("*.json*"):
        if path.name.startswith("."):
            continue
        try:
            text = path.read_bytes()
            documents = text.splitlines() if path.suffix == ".jsonl" else [text]
            for document in documents:
                json.loads(document)
            if path.suffix == ".jsonl" and text and not text.endswith(b"\n"):
                torn.append(path)
        except FileNotFoundError:  # removed meanwhile, with its crawl
            continue
        except json.JSONDecodeError:
            torn.append(path)
    return torn


def wait_until(
    condition: Callable[[], object],
    timeout: float = 20.0,
    *,
    what: str = "the condition",
    every: float = 0.01,
) -> None:
    """Return once `condition` holds; fails after `timeout` seconds, and not before those of `HANGS`. It is looked at
    `every` so many seconds.
    """
    timeout = max(timeout, HANGS)
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout} s")
        time.sleep(every)
