"""The units of `deploy/systemd` say what systemd understands, and start what this project has."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from carscraper import settings
from tests.crawling import HANGS
from tests.standin import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
CRAWLS = [unit for unit in SERVICES if "check" not in unit.name]
HERE = "/opt/carscraper"


def values(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_service_starts_a_command_of_this_project_with_settings_that_it_has(unit: Path) -> None:
    (command,) = (shlex.split(line) for line in values(unit, "ExecStart"))
    wanted = ["crawl", "cars"] if unit in CRAWLS else ["runs", "check", "--max-age", "26h"]
    assert command[: 1 + len(wanted)] == [f"{HERE}/.venv/bin/scrapy", *wanted]
    named = [part.partition("=")[0] for line in values(unit, "Environment") for part in shlex.split(line)]
    assert named
    assert [name for name in named if not hasattr(settings, name)] == []
    assert (ROOT / values(unit, "WorkingDirectory")[0].replace(HERE, ".") / "scrapy.cfg").exists()


@pytest.mark.parametrize("unit", CRAWLS, ids=lambda unit: unit.name)
def test_what_is_killed_is_started_again_and_a_verdict_is_left_alone(unit: Path) -> None:
    assert values(unit, "Restart") == ["on-abnormal"]


def test_workers_of_one_machine_have_a_jobdir_each() -> None:
    (worker,) = (unit for unit in UNITS if unit.name == "carscraper-worker@.service")
    assert "-%i" in values(worker, "ExecStart")[0].split("JOBDIR=")[1]


def test_each_file_that_a_unit_names_is_there() -> None:
    named = {path for unit in UNITS for path in re.findall(rf"file:{HERE}/(\S+)", unit.read_text())}
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
    services = {unit.stem for unit in SERVICES}
    assert {unit.stem for unit in UNITS if unit.suffix == ".timer"} <= services


def test_systemd_takes_them_where_there_is_one(tmp_path: Path) -> None:
    """Elsewhere, that they are written line by line as it reads them."""
    for unit in UNITS:
        lines = unit.read_text().splitlines()
        assert [line for line in lines if line and not re.match(r"#|\[\w+\]$|\w+=", line)] == []
        python = str(ROOT / ".venv/bin/scrapy") if (ROOT / ".venv").exists() else "/bin/true"
        text = unit.read_text().replace(f"{HERE}/.venv/bin/scrapy", python)
        (tmp_path / unit.name.replace("@.", "@1.")).write_text(text)
    if systemd := shutil.which("systemd-analyze"):
        done = subprocess.run(
            [systemd, "verify", "--man=no", "--recursive-errors=no", *sorted(tmp_path.iterdir())],
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
        assert (done.returncode, done.stderr) == (0, "")
