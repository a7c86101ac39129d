"""`scrapy export` by the real command line, and Pythons that lack something or tell something."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.standin import ROOT

_OURS = ("CARS_", "SCRAPY_", "REDIS_", "MONGO_", "POSTGRES_", "JOBDIR")
_SECONDS = 120

WITHOUT_PYARROW = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""A Python on which pyarrow is not installed."""

TELLS_ITS_PEAK = """
import atexit, os, re

def tell():
    status = open("/proc/self/status").read()
    with open(os.environ["PEAK_FILE"], "w") as file:
        file.write(re.search(r"VmHWM:\\s+([0-9]+) kB", status)[1])

atexit.register(tell)
"""
"""A Python that leaves the size of its largest resident set, in KiB, in the file that PEAK_FILE names."""


@dataclass(frozen=True)
class Done:
    """How a command has ended."""

    status: int
    out: bytes
    err: str


def python_that(does: str, directory: Path) -> dict[str, str]:
    """The environment of a Python that runs the given program when it starts."""
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(does)
    return {"PYTHONPATH": str(directory)}


def export(output_dir: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
    """Run `scrapy export` on what a crawl has left in `output_dir`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "export", *arguments],
        cwd=ROOT,
        env={**inherited, "CARS_OUTPUT_DIR": str(output_dir), **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr.decode())
