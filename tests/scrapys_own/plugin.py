"""A pytest plugin for Scrapy's own tests: it makes an add-on everybody's default, and writes down which scheduler ran.

It runs in the tests' own environment, where `tests` is Scrapy's package: so it imports nothing of this project.

    SCRAPYS_OWN_ADDON    the add-on's path; none when it is not set
    SCRAPYS_OWN_JOBDIR   set: each test has a fresh JOBDIR
    SCRAPYS_OWN_RECORD   the file to which each test's schedulers are appended, as a line of JSON
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_running: dict[str, Any] = {}
"""The test that runs, and the schedulers of the crawls that it has opened."""


def pytest_configure(config: pytest.Config) -> None:
    """Change the defaults before a test module reads them, and look at each engine that is made."""
    from scrapy.core.engine import ExecutionEngine
    from scrapy.settings import default_settings

    if addon := os.environ.get("SCRAPYS_OWN_ADDON"):
        default_settings.ADDONS = {addon: 500}
    construct = ExecutionEngine.__init__

    def looked_at(self: ExecutionEngine, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        scheduler = self.scheduler_cls
        _running.setdefault("schedulers", []).append(f"{scheduler.__module__}.{scheduler.__qualname__}")

    ExecutionEngine.__init__ = looked_at  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Append the test's schedulers to the record."""
    _running.clear()
    result = yield
    line = json.dumps({"test": item.nodeid, "schedulers": _running.get("schedulers", [])})
    with Path(os.environ["SCRAPYS_OWN_RECORD"]).open("a") as record:
        record.write(line + "\n")
    return result


@pytest.fixture(autouse=True)
def fresh_jobdir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `JOBDIR` of its own for each test, as the default of whatever crawls in it."""
    from scrapy.settings import default_settings

    if os.environ.get("SCRAPYS_OWN_JOBDIR"):
        monkeypatch.setattr(default_settings, "JOBDIR", str(tmp_path_factory.mktemp("jobdir")))
