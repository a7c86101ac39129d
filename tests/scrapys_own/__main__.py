"""Run Scrapy's own tests as they come, then with the add-on, then with the add-on and a JOBDIR for each test."""
# ruff: noqa: T201 (a command, which prints its table)

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from tests.scrapys_own.results import Results, complaints, read_replaced, read_results, stale
from tests.scrapys_own.source import HERE, environment, pinned, unpacked
from tests.standin import ROOT

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "scrapys-own-tests"
FILES = (
    "test_closespider",
    "test_crawl",
    "test_downloaderslotssettings",
    "test_engine",
    "test_engine_close_spider",
    "test_engine_loop",
    "test_engine_stop_download_bytes",
    "test_engine_stop_download_headers",
    "test_feedexport",
    "test_feedexport_batch",
    "test_logstats",
    "test_pipeline_crawl",
    "test_pipelines",
    "test_request_attribute_binding",
    "test_request_cb_kwargs",
    "test_request_left",
    "test_signals",
    "test_spider_crawl",
    "test_spider_start",
    "test_spidermiddleware_output_chain",
    "test_spidermiddleware_process_start",
    "test_spidermiddleware_start",
)
"""Those in which crawls run, in the process of the test."""
MODES = ("stock", "bare", "jobdir")


def main() -> int:
    """0 when no test that passes as it comes fails with the add-on, but for those in `replaced.txt`."""
    options = _options()
    options.cache.mkdir(parents=True, exist_ok=True)
    source, python = unpacked(options.cache), environment(options.cache)
    runs: dict[str, Results] = {}
    columns = "".join(f"{name:>8}" for name in ("passed", "failed", "skipped", "differ", "s"))
    print(f"Scrapy {pinned()[0]}, {len(FILES)} files\n\n{'':<8}{columns}", flush=True)
    for mode in [mode for mode in MODES if options.only in (None, mode)]:
        began = time.monotonic()
        results = runs[mode] = _run(mode, source, python, options)
        differ = sum(
            results.outcomes.get(name) != outcome
            for name, outcome in runs.get("stock", results).outcomes.items()
        )
        counts = "".join(f"{results.count(outcome):>8}" for outcome in ("passed", "failed", "skipped"))
        print(f"{mode:<8}{counts}{differ:>8}{time.monotonic() - began:>8.0f}", flush=True)
    with_addon = {mode: results for mode, results in runs.items() if mode != "stock"}
    wrong = []
    if "stock" not in runs:
        wrong = [
            f"{mode}: failed: {name}"
            for mode, results in runs.items()
            for name, outcome in results.outcomes.items()
            if outcome == "failed"
        ]
    else:
        replaced = read_replaced(HERE / "replaced.txt")
        package = options.addon.partition(".")[0]
        wrong += [
            f"stock: failed: {name}"
            for name, outcome in runs["stock"].outcomes.items()
            if outcome == "failed"
        ]
        wrong += chain.from_iterable(
            complaints(runs["stock"], results, package, replaced, mode=mode)
            for mode, results in with_addon.items()
        )
        if len(with_addon) == 2 and not options.pytest:
            wrong += stale(with_addon, replaced)
    print("", *wrong, sep="\n")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scrapys_own", description=__doc__)
    parser.add_argument("--only", choices=MODES, help="one of the runs (default: all)")
    parser.add_argument("--addon", default="scrapy_durable.Addon", help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=CACHE, help="what is downloaded (default: %(default)s)")
    parser.add_argument("--jobs", default="2", help="tests at once (default: 2)")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    return parser.parse_args()


def _run(mode: str, source: Path, python: Path, options: argparse.Namespace) -> Results:
    """One run of all files; what pytest prints is kept beside its results, in the cache."""
    junit, record, log = (options.cache / f"{mode}{suffix}" for suffix in (".xml", ".jsonl", ".log"))
    for path in (junit, record):
        path.unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCRAPY", "PYTEST_"))}
    chosen = {
        "PYTHONPATH": os.pathsep.join(map(str, (source, HERE, ROOT))),
        "SCRAPYS_OWN_RECORD": str(record),
        "SCRAPYS_OWN_ADDON": "" if mode == "stock" else options.addon,
        "SCRAPYS_OWN_JOBDIR": "1" if mode == "jobdir" else "",
    }
    command: Sequence[object] = [
        *(python, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider"),
        *("-n", options.jobs, "--timeout", "300", f"--junitxml={junit}", "-o", "junit_family=xunit2"),
        *(f"tests/{name}.py" for name in FILES),
        *options.pytest,
    ]
    with log.open("wb") as output:
        done = subprocess.run(
            list(map(str, command)), cwd=source, env={**kept, **chosen}, stdout=output, stderr=output
        )
    if done.returncode not in (0, 1):
        sys.exit(f"pytest ended with {done.returncode}:\n{log.read_text()[-5_000:]}")
    return read_results(junit, record)


if __name__ == "__main__":
    sys.exit(main())
