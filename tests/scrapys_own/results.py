"""What the runs say, side by side: which tests differ, and whether the scheduler that was meant has run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree as ET

STOCK_SCHEDULER = "scrapy.core.scheduler.Scheduler"
MOST_REPLACED = 10


@dataclass(frozen=True)
class Results:
    """One run: each test's outcome (passed, failed, skipped) and the schedulers that its crawls have had."""

    outcomes: Mapping[str, str]
    schedulers: Mapping[str, list[str]]

    def count(self, outcome: str) -> int:
        return sum(each == outcome for each in self.outcomes.values())


def read_results(junit: Path, record: Path) -> Results:
    """A run's results, out of pytest's XML and the plugin's record."""
    outcomes: dict[str, str] = {}
    for case in ET.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        outcomes[name] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
    schedulers: dict[str, list[str]] = {}
    if record.exists():
        for line in record.read_text().splitlines():
            entry = json.loads(line)
            schedulers.setdefault(_junit_name(entry["test"]), []).extend(entry["schedulers"])
    return Results(outcomes, schedulers)


def _junit_name(nodeid: str) -> str:
    """`tests/test_crawl.py::TestCrawl::test_delay[x]` as pytest's XML has it: with dots."""
    path, *names = nodeid.split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *names])


def read_replaced(path: Path) -> dict[str, str]:
    """The tests that may fail with the add-on, and why; raises ValueError for a line without a reason, or too many."""
    found = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition("  ")
            if not reason.strip():
                raise ValueError(f"{path.name}: no reason is given for {name}")
            found[name] = reason.strip()
    if len(found) > MOST_REPLACED:
        raise ValueError(f"{path.name}: {len(found)} tests, {MOST_REPLACED} at most")
    return found


def complaints(
    stock: Results, other: Results, package: str, replaced: Mapping[str, str], *, mode: str
) -> Iterator[str]:
    """What is wrong with a run with the add-on, whose scheduler is in `package`; nothing when all is well."""
    passed = [name for name, outcome in stock.outcomes.items() if outcome == "passed"]
    for name in passed:
        found = other.outcomes.get(name, "missing")
        if found != "passed" and not any(fnmatchcase(name, pattern) for pattern in replaced):
            yield f"{mode}: {found}: {name}"
    ours = 0
    for name in passed:
        if STOCK_SCHEDULER not in stock.schedulers.get(name, []):
            continue
        ran = other.schedulers.get(name, [])
        ours += any(path.startswith(f"{package}.") for path in ran)
        if STOCK_SCHEDULER in ran:
            yield f"{mode}: crawled with Scrapy's own scheduler: {name}"
    if not ours:
        yield f"{mode}: in no test has a scheduler of {package} run"


def stale(runs: Mapping[str, Results], replaced: Mapping[str, str]) -> Iterator[str]:
    """Tests that are listed as replaced, and pass in every run with the add-on, or are not there."""
    for pattern in replaced:
        outcomes = {
            outcome
            for results in runs.values()
            for name, outcome in results.outcomes.items()
            if fnmatchcase(name, pattern)
        }
        if "failed" not in outcomes:
            yield f"replaced.txt: does not fail: {pattern}"
