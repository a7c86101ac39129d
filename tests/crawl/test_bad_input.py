"""Bad input: one clear line that names it, an exit status that is not 0, no traceback, nothing asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl.conftest import SECONDS, Site, Start
from tests.server_process import hold_port


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
    ],
)
def test_a_bad_setting_is_refused_by_name_in_one_line(
    site: Site, start: Start, setting: str, value: str
) -> None:
    run = start(settings={setting: value, "LOG_LEVEL": "ERROR"})
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


def test_an_api_that_nobody_serves_ends_with_the_reason(start: Start) -> None:
    with hold_port() as holder:
        port = holder.getsockname()[1]
        run = start(api_url=f"http://127.0.0.1:{port}/fw/public", settings={"RETRY_TIMES": 0})
        assert run.wait(SECONDS) == 1, run.log
    assert "why: no listing page was read" in run.log
    assert "Stopping the crawl (robots_unavailable)" in run.log
    assert f"Cannot connect to host 127.0.0.1:{port}" in run.log


def test_a_spider_that_does_not_exist_is_refused_by_name(start: Start) -> None:
    run = start(settings={"SPIDER_MODULES": "carscraper.pipelines", "LOG_LEVEL": "ERROR"})
    assert run.wait(SECONDS) == 2, run.log
    assert run.log == "error: there is no spider 'cars'\n"
