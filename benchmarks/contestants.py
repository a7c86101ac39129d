"""Who runs: the command lines of the contestants, and how a run of one is measured from outside."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 32
OURS = ("ours", "scheduler", "jobdir", "redis", "databases", "refresh", "reparse")
"""This crawl, as it comes; with other queues: Scrapy's own in memory, a file, a Redis; with both databases; once more,
when its specifications are stored; and built again from what it has stored.
"""
_OURS = ("CARS_", "SCRAPY", "REDIS_URL", "MONGO_URI", "POSTGRES_DSN", "JOBDIR", "LOG_LEVEL")
_PIECE = 1 << 20
_BETWEEN = re.compile(r"[\s,]*")
_LOOK_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Result:
    """One run, seen from outside.

    `wall_s` is from the start of the process to its end, `cpu_s` its user and system time, `user_s` the first of these,
    `peak_mb` its largest resident set in MiB. `served` is what the server sent it, and `server_cpu_s` what that cost.
    `rows` and `ids` are the records in its output and the different ids among them.
    """

    name: str
    status: int
    wall_s: float
    cpu_s: float
    user_s: float
    peak_mb: float
    served: dict[str, int]
    server_cpu_s: float
    rows: int
    ids: int

    @property
    def requests(self) -> int:
        """All requests that the server counted."""
        return sum(self.served.values())

    def complete(self, listings: int) -> bool:
        """True when it ended well and kept each of `listings` once."""
        return (self.status, self.rows, self.ids) == (0, listings, listings)


def command(name: str, url: str, page_size: int, output: Path, redis_url: str = "") -> list[str]:
    """The command line of contestant `name`, which leaves its records in `output`/cars.json."""
    python = sys.executable
    if name in ("bare", "floor"):
        script = str(ROOT / "benchmarks" / f"{name}.py")
        return [python, script, url, str(page_size), str(output / "cars.json")]
    if name in ("stock", "scrapy-redis"):
        spider = str(ROOT / "benchmarks/stock/listings.py")
        arguments = ["-a", f"base_url={url}", "-a", f"page_size={page_size}"]
        if name == "scrapy-redis":
            for setting in (
                "SCHEDULER=scrapy_redis.scheduler.Scheduler",
                "DUPEFILTER_CLASS=scrapy_redis.dupefilter.RFPDupeFilter",
                f"REDIS_URL={redis_url}",
            ):
                arguments += ["-s", setting]
        return [python, "-m", "scrapy", "runspider", spider, *arguments, "-O", str(output / "cars.json")]
    settings = {
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "AUTOTHROTTLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "CARS_PAGE_SIZE": page_size,
        "CARS_API_URL": url,
        "CARS_OUTPUT_DIR": output,
    }
    if name == "scheduler":
        settings["SCHEDULER"] = "scrapy.core.scheduler.Scheduler"
    elif name == "jobdir":
        settings["JOBDIR"] = output / "job"
    elif name == "redis":
        settings["REDIS_URL"] = redis_url
    pairs = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    if name == "reparse":
        return [python, "-m", "scrapy", "reparse", *pairs]
    return [python, "-m", "scrapy", "crawl", "cars", *pairs]


def measure(
    name: str,
    url: str,
    page_size: int,
    output: Path,
    log: Path,
    redis_url: str = "",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 3_600,
    root: Path = ROOT,
) -> Result:
    """Run contestant `name` against the static copy at `url`; its log goes to `log`. `env` is added to a clean one.
    `root` is the checkout of this project that crawls.

    The process is waited for with wait4, so CPU and memory are its own. This process must stay small: Linux
    counts the memory of the parent at the time of the fork as the child's. Raises TimeoutError after
    `timeout_s`, when the process has been killed.
    """
    _control(url, "reset")
    # Stock Scrapy must not find this project, ours must.
    directory = root if name in OURS else output
    with log.open("wb") as lines:
        started = time.monotonic()
        process = subprocess.Popen(
            command(name, url, page_size, output, redis_url),
            cwd=directory,
            env={**clean_environment(), **(env or {})},
            stdout=lines,
            stderr=lines,
        )
        try:
            status, usage = _wait(process.pid, started + timeout_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall = time.monotonic() - started
        process.returncode = status
    counts = _control(url, "counts")
    server_cpu = counts.pop("cpu_s")
    rows, ids = count_records(output / "cars.json")
    return Result(
        name=name,
        status=process.returncode,
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        user_s=usage.ru_utime,
        peak_mb=usage.ru_maxrss / 1024,
        served=counts,
        server_cpu_s=server_cpu,
        rows=rows,
        ids=ids,
    )


def _wait(pid: int, deadline: float) -> tuple[int, resource.struct_rusage]:
    while time.monotonic() < deadline:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError(f"process {pid} has not ended in time")


def clean_environment() -> dict[str, str]:
    """The environment without anything that sets up this project's crawl."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def count_records(path: Path) -> tuple[int, int]:
    """How many records a JSON array holds, and how many different ids; (0, 0) when there is no such file."""
    if not path.exists():
        return 0, 0
    ids: set[str] = set()
    rows = 0
    for record in _elements(path):
        rows += 1
        ids.add(record["id"])
    return rows, len(ids)


def _elements(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON array, one at a time, so that the array is never in memory.

    Raises ValueError when the file ends before the array does.
    """
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8") as file:
        text, at = file.read(_PIECE).lstrip().removeprefix("["), 0
        while True:
            start = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if text.startswith("]", start):
                return
            try:
                element, at = decoder.raw_decode(text, start)
            except json.JSONDecodeError as error:
                more = file.read(_PIECE)
                if not more:
                    raise ValueError(f"{path}: not a whole JSON array of records") from error
                text, at = text[at:] + more, 0
                continue
            yield element


def _control(url: str, what: str) -> dict[str, Any]:
    with urlopen(url.replace("/fw/public", f"/_bench/{what}"), timeout=60) as answer:
        counts: dict[str, Any] = json.load(answer)
        return counts
