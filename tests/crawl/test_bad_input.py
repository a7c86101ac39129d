"""Bad input: one clear line that names it, an exit status that is not 0, no traceback, nothing asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crawl.conftest import SECONDS, Site, Start
from tests.crawling import wait_until
from tests.redis_server import RedisServer
from tests.server_process import hold_port
from tests.standin import ROOT

SECRET = "canary-2b9c"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("CARS_API_URL", "nonsense"),
        ("CARS_API_URL", "ftp://127.0.0.1/"),
        ("CARS_PAGE_SIZE", "0"),
        ("CARS_PAGE_SIZE", "many"),
        ("CARS_SPEC_TTL", "-1"),
        ("CARS_BATCH_SECONDS", "nan"),
        ("REDIS_URL", "nonsense"),
        ("CARS_PAGESIZE", "20"),
        ("CONCURRENT_REQUESTS", "abc"),
        ("CONCURRENT_REQUESTS", "-1"),
        ("DOWNLOAD_DELAY", "x"),
        ("DOWNLOAD_TIMEOUT", "nan"),
        ("AUTOTHROTTLE_ENABLED", "maybe"),
        ("SCHEDULER_PERSIST", "maybe"),
        ("REDIS_PARAMS", "x"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_bad_setting_is_refused_by_name_in_one_line(
    site: Site, start: Start, setting: str, value: str
) -> None:
    run = start(settings={"LOG_LEVEL": "ERROR", setting: value})
    assert run.wait(SECONDS) == 2, run.log
    assert setting in run.log
    assert run.log.count("\n") == 1, run.log
    assert site.standin.journal() == []


@pytest.mark.parametrize("setting", ["CARS_OUTPUT_DIR", "JOBDIR"])
def test_a_directory_that_cannot_be_made_is_refused_by_name_in_one_line(
    site: Site, start: Start, tmp_path: Path, setting: str
) -> None:
    """Below a regular file, where not even root can make one."""
    (tmp_path / "file").write_text("not a directory")
    run = start(settings={setting: tmp_path / "file" / "data", "LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2, run.log
    assert setting in run.log
    assert run.log.count("\n") == 1, run.log
    assert site.standin.journal() == []


def test_an_output_directory_that_is_a_file_is_refused(site: Site, start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    run = start(settings={"LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2, run.log
    assert "CARS_OUTPUT_DIR" in run.log
    assert "Traceback" not in run.log


def test_a_setting_that_nobody_reads_is_refused_wherever_it_stands(
    site: Site, start: Start, tmp_path: Path
) -> None:
    """In the environment, in a settings module, on the command line; the near one is named."""
    (tmp_path / "own_settings.py").write_text("from carscraper.settings import *\nCARS_BATCH_SIZES = 3\n")
    module = {"SCRAPY_SETTINGS_MODULE": "own_settings", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    runs = [
        ("CARS_BATCH_SIZE", start(env={"CARS_BATCHSIZE": "3"})),
        ("CARS_BATCH_SIZE", start(env=module)),
        ("DURABLE_LEASE_SECONDS", start(settings={"CARS_LEASE_SECOND": "3"})),
    ]
    for meant, run in runs:
        assert run.wait(SECONDS) == 2, run.log
        assert run.log.endswith(f"there is no such setting; did you mean {meant}?\n")
        assert run.log.count("\n") == 1, run.log
    assert site.standin.journal() == []


@pytest.mark.parametrize("command", ["queue status", "deliver", "reparse", "export cars.csv"])
def test_a_setting_that_nobody_reads_is_refused_by_every_command(tmp_path: Path, command: str) -> None:
    env = {**os.environ, "CARS_BATCHSIZE": "3", "JOBDIR": str(tmp_path / "job")}
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", *command.split()], cwd=ROOT, env=env, capture_output=True, text=True
    )
    refused = "error: CARS_BATCHSIZE: there is no such setting; did you mean CARS_BATCH_SIZE?\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", refused)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("action", "said"), [("status", "crawl (none)"), ("dead", "no dead letters"), ("forget", "forgotten")]
)
def test_a_look_at_a_jobdir_that_is_not_there_says_that_there_is_no_crawl_and_makes_nothing(
    action: str, said: str, tmp_path: Path
) -> None:
    jobdir = tmp_path / "mistyped" / "job"
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "queue", action, "--yes"],
        cwd=ROOT,
        env={**os.environ, "JOBDIR": str(jobdir)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, f"no crawl: there is no {jobdir}\n")
    assert done.stdout.startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_a_redis_that_is_not_there_is_refused_at_once(site: Site, start: Start) -> None:
    with hold_port() as holder:
        port = holder.getsockname()[1]
        run = start(redis_url=f"redis://:{SECRET}@127.0.0.1:{port}/0")
        assert run.wait(SECONDS) == 2, run.log
    assert run.log == f"error: REDIS_URL: Redis at 127.0.0.1:{port} does not answer: Connection refused\n"
    assert site.standin.journal() == []


def test_a_wrong_password_of_redis_is_refused_in_one_line_by_every_command(site: Site, start: Start) -> None:
    def said(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "scrapy", *words]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "REDIS_URL": url}, capture_output=True, text=True
        )
        return done.returncode, done.stdout, done.stderr

    with RedisServer(options={"requirepass": "another"}) as server:
        url = server.url.replace("redis://", f"redis://:{SECRET}@")
        refused = f"Redis at 127.0.0.1:{server.port} refuses the user or password\n"
        run = start(redis_url=url)
        assert run.wait(SECONDS) == 2, run.log
        for action in ("status", "dead", "retry-dead"):
            assert said("queue", action) == (2, "", f"error: {refused}")
        refused_there = "error: REDIS_URL: the response store refuses the user or password\n"
        assert said("reparse") == (2, "", refused_there)
    assert run.log == f"error: REDIS_URL: {refused}"
    assert site.standin.journal() == []


def test_a_job_directory_in_use_is_refused_without_a_traceback(
    site: Site, start: Start, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    site.standin.faults([{"fault": "delay", "seconds": 60}])
    first = start(jobdir=job)
    wait_until(site.standin.journal, what="a request")
    second = start(jobdir=job, settings={"LOG_LEVEL": "ERROR"})
    assert second.wait(SECONDS) == 2, second.log
    assert "in use: another crawl is running on it" in second.log
    assert second.log.count("\n") == 1, second.log
    assert first.running


def test_an_api_that_nobody_serves_is_said_at_once_with_its_cause_first(start: Start, tmp_path: Path) -> None:
    """Without a second try, since nothing has been asked of it by this process."""
    with hold_port() as holder:
        port = holder.getsockname()[1]
        run = start(api_url=f"http://127.0.0.1:{port}/fw/public", jobdir=tmp_path / "job")
        assert run.wait(SECONDS) == 1, run.log
    cause = f"nobody answers at http://127.0.0.1:{port}/robots.txt: DownloadConnectionRefusedError: "
    assert f"Stopping the crawl (site_unreachable): {cause}Cannot connect to host 127.0.0.1:{port}" in run.log
    why = [line for line in run.log.splitlines() if line.startswith("why: ")]
    assert why[0].startswith(f"why: stopped (site_unreachable): {cause}")
    assert run.run_json()["reasons"][0] == why[0].removeprefix("why: ")
    assert "SSLContext" not in run.log
    assert "Traceback" not in run.log


def test_a_spider_that_does_not_exist_is_refused_by_name(start: Start) -> None:
    run = start(settings={"SPIDER_MODULES": "carscraper.pipelines", "LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2, run.log
    assert run.log == "error: there is no spider 'cars'\n"
