"""What the code has, the docs have: settings, commands, log messages, stats, make targets."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.standin import ROOT

DOCS = ROOT / "docs"
PACKAGES = [ROOT / "scrapy_durable", ROOT / "carscraper"]
SOURCES = {
    path: ast.parse(path.read_text()) for package in PACKAGES for path in sorted(package.rglob("*.py"))
}
LEVELS = ("warning", "error", "critical", "exception")


def rows(page: Path) -> dict[str, list[str]]:
    """The rows of the tables of a page: the first cell without backticks, and the others."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in page.read_text().splitlines()
        if line.startswith("| `")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


def calls(*methods: str) -> Iterator[tuple[Path, ast.Call]]:
    """Every call of a method of that name in the package."""
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in methods
                and node.args
            ):
                yield path, node


def literal(node: ast.expr) -> str | None:
    """The text of a literal, `{}` where an f-string holds a value; None when it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def defaults() -> dict[str, Any]:
    """The settings that the core and this project declare, with their values in a clean environment."""
    program = (
        "import json, carscraper.settings as site, scrapy_durable.settings as core; "
        "found = {name: value for name, value in {**vars(core), **vars(site)}.items() if name.isupper()}; "
        "print(json.dumps(found, default=repr))"
    )
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=clean, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


DEFAULTS = defaults()
PREFIXES = ("CARS_", "DURABLE_")
OURS = [
    name
    for name in DEFAULTS
    if name.startswith(PREFIXES) or name in ("JOBDIR", "REDIS_URL", "MONGO_URI", "POSTGRES_DSN")
]


@pytest.mark.parametrize("name", OURS)
def test_every_setting_of_ours_is_documented_with_its_default(name: str) -> None:
    documented = rows(DOCS / "settings.md")
    assert name in documented
    default, unit, reason = documented[name][:3]
    assert default == (f"`{DEFAULTS[name]}`" if DEFAULTS[name] not in (None, "") else "none"), name
    assert unit
    assert len(reason) > 20


def test_every_setting_of_scrapys_that_we_change_is_documented() -> None:
    text = (DOCS / "settings.md").read_text()
    missing = [name for name in DEFAULTS if f"`{name}`" not in text]
    assert not missing


def test_every_setting_that_is_read_is_documented() -> None:
    text = (DOCS / "settings.md").read_text()
    read = {
        literal(call.args[0])
        for _, call in calls("get", "getbool", "getint", "getfloat", "getdict", "getlist")
        if "settings" in ast.unparse(call.func)
    }
    missing = [name for name in read if name and name.isupper() and f"`{name}`" not in text]
    assert not missing


def test_no_setting_is_documented_that_is_not_there() -> None:
    documented = [name for name in rows(DOCS / "settings.md") if name.startswith(PREFIXES)]
    assert sorted(documented) == sorted(name for name in OURS if name.startswith(PREFIXES))


def test_every_command_is_documented() -> None:
    text = (ROOT / "README.md").read_text()
    for path in [path for package in PACKAGES for path in (package / "commands").glob("[a-z]*.py")]:
        assert f"scrapy {path.stem}" in text, path


def messages() -> Iterator[str]:
    """The fixed text of every line at WARNING or above, those of the log formatter included."""
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                yield from (
                    f"{path.relative_to(ROOT)}: {literal(value)}"
                    for key, value in zip(node.keys, node.values, strict=True)
                    if key is not None and literal(key) == "msg"
                )
    for path, call in calls(*LEVELS):
        message = literal(call.args[0])
        if message is None or not re.search(r"[A-Za-z]{4}", message):
            continue  # a variable, or nothing but placeholders: the text comes from an error
        if "_log" in ast.unparse(call.func) or "logger" in ast.unparse(call.func):
            yield f"{path.relative_to(ROOT)}: {message}"


@pytest.mark.parametrize("message", sorted(set(messages())))
def test_every_warning_and_error_is_documented_with_what_to_do(message: str) -> None:
    text = message.partition(": ")[2]
    documented = rows(DOCS / "logs.md")
    assert text in documented, "docs/logs.md has no row for it"
    assert any(words in documented[text][-1].lower() for words in ("action needed", "can be ignored"))


def test_no_message_is_documented_that_is_not_there() -> None:
    known = {message.partition(": ")[2] for message in messages()}
    page = (DOCS / "logs.md").read_text().partition("## Of others")[0]
    listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert listed <= known


def test_every_stat_is_documented() -> None:
    documented = {re.sub(r"<[a-z ]+>", "{}", name) for name in rows(DOCS / "stats.md")}
    set_here = {
        name
        for _, call in calls("inc_value", "set_value", "max_value")
        if (name := literal(call.args[0])) is not None
    }
    assert set_here
    assert set_here - documented == set()


def test_make_targets_that_the_docs_name_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")):
        named = set(re.findall(r"(?:`|\$ |^)make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named <= targets, page


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_decisions_are_numbered_once_and_have_all_parts() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [page.name[:4] for page in pages]
    assert len(set(numbers)) == len(numbers)
    for page in pages:
        for part in ("## Context", "## Decision", "## Rejected", "## Consequences"):
            assert part in page.read_text(), f"{page.name} has no {part}"
