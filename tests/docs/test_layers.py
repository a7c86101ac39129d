"""Modules import what the table in docs/architecture.md lets them import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.standin import ROOT

PACKAGES = ("scrapy_durable", "carscraper")


@dataclass(frozen=True)
class Rule:
    """A row of the table; every member holds prefixes of module names."""

    who: tuple[str, ...]
    but_for: tuple[str, ...]
    none_of: tuple[str, ...]

    def binds(self, module: str) -> bool:
        return within(module, self.who) and not within(module, self.but_for)


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


def rules() -> list[Rule]:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("## What imports what")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| `")]
    return [Rule(*(tuple(re.findall(r"`([^`]+)`", cell)) for cell in row)) for row in rows]


def imports(source: str) -> Iterator[str]:
    """Every module that the source imports, but for those that are there for type checks only."""
    tree = ast.parse(source)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative imports are not used here: {ast.unparse(node)}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> dict[str, list[str]]:
    """What each module of both packages imports."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = list(imports(path.read_text()))
    return found


MODULES = modules()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule.who[0]} without {rule.none_of[0]}")
def test_modules_import_only_what_they_may(rule: Rule) -> None:
    broken = {
        f"{module} imports {name}"
        for module, imported in MODULES.items()
        if rule.binds(module)
        for name in imported
        if within(name, rule.none_of)
    }
    assert not broken


def test_the_table_names_modules_that_there_are() -> None:
    assert len(rules()) > 10
    for rule in rules():
        for prefix in (*rule.who, *rule.but_for):
            assert any(within(module, (prefix,)) for module in MODULES), prefix


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_its_line_in_the_list_of_modules(package: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    listed = text.partition(f"## Modules of {package}")[2].partition("\n## ")[0]
    for path in (ROOT / package).iterdir():
        if path.suffix == ".py" and path.stem != "__init__":
            assert f"`{path.name}`" in listed
        elif (path / "__init__.py").exists():
            assert f"`{path.name}/`" in listed


def test_the_core_knows_nothing_of_this_site() -> None:
    """No import, and no setting of its own: not even in words."""
    for path in (ROOT / "scrapy_durable").rglob("*"):
        if path.suffix in (".py", ".lua", ".sql"):
            assert not re.search(r"carscraper|CARS_", path.read_text()), path


def test_a_forbidden_import_is_found() -> None:
    """The counterpart: what the rules look for, they find."""
    source = "from redis.asyncio import Redis\nimport scrapy.http\nif TYPE_CHECKING:\n    import twisted\n"
    assert list(imports(source)) == ["redis.asyncio.Redis", "scrapy.http"]
    assert Rule(("a",), ("a.b",), ("redis",)).binds("a.c")
    assert not Rule(("a",), ("a.b",), ("redis",)).binds("a.b.c")
