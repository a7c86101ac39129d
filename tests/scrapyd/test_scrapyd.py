"""The crawl on a real scrapyd: deployed as an egg, scheduled, cancelled or killed, and scheduled again."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from tests.crawling import FULL_SPEED, car_ids, wait_until
from tests.redis_server import RedisServer
from tests.server_process import ServerProcess, wait_until_listening
from tests.standin import ROOT, StandIn

BIN = Path(sys.executable).parent
USERNAME, PASSWORD = "tester", "not/easy%to$guess"
SLOWLY = [{"fault": "delay", "seconds": 0.5}]
SETTINGS = {
    **FULL_SPEED,
    "CARS_PAGE_SIZE": 20,
    "DURABLE_LEASE_SECONDS": 2,
    "CONCURRENT_REQUESTS": 8,
}


class Scrapyd(ServerProcess):
    """A scrapyd on a free port, in an empty directory, with this project's `scrapyd.conf`."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}"
        self.directory = directory
        self.env = {
            **os.environ,
            "SCRAPYD_USERNAME": USERNAME,
            "SCRAPYD_PASSWORD": PASSWORD,
            "SCRAPYD_HTTP_PORT": str(self.port),
        }
        shutil.copy(ROOT / "scrapyd.conf", directory)

    def start(self) -> None:
        """Start it, and wait until its web service answers."""
        with (self.directory / "scrapyd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [BIN / "scrapyd", "--pidfile="], cwd=self.directory, env=self.env, stdout=log, stderr=log
            )
        try:
            wait_until_listening(self.port, self._process)
            self.call("daemonstatus")
        except (RuntimeError, OSError):
            self.kill()
            raise RuntimeError((self.directory / "scrapyd.log").read_text()) from None

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Ask the web service `name`.json; POST when there are arguments but `project` alone."""
        token = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        query = urlencode(arguments, doseq=True)
        request = Request(f"{self.url}/{name}.json", headers={"Authorization": f"Basic {token}"})
        if name in ("schedule", "cancel"):
            request.data = query.encode()
        elif query:
            request.full_url += f"?{query}"
        with urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        assert found["status"] == "ok", found
        return found

    def schedule(self, settings: dict[str, object]) -> str:
        """Schedule the crawl; returns the job's id."""
        setting = [f"{name}={value}" for name, value in settings.items()]
        job: str = self.call("schedule", project="carscraper", spider="cars", setting=setting)["jobid"]
        return job

    def pid(self, job: str) -> int | None:
        """The process of a job; None when it does not run."""
        running = self.call("listjobs", project="carscraper")["running"]
        return next((found["pid"] for found in running if found["id"] == job), None)

    def wait_for_end(self, *jobs: str) -> None:
        """Return when all these jobs have finished."""

        def finished() -> bool:
            found = {job["id"] for job in self.call("listjobs", project="carscraper")["finished"]}
            return found.issuperset(jobs)

        wait_until(finished, 60, what=f"jobs {jobs} have finished")

    def log(self, job: str) -> str:
        """What a job has logged."""
        return (self.directory / ".scrapyd" / "logs" / "carscraper" / "cars" / f"{job}.log").read_text()

    def close(self) -> None:
        """End the jobs that still run, which scrapyd would leave behind, and scrapyd."""
        for job in self.call("listjobs", project="carscraper")["running"]:
            os.kill(job["pid"], signal.SIGKILL)
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None


def deploy(server: Scrapyd, checkout: Path) -> None:
    """Run the real `scrapyd-deploy local` in a copy of the project whose target has the server's port."""
    checkout.mkdir()
    for package in ("carscraper", "scrapy_durable"):
        shutil.copytree(ROOT / package, checkout / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, checkout)
    config = (ROOT / "scrapy.cfg").read_text()
    assert "url = http://127.0.0.1:6800\n" in config
    (checkout / "scrapy.cfg").write_text(config.replace("http://127.0.0.1:6800", server.url))
    done = subprocess.run(
        [BIN / "scrapyd-deploy", "local"], cwd=checkout, env=server.env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["spiders"] == 1, done.stdout


@pytest.fixture(scope="module")
def scrapyd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrapyd]:
    """A running scrapyd on which the project is deployed."""
    with Scrapyd(tmp_path_factory.mktemp("scrapyd")) as server:
        deploy(server, tmp_path_factory.mktemp("checkout") / "project")
        yield server


def test_scrapyd_does_not_start_without_a_password(tmp_path: Path) -> None:
    shutil.copy(ROOT / "scrapyd.conf", tmp_path)
    env = {name: value for name, value in os.environ.items() if not name.startswith("SCRAPYD_")}
    done = subprocess.run(
        [BIN / "scrapyd", "--pidfile="],
        cwd=tmp_path,
        env={**env, "SCRAPYD_HTTP_PORT": "0", "SCRAPYD_USERNAME": USERNAME},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode != 0
    assert "password_is_missing_in_the_environment" in (done.stdout + done.stderr).lower()


def test_scrapyd_asks_for_the_password(scrapyd: Scrapyd) -> None:
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{scrapyd.url}/daemonstatus.json", timeout=10)


def test_the_egg_holds_every_file_of_lua_and_sql(scrapyd: Scrapyd) -> None:
    (egg,) = (scrapyd.directory / ".scrapyd" / "eggs").rglob("*.egg")
    inside = set(zipfile.ZipFile(egg).namelist())
    needed = {
        path.relative_to(ROOT).as_posix()
        for package in ("carscraper", "scrapy_durable")
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".lua", ".sql", ".py")
    }
    assert needed <= inside


@pytest.mark.slow
def test_a_job_with_a_jobdir_is_cancelled_and_goes_on_when_scheduled_again(
    scrapyd: Scrapyd, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(500, rules=SLOWLY)
    settings = {
        **SETTINGS,
        "CARS_API_URL": site.url,
        "CARS_OUTPUT_DIR": tmp_path / "out",
        "JOBDIR": tmp_path / "job",
    }
    first = scrapyd.schedule(settings)
    wait_until(lambda: site.counts()["specs"] >= 10, 60, what="the job has asked for specs")
    scrapyd.call("cancel", project="carscraper", job=first)
    scrapyd.wait_for_end(first)
    assert not (tmp_path / "out" / "cars.json").exists()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["complete"] is False

    site.faults([])
    second = scrapyd.schedule(settings)
    scrapyd.wait_for_end(second)
    assert "Going on with crawl" in scrapyd.log(second)
    assert sorted(car_ids(tmp_path / "out")) == sorted(site.ids()), scrapyd.log(second)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["complete"] is True


@pytest.mark.slow
def test_of_two_jobs_on_one_redis_one_is_killed_and_the_other_does_it_all(
    scrapyd: Scrapyd, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(500, rules=SLOWLY)
    with RedisServer() as redis:
        settings = {
            **SETTINGS,
            "CARS_API_URL": site.url,
            "CARS_OUTPUT_DIR": tmp_path / "out",
            "REDIS_URL": redis.url,
        }
        first, second = scrapyd.schedule(settings), scrapyd.schedule(settings)
        wait_until(lambda: site.counts()["under_way"] >= 12, 60, what="both jobs wait for answers")
        killed = scrapyd.pid(first)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        site.faults([])
        scrapyd.wait_for_end(first, second)
    assert sorted(car_ids(tmp_path / "out")) == sorted(site.ids()), scrapyd.log(second)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["complete"] is True
