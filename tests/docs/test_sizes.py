"""A module has one trade and a class one reason to change: both stay small, but for what is listed here."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.standin import ROOT

LINES, METHODS = 400, 20
LARGER = {
    "CarsSpider": "Scrapy and the core call it by the names of a dozen of its methods",
    "Lifecycle": "half of its methods are the hooks of a site",
    "SqliteResponseStore": "the contract alone has twelve",
}
"""Classes with more methods, each with the reason; three at most."""
PACKAGES = [ROOT / "scrapy_durable", ROOT / "carscraper"]


def too_long(package: Path) -> set[str]:
    return {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.read_text().count("\n") > LINES
    }


def too_large(source: str) -> set[str]:
    """Classes with too many methods, properties included."""
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body) > METHODS
    }


def test_no_module_is_long() -> None:
    assert [too_long(package) for package in PACKAGES] == [set(), set()]


def test_no_class_has_many_methods_but_those_that_are_listed() -> None:
    modules = [path for package in PACKAGES for path in package.rglob("*.py")]
    found = {name for path in modules for name in too_large(path.read_text())}
    assert found == LARGER.keys()
    assert len(LARGER) <= 3


def test_what_is_too_long_or_large_is_found(tmp_path: Path) -> None:
    """The counterpart."""
    (tmp_path / "long.py").write_text("\n" * (LINES + 1))
    (tmp_path / "short.py").write_text("\n" * LINES)
    assert too_long(tmp_path) == {"long.py"}
    methods = [f"    def m{number}(self): ..." for number in range(METHODS + 1)]
    assert too_large("\n".join(["class Large:", *methods])) == {"Large"}
    assert not too_large("\n".join(["class Small:", *methods[1:]]))
