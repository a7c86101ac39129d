"""Which tests start processes of their own, servers and crawls: told from what they and their fixtures refer to.

`make test-fast` leaves those out, and fails a test that starts one all the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType

import pytest

_OURS = ("tests.", "benchmarks.", "examples.")
_STARTS = (subprocess, os.fork, os.posix_spawn)
"""What a test refers to that starts a process."""


def starts_processes(item: pytest.Function) -> bool:
    """Whether the test, or a fixture that it uses, refers to one of `_STARTS`, itself or through what it calls.

    A fixture that is asked for by its name (`getfixturevalue`) is found when the name is a parameter of the test.
    """
    fixtures = [definitions[-1].func for definitions in item._fixtureinfo.name2fixturedefs.values()]
    chosen = getattr(item, "callspec", None)
    for value in chosen.params.values() if chosen else ():
        if isinstance(value, str) and value.isidentifier():
            found = item.session._fixturemanager.getfixturedefs(value, item) or ()
            fixtures += [definition.func for definition in found]
    seen: set[int] = set()
    return any(_reaches(called, seen) for called in (item.function, *fixtures))


def _reaches(found: object, seen: set[int]) -> bool:
    if any(found is one for one in _STARTS):
        return True
    found = getattr(getattr(found, "hypothesis", None), "inner_test", found)
    found = getattr(found, "__wrapped__", found)
    if id(found) in seen or not str(getattr(found, "__module__", "")).startswith(_OURS):
        return False
    seen.add(id(found))
    if isinstance(found, type):
        return any(_reaches(method, seen) for base in found.__mro__ for method in vars(base).values())
    return isinstance(found, FunctionType) and any(
        _reaches(referred, seen) for referred in _referred(found.__code__, found.__globals__)
    )


def _referred(code: CodeType, names: dict[str, object]) -> Iterator[object]:
    for name in code.co_names:
        found = names.get(name)
        yield found
        if found is os or (isinstance(found, ModuleType) and found.__name__.startswith(_OURS)):
            yield from (vars(found).get(inside) for inside in code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _referred(constant, names)


@cache
def refuse_processes() -> None:
    """From now on this process starts no other: whoever tries gets an error."""

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
            raise AssertionError(
                "no test of a fast run starts a process; tests/processes.py should have found it"
            )

    sys.addaudithook(refuse)
