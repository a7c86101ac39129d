"""Each row of the table in docs/guarantees.md says what happens, and names the test that shows it."""

from __future__ import annotations

import ast
import re

from tests.standin import ROOT


def named_tests() -> list[str]:
    """The last cell of every row of "What happens when": `path/to/test.py` or `path/to/test.py::test_name`."""
    section = (
        (ROOT / "docs" / "guarantees.md").read_text().split("## What happens when\n")[1].split("\n## ")[0]
    )
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]
    assert all(len(row) == 5 and all(row) for row in rows), rows
    return [name.strip(" `") for row in rows for name in row[-1].split(",")]


def test_every_test_that_a_promise_names_is_there() -> None:
    missing = []
    for name in named_tests():
        path, _, function = name.partition("::")
        file = ROOT / path
        found = file.is_file() and {
            node.name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        if not found or (function and function not in found):
            missing.append(name)
    assert not missing


def test_the_table_has_rows() -> None:
    assert named_tests()
