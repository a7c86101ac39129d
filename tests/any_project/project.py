"""A project that `scrapy startproject` has made, with one spider, and its crawls by the real command line."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from redis import Redis
from scrapy.settings import Settings

from scrapy_durable.frontier.build import build_frontier
from scrapy_durable.frontier.redis_layout import FIXED_KEYS
from tests.any_project.shop import EXAMPLE
from tests.any_project.variants import STEADY
from tests.crawling import AS_INSTALLED, HANGS, wait_until
from tests.fork_server import start
from tests.standin import ROOT

OWN_PYTHON = os.environ.get("ANY_PROJECT_PYTHON")
PYTHON = OWN_PYTHON or sys.executable
SPIDERS = {
    "products": EXAMPLE / "shop" / "spiders" / "products.py",
    **{path.stem: path for path in (Path(__file__).parent / "spiders").glob("[a-z]*.py")},
}
FULL_SPEED = {"CONCURRENT_REQUESTS_PER_DOMAIN": 8, "DOWNLOAD_DELAY": 0}
"""The template has 1 and a second."""
_NO_SERVERS = """
from scrapy.settings import default_settings
EXTENSIONS_BASE = {
    name: place
    for name, place in default_settings.EXTENSIONS_BASE.items()
    if not name.endswith(("TelnetConsole", "RemoteControl"))
}
"""
"""The servers that Scrapy starts for its operator: no test asks them, and they take a tenth of a start."""
_POLL = 0.05
"""Seconds between two looks at a log: a tenth of what it takes to start a process."""
_END_LEASES = "\n".join(
    path.read_text()
    for path in (
        ROOT / "scrapy_durable" / "frontier" / "lua" / "keys.lua",
        Path(__file__).with_name("end_leases.lua"),
    )
)
_NOT_INHERITED = ("CARS_", "DURABLE_", "SCRAPY_", "REDIS_", "MONGO_", "POSTGRES_", "JOBDIR", "PYTHONPATH")


def environment(python: str = PYTHON) -> dict[str, str]:
    """What commands of a stock project are given: for the interpreter that runs the tests, the checkout too."""
    kept = without_ours()
    if python != sys.executable:
        return kept
    return {**kept, "PYTHONPATH": f"{ROOT}:{_metadata()}:{AS_INSTALLED}"}


def without_ours() -> dict[str, str]:
    """The environment without what this machine has set for a crawl."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}


@cache
def _metadata() -> str:
    """A directory that says of the checkout what an installed wheel would: its commands."""
    directory = Path(tempfile.mkdtemp(prefix="metadata-"))
    atexit.register(shutil.rmtree, directory)
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, version = described["name"], described["version"]
    info = directory / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    commands = described["entry-points"]["scrapy.commands"].items()
    lines = ["[scrapy.commands]", *(f"{command} = {path}" for command, path in commands)]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return str(directory)


@cache
def addon_is_there() -> bool:
    """Whether the projects' environment has the add-on."""
    program = "import scrapy_durable; scrapy_durable.Addon"
    return (
        subprocess.run([PYTHON, "-c", program], env=environment(), stderr=subprocess.DEVNULL).returncode == 0
    )


