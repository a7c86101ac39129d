"""What Scrapy keeps to itself is touched in `scrapy_durable/engine/`, so that its next release breaks one package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.standin import ROOT

PACKAGES = [ROOT / "scrapy_durable", ROOT / "carscraper"]
ENGINE = ROOT / "scrapy_durable" / "engine"
OWN = ("self", "cls")


def privates(source: str) -> Iterator[str]:
    """Names with an underscore in front that are imported from Scrapy, or taken of something that is not one's own."""
    tree = ast.parse(source)
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_own(node.value)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scrapy."):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (name for name in names if is_private(name))
        elif (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and not is_own(node.value)
            and node.attr not in own
        ):
            yield node.attr


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_own(value: ast.expr) -> bool:
    is_super = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
    return is_super or (isinstance(value, ast.Name) and value.id in OWN)


def overridden(module: str) -> set[str]:
    """Methods with an underscore in front that take the place of those of a class of Scrapy's."""
    return {
        name
        for kind in vars(import_module(module)).values()
        if isinstance(kind, type) and kind.__module__ == module
        for base in kind.__mro__
        if base.__module__.startswith("scrapy.")
        for name in vars(kind).keys() & vars(base).keys()
        if is_private(name) and name != "_abc_impl"  # made by Python for an abstract class
    }


def modules() -> list[Path]:
    found = [path for package in PACKAGES for path in package.rglob("*.py")]
    return [path for path in found if not path.is_relative_to(ENGINE)]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_name_of_scrapy_is_touched(path: Path) -> None:
    source = path.read_text()
    assert list(privates(source)) == []
    assert overridden(".".join(path.relative_to(ROOT).with_suffix("").parts)) == set()


def test_the_engine_package_does_touch_them() -> None:
    """The counterpart."""
    assert set(privates((ENGINE / "__init__.py").read_text())) >= {"_schedule_coro", "_spider_idle"}
    assert "_aiohttp" in privates((ENGINE / "handler.py").read_text())
    assert overridden("scrapy_durable.engine.feeds") == {
        "_close_slot",
        "_export_xml_field",
        "_get_exporter",
        "_get_uri_params",
    }
    assert overridden("scrapy_durable.engine.handler") == {"_extract_headers"}
