"""What the files for containers name is there. No engine has run them: that is all that can be seen without one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from carscraper import settings
from scrapy_durable import settings as core
from tests.standin import ROOT

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
COMPOSE = ROOT / "deploy" / "compose.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}


def test_every_file_that_is_copied_is_there() -> None:
    copied = [
        name for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    assert len(copied) > 4
    assert [name for name in copied if not (ROOT / name).exists()] == []
    installed = re.findall(r"-r (\S+)", DOCKERFILE)
    assert installed
    assert set(installed) <= set(copied)


def test_it_is_not_run_by_root_and_keeps_what_it_writes() -> None:
    assert re.search(r"^USER carscraper$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^VOLUME /var/lib/carscraper$", DOCKERFILE, re.MULTILINE)


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_told_settings_that_there_are_and_starts_a_command_that_there_is(name: str) -> None:
    service = OURS[name]
    assert (COMPOSE.parent / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    told = service["environment"].keys()
    assert [one for one in told if not hasattr(settings, one) and not hasattr(core, one)] == []
    commands = {path.stem for path in (ROOT / "carscraper" / "commands").glob("*.py")}
    assert service.get("command", ["crawl"])[0] in commands
    assert service["volumes"] == ["data:/var/lib/carscraper"]


def test_what_a_service_waits_for_tells_when_it_is_well_and_is_kept() -> None:
    for service in SERVICES.values():
        for other in service.get("depends_on", {}):
            assert SERVICES[other]["healthcheck"]["test"]
            assert SERVICES[other]["volumes"][0].partition(":")[0] in DOCUMENT["volumes"]


def test_no_password_stands_in_it_and_none_is_left_out() -> None:
    secrets = re.findall(r"\$\{(\w*(?:PASSWORD|KEY|TOKEN))(:?[^}]*)\}", COMPOSE.read_text())
    assert {name for name, _ in secrets} >= {"REDIS_PASSWORD", "POSTGRES_PASSWORD", "MONGO_PASSWORD"}
    assert {rest for _, rest in secrets} == {":?"}, "each is refused when it is not set"


def test_nobody_elsewhere_reaches_them() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_redis_keeps_what_it_is_given() -> None:
    command = SERVICES["redis"]["command"]
    assert "--appendonly yes --maxmemory-policy noeviction" in " ".join(command)
