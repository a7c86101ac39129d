"""A module has one trade and a class one reason to change: both stay small, but for what is listed here."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.standin import ROOT

LINES, METHODS = 400, 20
LARGER = {
    "CarsSpider": "Scrapy and the core call it by the names of a dozen of its methods",
}
"""Classes with more methods, each with the reason."""


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


def test_no_module_of_the_site_is_long() -> None:
    assert too_long(ROOT / "carscraper") == set()


def test_no_class_of_the_site_has_many_methods_but_those_that_are_listed() -> None:
    found = {name for path in (ROOT / "carscraper").rglob("*.py") for name in too_large(path.read_text())}
    assert found == LARGER.keys()


def test_what_is_too_long_or_large_is_found(tmp_path: Path) -> None:
    """The counterpart."""
    (tmp_path / "long.py").write_text("\n" * (LINES + 1))
    (tmp_path / "short.py").write_text("\n" * LINES)
    assert too_long(tmp_path) == {"long.py"}
    methods = [f"    def m{number}(self): ..." for number in range(METHODS + 1)]
    assert too_large("\n".join(["class Large:", *methods])) == {"Large"}
    assert not too_large("\n".join(["class Small:", *methods[1:]]))