class Run:
    """One process of a crawl, killed when its project is left."""

    def __init__(self, project: Project, worker: int, arguments: Sequence[str]) -> None:
        self.agent = f"worker-{worker}"
        self._log = project.path / f"{self.agent}.log"
        self._begins = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self.process = start(
                [*project.command, "-s", f"USER_AGENT={self.agent}", *arguments],
                cwd=project.path,
                env=environment(project.python),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        """What this process has said so far."""
        return self._log.read_bytes()[self._begins :].decode(errors="replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def broken(self) -> bool:
        """Whether stock Scrapy cannot read its queue, which a kill has cut off: it then never ends."""
        return "[asyncio] ERROR" in self.log

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.kill()
        self.process.wait(HANGS)

    def interrupt(self) -> None:
        """What Ctrl-C does, once Scrapy is there to notice it; returns when it has, or the process has ended."""
        self.wait_until_open()
        asked = self.log.count("Received SIGINT")
        self.process.send_signal(signal.SIGINT)
        wait_until(
            lambda: not self.running or self.log.count("Received SIGINT") > asked,
            what=f"{self.agent} has noticed the Ctrl-C",
            every=_POLL,
        )

    def wait_until_open(self) -> None:
        """Return when its scheduler and its pipeline are open, or it has ended."""
        wait_until(
            lambda: not self.running or "items go to" in self.log, what=f"{self.agent} is open", every=_POLL
        )

    def wait(self) -> int:
        """Wait for its end, and return its exit status. One that hangs is killed, and its log shown."""
        try:
            return self.process.wait(HANGS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.agent} still runs after {HANGS} s:\n{self.log[-20_000:]}") from None


class Project:
    """A stock project at `path`, with `settings` beside the template's. `name` is its spider's.

    `site` is what the spider is told as `-a site=`; `python` crawls. `%(worker)s` in `JOBDIR` is the worker's number.
    """

    def __init__(
        self,
        template: Path,
        path: Path,
        name: str,
        site: str,
        settings: Mapping[str, object],
        python: str = PYTHON,
    ) -> None:
        shutil.copytree(template, path)
        shutil.copy(SPIDERS[name], path / "shop" / "spiders")
        for module in ("items.py", "pipelines.py"):
            shutil.copy(EXAMPLE / "shop" / module, path / "shop")
        shutil.copy(Path(__file__).with_name("who_asks.py"), path / "shop")
        components = {
            "ITEM_PIPELINES": {"shop.pipelines.EachItemToDisk": 300},
            "DOWNLOADER_MIDDLEWARES": {"shop.who_asks.WhoAsks": 999},
        }
        with (path / "shop" / "settings.py").open("a") as file:
            for setting, value in {**FULL_SPEED, **components, **settings}.items():
                file.write(f"{setting} = {value!r}\n")
            file.write(_NO_SERVERS)
        self.path = path
        self.name = name
        self.python = python
        self._steady = settings.get("DURABLE_LEASE_SECONDS") == STEADY
        self._place = {place: settings[place] for place in ("REDIS_URL",) if place in settings}
        if "JOBDIR" in settings:
            self._place["JOBDIR"] = str(path / str(settings["JOBDIR"]))
        self._jobdir = str(settings.get("JOBDIR", ""))
        self.command = [python, "-m", "scrapy", "crawl", name, "-a", f"site={site}"]
        self._runs: list[Run] = []

    def start(self, worker: int = 0, arguments: Sequence[str] = ()) -> Run:
        """Start the crawl, or go on with it: the command is the same, but for `arguments` that are added."""
        if "%" in self._jobdir:
            arguments = ["-s", f"JOBDIR={self._jobdir % {'worker': worker}}", *arguments]
        run = Run(self, worker, arguments)
        self._runs.append(run)
        return run

    def items(self) -> list[str]:
        """The items on the disk, each as JSON, sorted."""
        path = self.path / "items.jl"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def done(self) -> int:
        """How many requests are acknowledged."""

        async def look() -> int:
            frontier = build_frontier(Settings(self._place), "reader", spider=self.name)
            try:
                return (await frontier.status()).total.done
            finally:
                await frontier.close()

        return asyncio.run(look())

    def end_leases(self, run: Run) -> None:
        """Have what a process that has ended has leased go to others at once, if they would wait for long."""
        if self._steady and "REDIS_URL" in self._place:
            keys = [f"{{{self.name}}}:{key}" for key in FIXED_KEYS]
            with Redis.from_url(self._place["REDIS_URL"]) as client:
                client.eval(_END_LEASES, len(keys), *keys, f"-{run.process.pid}-")

    def pushed(self) -> int:
        """How many addresses wait under the start key, or are being queued."""
        if "REDIS_URL" not in self._place:
            return 0
        with Redis.from_url(self._place["REDIS_URL"]) as client:
            return int(client.llen(f"{self.name}:start_urls") + client.zcard(f"{{{self.name}}}:taken"))

    @property
    def left_unanswered(self) -> bool:
        """Whether one of its processes could not say in time what it had done, so that some of it is done again."""
        return any("Left without the frontier's answer" in run.log for run in self._runs)

    def remove(self) -> None:
        """End what runs, and remove the project."""
        self.end()
        shutil.rmtree(self.path)

    def end(self) -> None:
        """Kill what still runs."""
        for run in self._runs:
            if run.running:
                run.kill()

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
