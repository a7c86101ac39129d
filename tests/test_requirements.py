"""What is installed is pinned with its hashes, and nothing that it needs is missing, whatever Python installs it."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from itertools import chain

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.standin import ROOT

FILES = (
    "requirements",
    "requirements-parquet",
    "requirements-operate",
    "requirements-scrapyd",
    "requirements-dev",
)
PYTHONS = ("3.11.2", "3.11.14", "3.12.0", "3.13.0")


def blocks(name: str) -> list[str]:
    """The packages of a file, each with its hashes, and of those that it includes."""
    text = (ROOT / f"{name}.txt").read_text()
    included = re.findall(r"^-r (\S+)\.txt$", text, re.MULTILINE)
    found = re.findall(r"^[A-Za-z0-9].*(?:\n    .*)*", text, re.MULTILINE)
    return [*chain.from_iterable(map(blocks, included)), *found]


@pytest.mark.parametrize("name", FILES)
def test_every_package_is_pinned_with_hashes(name: str) -> None:
    found = blocks(name)
    assert len(found) > 0
    for block in found:
        assert re.match(
            r"[A-Za-z0-9.-]+(\[[a-z,]+\])?==\S+( ; .+?)? \\\n    --hash=sha256:[0-9a-f]{64}", block
        ), block


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_a_package_needs_is_pinned_too(name: str, python: str) -> None:
    """With its extras: to Debian 12's pip, a pin without them says nothing about what asks for them, so that it refuses
    to install anything from the day on which there is a newer release.
    """
    environment = {
        **default_environment(),
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "extra": "",
    }
    pinned = {}
    for block in blocks(name):
        asked = Requirement(block.partition(" \\\n")[0])
        if asked.marker is None or asked.marker.evaluate(environment):
            pinned[canonicalize_name(asked.name)] = asked
    for package in pinned:
        for needed in map(Requirement, installed_requires(package)):
            if needed.marker is None or needed.marker.evaluate(environment):
                pin = pinned.get(canonicalize_name(needed.name))
                assert pin is not None, f"{package} needs {needed}"
                assert needed.extras <= pin.extras, f"{package} needs {needed}"


def installed_requires(package: str) -> list[str]:
    """What a package says that it needs; nothing of one that this Python does not install."""
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_what_its_source_asks_for(name: str) -> None:
    asked = [
        line
        for line in (ROOT / f"{name}.in").read_text().splitlines()
        if line and not line.startswith(("#", "-r"))
    ]
    pinned = {re.sub(r"[_.]", "-", block.partition(" \\\n")[0]).lower() for block in blocks(name)}
    for line in asked:
        assert re.sub(r"[_.]", "-", line).lower() in pinned
